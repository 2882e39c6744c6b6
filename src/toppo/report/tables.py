"""The tables and sentences of the report."""

from typing import NamedTuple

import numpy as np

from toppo.report.compare import Aggregate, Group, Pair, of_runs, verdict
from toppo.report.statistics import LEAST_FOR_IQM, Estimate, bootstrap, iqm, mean, pooled

FINAL_COLUMNS = ("task", "arm", "steps", "runs", "final, mean", "final, IQM", "area, mean", "area, IQM", "test, mean")
PAIR_COLUMNS = ("task", "pair", "steps", "final", "area", "final return is")
AGGREGATE_COLUMNS = ("arm", "runs per task", "IQM", "mean", "optimality gap", "P(toppo is better)")
TIME_COLUMNS = ("task", "arm", "runs", "ms per 1000 steps")


class Cell(NamedTuple):
    """One cell of a table; ``kind`` is a class of the page's style."""

    text: str
    kind: str = ""


def show(estimate: Estimate | None) -> str:
    """A number with its interval, if it has one."""
    if estimate is None or np.isnan(estimate.value):
        return "-"
    if estimate.low is None:
        return f"{estimate.value:.4g}"
    return f"{estimate.value:.4g} [{estimate.low:.4g}, {estimate.high:.4g}]"


def summary(groups: list[Group], pairs: list[Pair]) -> list[str]:
    """Who wins where, by how much, and how sure that is."""
    sentences = []
    for env in dict.fromkeys(g.env for g in groups):
        here = [g for g in groups if g.env == env]
        best = max(here, key=lambda g: float(g.final().mean()))
        reached = f"{best.final().mean():,.4g} ({of_runs(len(best.runs))})"
        if len(here) == 1:
            sentences.append(f"{env}: {best.arm} reached {reached}.")
            continue
        told = f"{env}: the highest final return is {best.arm}'s, {reached}."
        ours = [p for p in pairs if p.env == env]
        few = [p for p in ours if p.final.low is None and not np.isnan(p.final.value)]
        if sure := [f"{p.theirs} {show(p.final)} ({verdict(p)})" for p in ours if p not in few]:
            told += f" {ours[0].ours} minus {'; '.join(sure)}."
        if few:
            told += f" With too few runs to judge, {ours[0].ours} minus "
            told += ", ".join(f"{p.theirs} {show(p.final)} ({p.final.runs})" for p in few) + "."
        sentences.append(told)
    return sentences


def finals(groups: list[Group]) -> list[list[Cell]]:
    """Final return, area and test return of every arm on every task."""
    rows = []
    best = {env: max(g.final().mean() for g in groups if g.env == env) for env in {g.env for g in groups}}
    for g in groups:
        final, area, tests = g.final(), g.area(), g.tests()
        called = " (mean)" if len(final) < LEAST_FOR_IQM else ""
        rows.append(
            [
                Cell(g.env),
                Cell(g.arm, "best" if final.mean() == best[g.env] else ""),
                Cell(f"{g.budget:,}", "n"),
                Cell(str(len(g.runs)), "n"),
                Cell(show(bootstrap([final], pooled(mean))), "n"),
                Cell(show(bootstrap([final], pooled(iqm))) + called, "n"),
                Cell(show(bootstrap([area], pooled(mean))), "n"),
                Cell(show(bootstrap([area], pooled(iqm))) + called, "n"),
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
        [Cell(a.arm), Cell(str(a.iqm.runs), "n"), *(Cell(show(e), "n") for e in (a.iqm, a.mean, a.gap, a.improvement))]
        for a in found
    ]


def times(groups: list[Group]) -> list[list[Cell]]:
    """Run times, of the runs whose logs are there."""
    rows = []
    for g in groups:
        seconds = [r.seconds for r in g.runs if r.seconds is not None]
        if seconds:
            rows.append(
                [Cell(g.env), Cell(g.arm), Cell(str(len(seconds)), "n"), Cell(f"{1e3 * np.mean(seconds):.4g}", "n")]
            )
    return rows


def settings(groups: list[Group]) -> list[list[Cell]]:
    """The settings of every arm; where an environment changes one, of the first environment."""
    first: dict[str, Group] = {}
    for g in groups:
        first.setdefault(g.arm, g)
    return [
        [Cell(arm), Cell(", ".join(f"{k} = {v}" for k, v in g.runs[0].settings.items()))] for arm, g in first.items()
    ]


def versions(groups: list[Group]) -> list[list[Cell]]:
    """Every version that any run used."""
    found: dict[str, set[str]] = {}
    for run in (r for g in groups for r in g.runs):
        for package, version in run.versions.items():
            found.setdefault(package, set()).add(version)
    return [[Cell(package), Cell(", ".join(sorted(kinds)))] for package, kinds in sorted(found.items())]
