"""The tables and sentences of the report."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from toppo.report.compare import Aggregate, Group, Improvement, Pair, best_of, verdict
from toppo.report.load import Unfinished
from toppo.report.statistics import MIN_FOR_IQM, Estimate, bootstrap, iqm, mean, pooled
from toppo.report.text import counted, span

FINAL_COLUMNS = ("task", "arm", "steps", "runs", "final, mean", "final, IQM", "area, mean", "area, IQM", "test, mean")
PAIR_COLUMNS = ("task", "pair", "steps", "final", "area", "final return is")
AGGREGATE_COLUMNS = ("arm", "runs per task", "IQM", "mean", "optimality gap")
IMPROVEMENT_COLUMNS = ("arm", "tasks", "runs per task", "probability", "on")
UNFINISHED_COLUMNS = ("run", "state", "steps", "of", "done", "return so far")
TIME_COLUMNS = ("task", "arm", "runs", "ms per 1000 steps")
SETTING_COLUMNS = ("arm", "tasks", "settings")
VERSION_COLUMNS = ("package", "version")


class Cell(NamedTuple):
    """One cell of a table; ``kind`` is a class of the page's style."""

    text: str
    kind: str = ""


def number(value: float | None) -> str:
    """Format a number with four digits, or as an integer with separators if it has a thousand or more."""
    if value is None or np.isnan(value):
        return "-"
    return f"{value:,.0f}" if 999.95 <= abs(value) < 1e15 else f"{value:.4g}"


def show(estimate: Estimate | None) -> str:
    """Format an estimate with its interval, if it has one."""
    if estimate is None or estimate.low is None or np.isnan(estimate.value):
        return number(estimate.value if estimate else None)
    return f"{number(estimate.value)} [{number(estimate.low)}, {number(estimate.high)}]"


def show_iqm(estimate: Estimate, runs: int) -> str:
    """Format an IQM; with too few runs it is the mean, and says so."""
    return show(estimate) + (" (mean)" if runs < MIN_FOR_IQM else "")


def summary(groups: list[Group], pairs: list[Pair]) -> list[str]:
    """Say for every task which arm wins, by how much, and how sure that is."""
    sentences = []
    for env in dict.fromkeys(g.env for g in groups):
        here = [g for g in groups if g.env == env]
        best = best_of(here)
        reached = f"{number(best.final().mean())} ({counted('run', len(best.runs))})"
        if len(here) == 1:
            sentences.append(f"{env}: {best.arm} reached {reached}.")
            continue
        told = f"{env}: {best.arm} has the highest final return, {reached}."
        if shorter := [g for g in here if g.budget < best.budget]:
            left_out = ", ".join(f"{g.arm} ({g.budget:,} steps)" for g in shorter)
            told += f" This compares arms after {best.budget:,} steps and leaves out {left_out}."
        ours = [p for p in pairs if p.env == env]
        few = [p for p in ours if p.final.low is None and not np.isnan(p.final.value)]
        if sure := [f"{p.theirs} {show(p.final)} ({verdict(p)})" for p in ours if p not in few]:
            told += f" {ours[0].ours} minus the others: {'; '.join(sure)}."
        if few:
            told += f" {ours[0].ours} minus the others, with too few runs to judge: "
            told += ", ".join(f"{p.theirs} {show(p.final)} ({counted('run', p.final.runs)})" for p in few) + "."
        sentences.append(told)
    return sentences


def across_tasks(found: list[Aggregate], improvements: list[Improvement]) -> list[str]:
    """Say what follows over all tasks, if there are several."""
    sentences = []
    if found and len(found[0].runs) > 1:
        told = f"Across {len(found[0].runs)} tasks, with a random policy at 0 and ppo at 1, the IQM of the scores is "
        sentences.append(told + ", ".join(f"{a.arm} {show_iqm(a.iqm, sum(a.runs))}" for a in found) + ".")
    if several := [i for i in improvements if len(i.budget) > 1]:
        told = f"On the same task, the probability that a run of {several[0].ours} is better than one of "
        sentences.append(told + "; ".join(f"{i.theirs} is {show(i.probability)}" for i in several) + ".")
    return sentences


def numbers(*texts: str) -> list[Cell]:
    """Return cells that are aligned to the right."""
    return [Cell(text, "n") for text in texts]


