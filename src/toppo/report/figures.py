"""The figures of the report: curves, final returns, scores across tasks."""

from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from toppo.plotting import INK, add_legend, colours_of, panels, set_labels, set_rows, set_title, subplots
from toppo.report import statistics as stats
from toppo.report.compare import Aggregate, Group, Improvement, Scores, fill_gaps
from toppo.report.curves import Run
from toppo.report.statistics import Estimate
from toppo.report.text import counted

BANDS = ("bootstrap", "std")
LETTERS_PER_INCH = 15  # of a legend
MIN_SCORE = -1.0  # of a profile: one run far off would press all others together
MAX_SCORE = 5.0


class Labels(NamedTuple):
    """What the axes of learning curves show."""

    x: str = "environment steps"
    y: str = "return of training episodes"


DEFAULT_LABELS = Labels()


def values_of(run: Run, series: str) -> np.ndarray:
    """Return the series of that name, or the returns if the name is empty; gaps take the value before them."""
    return fill_gaps(run.series.get(series, np.full(len(run.grid), np.nan)) if series else run.returns)


def runs_with_curve(group: Group, series: str = "") -> list[Run]:
    """Return the runs of an arm that have something to draw."""
    return [r for r in group.runs if not np.isnan(values_of(r, series)).all()]


def draw_curves(axis: Axes, groups: list[Group], colours: dict[str, str], shading: str, series: str = "") -> None:
    """Draw the mean curve of each arm, with its interval if there are at least five runs, else with every run."""
    for group in groups:
        runs = runs_with_curve(group, series)
        x = min((r.grid for r in runs), key=lambda grid: grid[-1], default=np.zeros(0))  # as far as all runs go
        rows = np.array([np.interp(x, r.grid, values_of(r, series)) for r in runs])
        known = ~np.isnan(rows).any(axis=0)
        x = x[known]
        rows = rows[:, known]
        colour = colours[group.arm]
        if not len(x):
            continue
        axis.plot(x, stats.mean(rows.T), color=colour, linewidth=1.7, label=group.arm)
        if (limits := band_around_mean(rows, shading, resamples=2_000)) is not None:
            axis.fill_between(x, *limits, color=colour, alpha=0.18, linewidth=0)
            if shading == "bootstrap":
                axis.plot(x, stats.iqm(rows.T), color=colour, linewidth=1.0, linestyle="--")
        elif len(rows) > 1:
            for row in rows:
                axis.plot(x, row, color=colour, alpha=0.35, linewidth=0.7)


