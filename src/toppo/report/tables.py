"""The tables and sentences of the report."""

from typing import NamedTuple

import numpy as np

from toppo.report.compare import OURS, Aggregate, Group, Pair, best_of, count_runs, span, verdict
from toppo.report.statistics import MIN_FOR_IQM, Estimate, bootstrap, iqm, mean, pooled

FINAL_COLUMNS = ("task", "arm", "steps", "runs", "final, mean", "final, IQM", "area, mean", "area, IQM", "test, mean")
PAIR_COLUMNS = ("task", "pair", "steps", "final", "area", "final return is")
AGGREGATE_COLUMNS = ("arm", "runs per task", "IQM", "mean", "optimality gap", "P(toppo is better)")
TIME_COLUMNS = ("task", "arm", "runs", "ms per 1000 steps")
SETTING_COLUMNS = ("arm", "tasks", "settings")


class Cell(NamedTuple):
    """One cell of a table; ``kind`` is a class of the page's style."""

    text: str
    kind: str = ""


def number(value: float | None) -> str:
    """Four digits; from a thousand on the whole number, in groups of three."""
    if value is None or np.isnan(value):
        return "-"
    return f"{value:,.0f}" if 999.95 <= abs(value) < 1e15 else f"{value:.4g}"


def show(estimate: Estimate | None) -> str:
    """A number with its interval, if it has one."""
    if estimate is None or estimate.low is None or np.isnan(estimate.value):
        return number(estimate.value if estimate else None)
    return f"{number(estimate.value)} [{number(estimate.low)}, {number(estimate.high)}]"


def show_iqm(estimate: Estimate, runs: int) -> str:
    """An IQM of so many runs; of few it is the mean, and is called so."""
    return show(estimate) + (" (mean)" if runs < MIN_FOR_IQM else "")


def summary(groups: list[Group], pairs: list[Pair]) -> list[str]:
    """Who wins where, by how much, and how sure that is."""
    sentences = []
    for env in dict.fromkeys(g.env for g in groups):
        here = [g for g in groups if g.env == env]
        best = best_of(here)
        reached = f"{number(best.final().mean())} ({count_runs(len(best.runs))})"
        if len(here) == 1:
            sentences.append(f"{env}: {best.arm} reached {reached}.")
            continue
        told = f"{env}: the highest final return is {best.arm}'s, {reached}."
        if shorter := [g for g in here if g.budget < best.budget]:
            told += f" That is after {best.budget:,} steps, and without "
            told += ", ".join(f"{g.arm} ({g.budget:,} steps)" for g in shorter) + "."
        ours = [p for p in pairs if p.env == env]
        few = [p for p in ours if p.final.low is None and not np.isnan(p.final.value)]
        if sure := [f"{p.theirs} {show(p.final)} ({verdict(p)})" for p in ours if p not in few]:
            told += f" {ours[0].ours} minus the others: {'; '.join(sure)}."
        if few:
            told += f" {ours[0].ours} minus the others, with too few runs to judge: "
            told += ", ".join(f"{p.theirs} {show(p.final)} ({count_runs(p.final.runs)})" for p in few) + "."
        sentences.append(told)
    return sentences


def across_tasks(found: list[Aggregate]) -> list[str]:
    """What follows over all tasks together, if there are several."""
    if not found or len(found[0].runs) < 2:
        return []
    told = f"Across {len(found[0].runs)} tasks, with a random policy at 0 and ppo at 1, the IQM of the scores is "
    told += ", ".join(f"{a.arm} {show_iqm(a.iqm, sum(a.runs))}" for a in found) + "."
    if others := [a for a in found if a.improvement is not None]:
        told += f" The probability that a run of {OURS} is better than one of "
        told += "; ".join(f"{a.arm} is {show(a.improvement)}" for a in others) + "."
    return [told]


def finals(groups: list[Group]) -> list[list[Cell]]:
    """Final return, area and test return of every arm on every task."""
    rows = []
    best = {env: best_of([g for g in groups if g.env == env]) for env in {g.env for g in groups}}
    for g in groups:
        final, area, tests = g.final(), g.area(), g.tests()
        rows.append(
            [
                Cell(g.env),
                Cell(g.arm, "best" if g is best[g.env] else ""),
                Cell(f"{g.budget:,}", "n"),
                Cell(str(len(g.runs)), "n"),
                Cell(show(bootstrap([final], pooled(mean))), "n"),
                Cell(show_iqm(bootstrap([final], pooled(iqm)), len(final)), "n"),
                Cell(show(bootstrap([area], pooled(mean))), "n"),
                Cell(show_iqm(bootstrap([area], pooled(iqm)), len(area)), "n"),
                Cell(show(bootstrap([tests], pooled(mean))) if len(tests) else "-", "n"),
            ]
        )
    return rows


def pairs(found: list[Pair]) -> list[list[Cell]]:
    """Differences of means."""
    kinds = {1: "up", -1: "down", 0: ""}
    return [
        [
            Cell(p.env),
            Cell(f"{p.ours} - {p.theirs}"),
            Cell(f"{p.budget:,}", "n"),
            Cell(show(p.final), "n"),
            Cell(show(p.area), "n"),
            Cell(verdict(p), kinds[p.final.side]),
        ]
        for p in found
    ]


def aggregates(found: list[Aggregate]) -> list[list[Cell]]:
    """Every arm across the tasks."""
    return [
        [
            Cell(a.arm),
            Cell(span(a.runs), "n"),
            Cell(show_iqm(a.iqm, sum(a.runs)), "n"),
            *(Cell(show(e), "n") for e in (a.mean, a.gap, a.improvement)),
        ]
        for a in found
    ]


def times(groups: list[Group]) -> list[list[Cell]]:
    """Run times, of the runs whose logs are there."""
    rows = []
    for g in groups:
        seconds = [r.seconds for r in g.runs if r.seconds is not None]
        if seconds:
            rows.append(
                [
                    Cell(g.env),
                    Cell(g.arm),
                    Cell(str(len(seconds)), "n"),
                    Cell(number(1e3 * float(np.mean(seconds))), "n"),
                ]
            )
    return rows


def settings(groups: list[Group]) -> list[list[Cell]]:
    """The settings of every arm, and on which tasks it has them."""
    tasks: dict[tuple[str, str], dict[str, None]] = {}
    for arm in dict.fromkeys(g.arm for g in groups):
        for run in (r for g in groups if g.arm == arm for r in g.runs):
            told = ", ".join(f"{k} = {v}" for k, v in run.settings.items())
            tasks.setdefault((arm, told), {})[run.env] = None
    return [[Cell(arm), Cell(", ".join(envs)), Cell(told)] for (arm, told), envs in tasks.items()]


def versions(groups: list[Group]) -> list[list[Cell]]:
    """Every version that any run used."""
    found: dict[str, set[str]] = {}
    for run in (r for g in groups for r in g.runs):
        for package, version in run.versions.items():
            found.setdefault(package, set()).add(version)
    return [[Cell(package), Cell(", ".join(sorted(kinds)))] for package, kinds in sorted(found.items())]