def mean_and_iqm(values: np.ndarray) -> tuple[str, str]:
    """Format the mean and the IQM of one number per run."""
    return show(bootstrap([values], pooled(mean))), show_iqm(bootstrap([values], pooled(iqm)), len(values))


def final_rows(groups: list[Group]) -> list[list[Cell]]:
    """Return a row for every arm on every task: final return, area and test return."""
    rows = []
    best = {env: best_of([g for g in groups if g.env == env]) for env in {g.env for g in groups}}
    for g in groups:
        counts = (f"{g.budget:,}", str(len(g.runs)))
        tests = g.tests()
        test = mean_and_iqm(tests)[0] if len(tests) else "-"
        name = Cell(g.arm, "best" if g is best[g.env] else "")
        rows.append([Cell(g.env), name, *numbers(*counts, *mean_and_iqm(g.final()), *mean_and_iqm(g.area()), test)])
    return rows


def pair_rows(found: list[Pair]) -> list[list[Cell]]:
    """Return a row for every pair: differences of means."""
    rows = []
    for p in found:
        last = Cell(verdict(p), {1: "up", -1: "down", 0: ""}[p.final.side])
        middle = numbers(f"{p.budget:,}", show(p.final), show(p.area))
        rows.append([Cell(p.env), Cell(f"{p.ours} - {p.theirs}"), *middle, last])
    return rows


def aggregate_rows(found: list[Aggregate]) -> list[list[Cell]]:
    """Return a row for every arm: scores across tasks."""
    rows = []
    for a in found:
        estimates = (show_iqm(a.iqm, sum(a.runs)), show(a.mean), show(a.gap))
        rows.append([Cell(a.arm), *numbers(span(a.runs), *estimates)])
    return rows


def improvement_rows(found: list[Improvement]) -> list[list[Cell]]:
    """Return a row for every arm: the probability that a run of the reference is better."""
    return [
        [Cell(i.theirs), *numbers(str(len(i.budget)), span(i.runs), show(i.probability)), Cell(", ".join(i.budget))]
        for i in found
    ]


def unfinished_rows(found: Sequence[Unfinished]) -> list[list[Cell]]:
    """Return a row for every run that is not finished: how far it is, and what it has reached."""
    rows = []
    for u in found:
        if u.run is None:
            rows.append([Cell(u.name), Cell(u.progress.state), *numbers("-", "-", "-", "-")])
            continue
        last = u.run.returns[~np.isnan(u.run.returns)][-1:]
        counts = (f"{u.progress.steps:,}", f"{u.run.budget:,}", f"{u.progress.steps / u.run.budget:.0%}")
        rows.append([Cell(u.name), Cell(u.progress.state), *numbers(*counts, number(last[0] if len(last) else None))])
    return rows


def time_rows(groups: list[Group]) -> list[list[Cell]]:
    """Return a row for every arm on every task: run times, from the runs that still have their logs."""
    rows = []
    for g in groups:
        if seconds := [r.seconds for r in g.runs if r.seconds is not None]:
            milliseconds = number(1e3 * float(np.mean(seconds)))
            rows.append([Cell(g.env), Cell(g.arm), *numbers(str(len(seconds)), milliseconds)])
    return rows


def setting_rows(groups: list[Group]) -> list[list[Cell]]:
    """Return a row for every arm and its settings, with the tasks that use them."""
    tasks: dict[tuple[str, str], dict[str, None]] = {}
    for arm in dict.fromkeys(g.arm for g in groups):
        for run in (r for g in groups if g.arm == arm for r in g.runs):
            told = ", ".join(f"{k} = {v}" for k, v in run.settings.items())
            tasks.setdefault((arm, told), {})[run.env] = None
    return [[Cell(arm), Cell(", ".join(envs)), Cell(told)] for (arm, told), envs in tasks.items()]


def version_rows(groups: list[Group]) -> list[list[Cell]]:
    """Return a row for every package with the versions that the runs used."""
    found: dict[str, set[str]] = {}
    for package, version in (item for g in groups for r in g.runs for item in r.versions.items()):
        found.setdefault(package, set()).add(version)
    return [[Cell(package), Cell(", ".join(sorted(kinds)))] for package, kinds in sorted(found.items())]