def curves_figure(
    groups: list[Group], shading: str = "bootstrap", series: str = "", labels: Labels = DEFAULT_LABELS
) -> Figure:
    """Draw learning curves, one panel per environment, and one legend below them."""
    envs = list(dict.fromkeys(g.env for g in groups))
    colours = colours_of([g.arm for g in groups])
    figure, axes = panels(len(envs))
    for axis, env in zip(axes, envs, strict=True):
        draw_curves(axis, [g for g in groups if g.env == env], colours, shading, series)
        axis.xaxis.set_major_formatter(EngFormatter(sep=""))  # 200k, 1M
        set_title(axis, env)
        set_labels(axis, labels.x)
    lines = {arm: line for axis in axes for line, arm in zip(*axis.get_legend_handles_labels(), strict=True)}
    counts = {arm: [len(runs_with_curve(g, series)) for g in groups if g.arm == arm] for arm in lines}
    names = [f"{arm} ({counted('run', *counts[arm])})" for arm in lines]
    if names:
        columns = max(1, int(figure.get_figwidth() * LETTERS_PER_INCH / (max(map(len, names)) + 8)))
        figure.set_figheight(figure.get_figheight() + 0.2 * -(-len(names) // columns))
        add_legend(figure, handles=list(lines.values()), labels=names, loc="outside lower center", ncols=columns)
    set_labels(axes[0], labels.x, labels.y)
    return figure


def finals_figure(groups: list[Group], shading: str = "bootstrap") -> Figure:
    """Draw final returns, one panel per environment: a dot per run, a bar for the mean, a band around it."""
    envs = list(dict.fromkeys(g.env for g in groups))
    colours = colours_of([g.arm for g in groups])
    rows = max(sum(g.env == env for g in groups) for env in envs)
    figure, axes = panels(len(envs), height=1.1 + 0.3 * rows)
    for axis, env in zip(axes, envs, strict=True):
        here = [g for g in groups if g.env == env]
        for row, group in enumerate(here):
            final = group.final()
            colour = colours[group.arm]
            axis.scatter(final, np.full(len(final), row), color=colour, s=14, alpha=0.6, linewidth=0)
            axis.scatter([final.mean()], [row], color=colour, marker="|", s=220, linewidth=2.2)
            if (limits := band_around_mean(final, shading, resamples=20_000)) is not None:
                axis.plot(limits, [row, row], color=colour, linewidth=4, alpha=0.35)
        budget = max(g.budget for g in here)
        fewer = {g.arm: f"\nafter {g.budget:,} steps" for g in here if g.budget < budget}
        set_rows(axis, [f"{g.arm} ({len(g.runs)}){fewer.get(g.arm, '')}" for g in here])
        set_title(axis, env)
        axis.locator_params(axis="x", nbins=5)
        set_labels(axis, "final return (number of runs in brackets)")
    return figure


def band_around_mean(rows: np.ndarray, shading: str, resamples: int) -> np.ndarray | None:
    """Return the band around the mean over runs, or None if there are too few.  [runs, ...] -> [2, ...]"""
    if len(rows) < (2 if shading == "std" else stats.MIN_FOR_INTERVAL):
        return None
    if shading == "std":
        return np.asarray(rows.mean(axis=0) + np.multiply.outer([-1.0, 1.0], rows.std(axis=0)))
    return stats.band(rows, stats.mean, resamples)


def profile_figure(scores: Scores) -> Figure:
    """Draw the share of runs above each score, with its interval if every task has at least five runs."""
    all_scores = np.concatenate([s for strata in scores.arms.values() for s in strata])
    low = max(MIN_SCORE, min(0.0, all_scores.min()))
    high = min(MAX_SCORE, max(1.2, all_scores.max()))
    levels = np.linspace(low, high, 201)
    colours = colours_of(list(scores.arms))
    figure, axes = subplots(1, 1, width=6.0, height=3.6)
    axis = axes[0, 0]
    for arm, strata in scores.arms.items():
        name = f"{arm} ({counted('run', sum(map(len, strata)))})"
        axis.plot(levels, stats.performance_profile(strata, levels), color=colours[arm], label=name)
        if min(map(len, strata)) >= stats.MIN_FOR_INTERVAL:
            axis.fill_between(levels, *stats.profile_band(strata, levels), color=colours[arm], alpha=0.18, linewidth=0)
    set_labels(
        axis, "score: a random policy has 0, the mean final return of ppo has 1", "share of runs above the score"
    )
    beyond = {f"below {low:g}": int(np.sum(all_scores < low)), f"above {high:g}": int(np.sum(all_scores > high))}
    if any(beyond.values()):
        set_title(axis, "not shown: " + ", ".join(f"{counted('run', n)} {where}" for where, n in beyond.items() if n))
    add_legend(axis)
    return figure


def aggregates_figure(found: list[Aggregate]) -> Figure:
    """Draw IQM and optimality gap of every arm."""
    few = any(sum(a.runs) < stats.MIN_FOR_IQM for a in found)
    names = [f"{a.arm} ({counted('run', *a.runs)} per task)" for a in found]
    colours = colours_of([a.arm for a in found])
    figure, axes = panels(2, height=1.2 + 0.3 * len(found))
    titles = {
        f"IQM (mean with fewer than {stats.MIN_FOR_IQM} runs)" if few else "IQM": [a.iqm for a in found],
        "optimality gap": [a.gap for a in found],
    }
    for axis, (title, estimates) in zip(axes, titles.items(), strict=True):
        draw_estimates(axis, names, estimates, [colours[a.arm] for a in found])
        set_title(axis, title)
    return figure


def improvements_figure(found: list[Improvement]) -> Figure:
    """Draw the probability that a run of the reference beats a run of every other arm."""
    names = [f"{i.theirs} ({counted('run', *i.runs)} per task)" for i in found]
    colours = colours_of([found[0].ours, *(i.theirs for i in found)])
    figure, axes = panels(1, height=1.2 + 0.3 * len(found))
    draw_estimates(axes[0], names, [i.probability for i in found], [colours[i.theirs] for i in found])
    axes[0].set_xlim(-0.02, 1.02)
    axes[0].axvline(0.5, color=INK, alpha=0.4, linewidth=0.8)
    set_labels(axes[0], f"probability that a run of {found[0].ours} is better")
    return figure


def draw_estimates(axis: Axes, names: list[str], estimates: list[Estimate], colours: list[str]) -> None:
    """Draw a row for every estimate: its value, and its interval if it has one."""
    for row, (estimate, colour) in enumerate(zip(estimates, colours, strict=True)):
        axis.scatter([estimate.value], [row], color=colour, marker="|", s=200, linewidth=2.2)
        if estimate.low is not None and estimate.high is not None:
            axis.plot([estimate.low, estimate.high], [row, row], color=colour, linewidth=4, alpha=0.4)
    set_rows(axis, names)
