"""The figures of the report: curves, final returns, scores across tasks."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from toppo.plotting import INK, add_legend, colours_of, panels, save, set_labels, set_rows, set_title, subplots
from toppo.report import statistics as stats
from toppo.report.compare import Aggregate, Group, Scores, fill_gaps
from toppo.report.curves import Run
from toppo.report.run_directories import run_from_directory
from toppo.report.statistics import Estimate
from toppo.report.text import counted

BANDS = ("bootstrap", "std")
MIN_SCORE = -1.0  # of a profile: one run far off would press all others together
MAX_SCORE = 5.0


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
    axis.xaxis.set_major_formatter(EngFormatter(sep=""))  # 200k, 1M
    set_labels(axis, "environment steps")


def curves_figure(groups: list[Group], shading: str = "bootstrap", series: str = "", y_label: str = "") -> Figure:
    """Draw learning curves, one panel per environment, and one legend below them."""
    envs = list(dict.fromkeys(g.env for g in groups))
    colours = colours_of([g.arm for g in groups])
    figure, axes = panels(len(envs))
    for axis, env in zip(axes, envs, strict=True):
        draw_curves(axis, [g for g in groups if g.env == env], colours, shading, series)
        set_title(axis, env)
    lines = {arm: line for axis in axes for line, arm in zip(*axis.get_legend_handles_labels(), strict=True)}
    counts = {arm: [len(runs_with_curve(g, series)) for g in groups if g.arm == arm] for arm in lines}
    names = [f"{arm} ({counted('run', *counts[arm])})" for arm in lines]
    columns = round(figure.get_figwidth() / 2.1)
    figure.set_figheight(figure.get_figheight() + 0.2 * -(-len(names) // columns))
    if names:
        add_legend(figure, handles=list(lines.values()), labels=names, loc="outside lower center", ncols=columns)
    axes[0].set_ylabel(y_label or "return of training episodes", fontsize=9, color=INK)
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
    """Draw IQM, optimality gap and probability of improvement of every arm."""
    few = any(sum(a.runs) < stats.MIN_FOR_IQM for a in found)
    titles: dict[str, list[Estimate | None]] = {
        f"IQM (mean with fewer than {stats.MIN_FOR_IQM} runs)" if few else "IQM": [a.iqm for a in found],
        "optimality gap": [a.gap for a in found],
        "P(toppo is better)": [a.improvement for a in found],
    }
    colours = colours_of([a.arm for a in found])
    figure, axes = subplots(1, 3, width=3.6, height=1.2 + 0.3 * len(found))
    for axis, (title, estimates) in zip(axes[0], titles.items(), strict=True):
        for row, (aggregate, estimate) in enumerate(zip(found, estimates, strict=True)):
            if estimate is None:
                continue
            colour = colours[aggregate.arm]
            axis.scatter([estimate.value], [row], color=colour, marker="|", s=200, linewidth=2.2)
            if estimate.low is not None:
                axis.plot([estimate.low, estimate.high], [row, row], color=colour, linewidth=4, alpha=0.4)
        set_rows(axis, [f"{a.arm} ({counted('run', *a.runs)} per task)" for a in found])
        set_title(axis, title)
    axes[0, 2].axvline(0.5, color=INK, alpha=0.4, linewidth=0.8)
    return figure


def learning_curves(runs: Sequence[Path], out: Path) -> None:
    """Draw the learning curves of run directories into a file."""
    found = [run_from_directory(root) for root in runs]
    keys = sorted({(r.env, r.algo) for r in found})
    groups = [Group(algo, env, [r for r in found if (r.env, r.algo) == (env, algo)]) for env, algo in keys]
    save(curves_figure(groups), out)
