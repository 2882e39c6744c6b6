"""Compare arms: which one wins, by how much, and how sure that is."""

from collections import Counter
from typing import NamedTuple

import numpy as np

from toppo.report import statistics as stats
from toppo.report.arms import natural
from toppo.report.curves import Run
from toppo.report.doubts import FINAL_SHARE
from toppo.report.load import Loaded
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
        return np.array([mean for r in self.runs if (mean := mean_test_return(r)) is not None])


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


class Improvement(NamedTuple):
    """The probability that a run of one arm beats a run of another on the same task, mean over tasks."""

    ours: str
    theirs: str
    budget: dict[str, int]  # steps that are compared, by task
    runs: tuple[int, ...]  # by arm and task
    probability: Estimate


def groups_of(loaded: Loaded) -> list[Group]:
    """Group runs by environment and arm, toppo first, ppo second."""
    order = {OURS: 0, BASELINE: 1}
    keys = sorted({(r.env, r.arm) for r in loaded.runs}, key=lambda k: (k[0], order.get(k[1], 2), natural(k[1])))
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


def mean_test_return(run: Run) -> float | None:
    """Return the mean return of the test episodes at the end: those of the study, else the last during training."""
    if run.tests:
        return float(np.mean(run.tests))
    after = run.evaluations[run.evaluations[:, 0] >= run.budget, 1]
    return float(after[-1]) if len(after) and not np.isnan(after[-1]) else None


def reference_of(groups: list[Group]) -> str:
    """Return the arm that the others are compared with: toppo, else the first of those that ran on most tasks."""
    tasks = Counter(g.arm for g in groups)
    return OURS if OURS in tasks else max(tasks, key=lambda arm: tasks[arm])


def pairs_of(groups: list[Group]) -> list[Pair]:
    """Compare the first arm (toppo, if it ran) with every other arm on the same environment."""
    found = []
    for env in dict.fromkeys(g.env for g in groups):
        first, *others = [g for g in groups if g.env == env]
        for other in others:
            budget = min(first.budget, other.budget)
            final = stats.bootstrap([first.final(budget), other.final(budget)], stats.difference)
            area = stats.bootstrap([first.area(budget), other.area(budget)], stats.difference)
            found.append(Pair(env=env, ours=first.arm, theirs=other.arm, budget=budget, final=final, area=area))
    return found


def improvements_of(groups: list[Group]) -> list[Improvement]:
    """Compare runs of the reference with runs of every other arm, on the tasks that both ran on."""
    by = {(g.arm, g.env): g for g in groups}
    ours = reference_of(groups)
    found = []
    for theirs in dict.fromkeys(g.arm for g in groups if g.arm != ours):
        here = [(by[ours, g.env], g) for g in groups if g.arm == theirs and (ours, g.env) in by]
        budget = {g.env: min(our.budget, g.budget) for our, g in here}
        finals = [(our.final(budget[g.env]), g.final(budget[g.env])) for our, g in here]
        strata = [s for side in zip(*finals, strict=True) for s in side]
        if strata and not np.isnan(np.concatenate(strata)).any():
            probability = stats.bootstrap(strata, stats.probability_of_improvement)
            runs = tuple(map(len, strata))
            found.append(Improvement(ours=ours, theirs=theirs, budget=budget, runs=runs, probability=probability))
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
    return [
        Aggregate(
            arm=arm,
            runs=tuple(map(len, strata)),
            iqm=stats.bootstrap(strata, stats.pooled(stats.iqm)),
            mean=stats.bootstrap(strata, stats.pooled(stats.mean)),
            gap=stats.bootstrap(strata, stats.pooled(stats.optimality_gap)),
        )
        for arm, strata in scores.arms.items()
    ]
