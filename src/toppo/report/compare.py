"""Who wins where, by how much, and how sure that is."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from toppo.report.load import FINAL_SHARE, Loaded, Run
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
    budget: dict[str, int]  # steps that all of these arms have
    arms: dict[str, list[np.ndarray]]  # of every arm that ran on all of these environments
    left_out: dict[str, str]  # environments, and why they have no score


class Aggregate(NamedTuple):
    """One arm across all tasks."""

    arm: str
    runs: tuple[int, ...]  # by task
    iqm: Estimate
    mean: Estimate
    gap: Estimate
    improvement: Estimate | None  # probability that a run of ours beats one of this arm; None for ours


def groups_of(loaded: Loaded) -> list[Group]:
    """Runs by environment and arm, ours first, the baseline second."""
    order = {OURS: 0, BASELINE: 1}
    keys = sorted({(r.env, r.arm) for r in loaded.runs}, key=lambda k: (k[0], order.get(k[1], 2), k[1]))
    return [Group(arm, env, [r for r in loaded.runs if (r.env, r.arm) == (env, arm)]) for env, arm in keys]


def fill_gaps(values: np.ndarray) -> np.ndarray:
    """Gaps take the value before them."""
    known = np.where(np.isnan(values), 0, np.arange(len(values)))
    return np.asarray(values[np.maximum.accumulate(known)])


def final_return(run: Run, budget: int) -> float:
    """Mean return over the last part of the first ``budget`` steps."""
    return _part(run, budget * (1 - FINAL_SHARE), budget)


def _part(run: Run, after: float, until: float) -> float:
    values = fill_gaps(run.returns)[(run.grid > after) & (run.grid <= until)]
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


def span(counts: Sequence[int]) -> str:
    """So many, or from so many to so many."""
    least, most = min(counts), max(counts)
    return f"{least} to {most}" if least < most else f"{most}"


def count_runs(*counts: int) -> str:
    """So many runs, or from so many to so many."""
    return f"{span(counts)} run{'' if max(counts) == 1 else 's'}"


def best_of(groups: list[Group]) -> Group:
    """The arm with the highest mean final return; an arm that has fewer steps than others does not compete."""
    most = max(g.budget for g in groups)
    return max((g for g in groups if g.budget == most), key=lambda g: float(g.final().mean()))


def verdict(pair: Pair) -> str:
    """One word on the final return."""
    if np.isnan(pair.final.value):
        return "open: a run has no return"
    if pair.final.low is None:
        return f"open: {count_runs(pair.final.runs)}, no interval below 5"
    return {1: "higher", -1: "lower", 0: "no clear difference"}[pair.final.side]


def scores_of(groups: list[Group], random: dict[str, float]) -> Scores:
    """Scores on the environments that have a baseline above a random policy, after steps that all these arms have."""
    by = {(g.arm, g.env): g for g in groups}
    everywhere = dict.fromkeys(g.env for g in groups)
    left_out = {e: why for e in everywhere if (why := _unscored(by.get((BASELINE, e)), random.get(e)))}
    envs = [e for e in everywhere if e not in left_out]
    arms = [a for a in dict.fromkeys(g.arm for g in groups) if envs and all((a, e) in by for e in envs)]
    budget = {e: min(by[a, e].budget for a in arms) for e in envs}
    finals = {(a, e): by[a, e].final(budget[e]) for a in arms for e in envs}
    one = {e: float(finals[BASELINE, e].mean()) for e in envs}
    for env in envs:
        if not one[env] > random[env] or any(np.isnan(finals[a, env]).any() for a in arms):
            left_out[env] = f"where {BASELINE} is not above the random policy, or a run has no return, "
            left_out[env] += f"after the {budget[env]:,} steps that all arms have"
    kept = [e for e in envs if e not in left_out]
    strata = {a: [(finals[a, e] - random[e]) / (one[e] - random[e]) for e in kept] for a in arms if kept}
    return Scores({e: random[e] for e in kept}, {e: one[e] for e in kept}, budget, strata, left_out)


def _unscored(baseline: Group | None, zero: float | None) -> str:
    """Why there can be no score on an environment; empty if there can."""
    if baseline is None:
        return f"where there is no {BASELINE}"
    if zero is None:
        return "where no random policy was measured"
    return "" if baseline.final().mean() > zero else f"where {BASELINE} is not above the random policy"


def aggregates_of(scores: Scores) -> list[Aggregate]:
    """Every arm across the tasks."""
    found = []
    for arm, strata in scores.arms.items():
        against = [*scores.arms[OURS], *strata] if OURS in scores.arms and arm != OURS else None
        found.append(
            Aggregate(
                arm,
                tuple(map(len, strata)),
                bootstrap(strata, pooled(iqm)),
                bootstrap(strata, pooled(mean)),
                bootstrap(strata, pooled(optimality_gap)),
                bootstrap(against, probability_of_improvement) if against else None,
            )
        )
    return found
