"""Compare arms: which one wins, by how much, and how sure that is."""

from typing import NamedTuple

import numpy as np

from toppo.report import statistics as stats
from toppo.report.curves import Run
from toppo.report.load import FINAL_SHARE, Loaded
from toppo.report.statistics import Estimate
from toppo.report.text import counted

OURS = "toppo"
BASELINE = "ppo"


class Group(NamedTuple):
    """The runs of one arm on one environment."""

    arm: str
    env: str
    runs: list[Run]

    @property
    def budget(self) -> int:
        """Return the steps that all of its runs have."""
        return min(r.budget for r in self.runs)

    def final(self, budget: int | None = None) -> np.ndarray:
        """Return the mean return over the last tenth of the first ``budget`` steps of every run.  [runs]"""
        until = budget or self.budget
        return np.array([mean_return(r, until * (1 - FINAL_SHARE), until) for r in self.runs])

    def area(self, budget: int | None = None) -> np.ndarray:
        """Return the mean return over the first ``budget`` steps of every run.  [runs]"""
        return np.array([mean_return(r, 0, budget or self.budget) for r in self.runs])

    def tests(self) -> np.ndarray:
        """Return the mean return of the test episodes at the end, of the runs that have any."""
        return np.array([np.mean(r.tests) for r in self.runs if r.tests])


class Pair(NamedTuple):
    """One arm against another on one environment: differences of the means."""

    env: str
    ours: str
    theirs: str
    budget: int
    final: Estimate
    area: Estimate


class Scores(NamedTuple):
    """Scores across tasks: (return - random policy) / (mean final return of PPO - random policy)."""

    zero: dict[str, float]  # by environment
    one: dict[str, float]
    budget: dict[str, int]  # steps that all of these arms have
    arms: dict[str, list[np.ndarray]]  # [runs] per environment, of every arm that ran on all of them
    left_out: dict[str, str]  # environments, and why they have no score


class Aggregate(NamedTuple):
    """One arm across all tasks."""

    arm: str
    runs: tuple[int, ...]  # by task
    iqm: Estimate
    mean: Estimate
    gap: Estimate
    improvement: Estimate | None  # probability that a run of toppo beats one of this arm; None for toppo


def groups_of(loaded: Loaded) -> list[Group]:
    """Group runs by environment and arm, toppo first, ppo second."""
    order = {OURS: 0, BASELINE: 1}
    keys = sorted({(r.env, r.arm) for r in loaded.runs}, key=lambda k: (k[0], order.get(k[1], 2), k[1]))
    return [Group(arm, env, [r for r in loaded.runs if (r.env, r.arm) == (env, arm)]) for env, arm in keys]


def fill_gaps(values: np.ndarray) -> np.ndarray:
    """Replace every gap by the value before it.  [points] -> [points]"""
    known = np.where(np.isnan(values), 0, np.arange(len(values)))
    return np.asarray(values[np.maximum.accumulate(known)])


def mean_return(run: Run, after: float, until: float) -> float:
    """Return the mean return at the points of the grid in (after, until]."""
    values = fill_gaps(run.returns)[(run.grid > after) & (run.grid <= until)]
    values = values[~np.isnan(values)]
    return float(values.mean()) if len(values) else float("nan")


def pairs_of(groups: list[Group]) -> list[Pair]:
    """Compare toppo, or the first arm if toppo did not run, with every other arm on the same environment."""
    found = []
    for env in dict.fromkeys(g.env for g in groups):
        first, *others = [g for g in groups if g.env == env]
        for other in others:
            budget = min(first.budget, other.budget)
            final = stats.bootstrap([first.final(budget), other.final(budget)], stats.difference)
            area = stats.bootstrap([first.area(budget), other.area(budget)], stats.difference)
            found.append(Pair(env=env, ours=first.arm, theirs=other.arm, budget=budget, final=final, area=area))
    return found


def best_of(groups: list[Group]) -> Group:
    """Return the arm with the highest mean final return among the arms with the most steps."""
    most = max(g.budget for g in groups)
    return max((g for g in groups if g.budget == most), key=lambda g: float(g.final().mean()))


def verdict(pair: Pair) -> str:
    """Say in a word which final return is higher."""
    if np.isnan(pair.final.value):
        return "open: a run has no return"
    if pair.final.low is None:
        return f"open: {counted('run', pair.final.runs)}, an interval needs {stats.MIN_FOR_INTERVAL}"
    return {1: "higher", -1: "lower", 0: "no clear difference"}[pair.final.side]


def scores_of(groups: list[Group], random: dict[str, float]) -> Scores:
    """Score every arm on the environments where ppo is above a random policy, after steps that all arms have."""
    by = {(g.arm, g.env): g for g in groups}
    all_envs = dict.fromkeys(g.env for g in groups)
    left_out = {e: why for e in all_envs if (why := _why_unscored(by.get((BASELINE, e)), random.get(e)))}
    envs = [e for e in all_envs if e not in left_out]
    arms = [a for a in dict.fromkeys(g.arm for g in groups) if envs and all((a, e) in by for e in envs)]
    budget = {e: min(by[a, e].budget for a in arms) for e in envs}
    finals = {(a, e): by[a, e].final(budget[e]) for a in arms for e in envs}
    ppo = {e: float(finals[BASELINE, e].mean()) for e in envs}
    for env in envs:
        if not ppo[env] > random[env] or any(np.isnan(finals[a, env]).any() for a in arms):
            left_out[env] = f"where {BASELINE} is not above the random policy, or a run has no return, "
            left_out[env] += f"after the {budget[env]:,} steps that all arms have"
    kept = [e for e in envs if e not in left_out]
    zero = {e: random[e] for e in kept}
    one = {e: ppo[e] for e in kept}
    strata = {a: [(finals[a, e] - zero[e]) / (one[e] - zero[e]) for e in kept] for a in arms if kept}
    return Scores(zero=zero, one=one, budget=budget, arms=strata, left_out=left_out)


def _why_unscored(baseline: Group | None, zero: float | None) -> str:
    """Say why there can be no score on an environment, or nothing if there can."""
    if baseline is None:
        return f"where there is no {BASELINE}"
    if zero is None:
        return "where no random policy was measured"
    return "" if baseline.final().mean() > zero else f"where {BASELINE} is not above the random policy"


def aggregates_of(scores: Scores) -> list[Aggregate]:
    """Aggregate the scores of every arm over all tasks."""
    ours = scores.arms.get(OURS)
    return [
        Aggregate(
            arm=arm,
            runs=tuple(map(len, strata)),
            iqm=stats.bootstrap(strata, stats.pooled(stats.iqm)),
            mean=stats.bootstrap(strata, stats.pooled(stats.mean)),
            gap=stats.bootstrap(strata, stats.pooled(stats.optimality_gap)),
            improvement=stats.bootstrap([*ours, *strata], stats.probability_of_improvement)
            if ours and arm != OURS
            else None,
        )
        for arm, strata in scores.arms.items()
    ]
