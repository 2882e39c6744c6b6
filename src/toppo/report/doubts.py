"""Sentences about data that are damaged, few, or do not fit together."""

import numpy as np

from toppo.report.curves import Run

FINAL_SHARE = 0.1  # the final return is the mean over this last part of the steps


def name_of(run: Run) -> str:
    """Return the name of a run in sentences."""
    return f"{run.arm} on {run.env}, seed {run.seed}"


def has_return(run: Run) -> bool:
    """Tell whether an episode of the run has ended."""
    return not np.isnan(run.returns).all()


def doubts_about(runs: list[Run]) -> list[str]:
    """Return sentences about data that are damaged, few, or do not fit together."""
    found = [f"{name_of(r)}: {sentence}" for r in runs for sentence in r.damage]
    found += [
        f"{name_of(r)}: stopped early by {r.stopped_by}, after {r.budget:,} of {r.planned:,} steps"
        for r in runs
        if r.stopped_by
    ]
    found += [
        f"{name_of(r)}: no episode ended in the last tenth of its steps; its final return is that of earlier episodes"
        for r in runs
        if np.isnan(r.returns[r.grid > r.budget * (1 - FINAL_SHARE)]).all()
    ]
    for env in sorted({r.env for r in runs}):
        found += _doubts_on(env, [r for r in runs if r.env == env])
    for package in sorted({k for r in runs for k in r.versions}):
        if len(kinds := sorted({r.versions[package] for r in runs if package in r.versions})) > 1:
            found.append(f"the runs used different versions of {package}: {', '.join(kinds)}")
    return found


def _doubts_on(env: str, runs: list[Run]) -> list[str]:
    found = []
    arms = {arm: [r for r in runs if r.arm == arm] for arm in sorted({r.arm for r in runs})}
    if len({len(mine) for mine in arms.values()}) > 1:
        counts = ", ".join(f"{arm} {len(mine)}" for arm, mine in arms.items())
        found.append(f"{env}: unequal numbers of runs ({counts})")
    if len(budgets := sorted({r.budget for r in runs})) > 1:
        steps = " and ".join(f"{budget:,}" for budget in budgets)
        found.append(f"{env}: runs of {steps} steps; pairs and scores use the fewest steps")
    for arm, mine in arms.items():
        if len({r.seed for r in mine}) < len(mine):
            found.append(f"{env}: {arm} has one seed more than once")
    return found
