"""Who wins where, by how much, and how sure that is."""

from typing import NamedTuple

import numpy as np

from toppo.report.load import Loaded, Run
from toppo.report.statistics import (
    Estimate,
    bootstrap,
    difference,
    iqm,
    mean,
    optimality_gap,
    pooled,
    probability_of_improvement,
)

FINAL_SHARE = 0.1  # the final return is the mean over this last part of the steps
OURS, BASELINE = "toppo", "ppo"


class Group(NamedTuple):
    """The runs of one arm on one environment."""

    arm: str
    env: str
    runs: list[Run]

    @property
    def budget(self) -> int:
        """Steps that all of its runs have."""
        return min(r.budget for r in self.runs)

    def final(self, budget: int | None = None) -> np.ndarray:
        """Final return of every run, at the end of ``budget`` steps.  [runs]"""
        return np.array([final_return(r, budget or self.budget) for r in self.runs])

    def area(self, budget: int | None = None) -> np.ndarray:
        """Mean return over the first ``budget`` steps of every run.  [runs]"""
        return np.array([_part(r, 0, budget or self.budget) for r in self.runs])

    def tests(self) -> np.ndarray:
        """Mean return of the test episodes at the end, of the runs that have any."""
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
    arms: dict[str, list[np.ndarray]]  # of every arm that ran on all of these environments
    left_out: dict[str, str]  # environments, and why they have no score


class Aggregate(NamedTuple):
    """One arm across all tasks."""

    arm: str
    iqm: Estimate
    mean: Estimate
    gap: Estimate
    improvement: Estimate | None  # probability that a run of ours beats one of this arm; None for ours


def groups_of(loaded: Loaded) -> list[Group]:
    """Runs by environment and arm, ours first, the baseline second."""
    order = {OURS: 0, BASELINE: 1}
    keys = sorted({(r.env, r.arm) for r in loaded.runs}, key=lambda k: (k[0], order.get(k[1], 2), k[1]))
    return [Group(arm, env, [r for r in loaded.runs if (r.env, r.arm) == (env, arm)]) for env, arm in keys]


def filled(values: np.ndarray) -> np.ndarray:
    """Gaps take the value before them."""
    known = np.where(np.isnan(values), 0, np.arange(len(values)))
    return np.asarray(values[np.maximum.accumulate(known)])


def final_return(run: Run, budget: int) -> float:
    """Mean return over the last part of the first ``budget`` steps."""
    return _part(run, budget * (1 - FINAL_SHARE), budget)


def _part(run: Run, after: float, until: float) -> float:
    values = filled(run.returns)[(run.grid > after) & (run.grid <= until)]
    values = values[~np.isnan(values)]
    return float(values.mean()) if len(values) else float("nan")


def pairs_of(groups: list[Group]) -> list[Pair]:
    """Ours, or the first arm if ours is not there, against every other arm on the same environment."""
    found = []
    for env in dict.fromkeys(g.env for g in groups):
        first, *others = [g for g in groups if g.env == env]
        for other in others:
            budget = min(first.budget, other.budget)
            final = bootstrap([first.final(budget), other.final(budget)], difference)
            area = bootstrap([first.area(budget), other.area(budget)], difference)
            found.append(Pair(env, first.arm, other.arm, budget, final, area))
    return found


def of_runs(*counts: int) -> str:
    """So many runs, or from so many to so many."""
    least, most = min(counts), max(counts)
    return f"{least} to {most} runs" if least < most else f"{most} run{'s' if most > 1 else ''}"


def verdict(pair: Pair) -> str:
    """One word on the final return."""
    if np.isnan(pair.final.value):
        return "open: a run has no return"
    if pair.final.low is None:
        return f"open: {of_runs(pair.final.runs)}, no interval below 5"
    return {1: "higher", -1: "lower", 0: "no clear difference"}[pair.final.side]


def scores_of(groups: list[Group], random: dict[str, float]) -> Scores | None:
    """Scores on the environments that have a baseline and a random policy's return; None if there is no such."""
    one = {g.env: float(g.final().mean()) for g in groups if g.arm == BASELINE}
    left_out = {}
    for env in dict.fromkeys(g.env for g in groups):
        if env not in one:
            left_out[env] = f"where there is no {BASELINE}"
        elif env not in random:
            left_out[env] = "where no random policy was measured"
        elif not one[env] > random[env]:
            left_out[env] = f"where {BASELINE} is not above the random policy"
    envs = [env for env in one if env not in left_out]
    by_arm = {(g.arm, g.env): g for g in groups}
    arms = [a for a in dict.fromkeys(g.arm for g in groups) if all((a, env) in by_arm for env in envs)]
    if not envs:
        return None
    strata = {
        arm: [(by_arm[arm, env].final() - random[env]) / (one[env] - random[env]) for env in envs] for arm in arms
    }
    return Scores({e: random[e] for e in envs}, {e: one[e] for e in envs}, strata, left_out)


def aggregates_of(scores: Scores) -> list[Aggregate]:
    """Every arm across the tasks."""
    found = []
    for arm, strata in scores.arms.items():
        against = [*scores.arms[OURS], *strata] if OURS in scores.arms and arm != OURS else None
        found.append(
            Aggregate(
                arm,
                bootstrap(strata, pooled(iqm)),
                bootstrap(strata, pooled(mean)),
                bootstrap(strata, pooled(optimality_gap)),
                bootstrap(against, probability_of_improvement) if against else None,
            )
        )
    return found
