"""The figures of a search: objectives, learning curves, importances, slices."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator

from toppo.plotting import COLOURS, INK, add_legend, panels, set_labels, set_rows, set_title, subplots
from toppo.tune.search import Search
from toppo.tune.space import Choices, Space
from toppo.tune.trials import PARTS, Trial

DOT = COLOURS["toppo"]
BEST = COLOURS["ppo"]
PRUNED = COLOURS["oppo"]


def history_figure(trials: list[Trial], best: Trial) -> Figure:
    """Draw the objective of every finished trial, and the best so far; a tick for each that was pruned or failed."""
    figure, axes = subplots(1, 1, width=8.4, height=3.1)
    axis = axes[0, 0]
    finished = [trial for trial in trials if trial.value is not None]
    numbers = [trial.number for trial in finished]
    values = np.array([trial.value for trial in finished], float)
    axis.scatter(numbers, values, color=DOT, s=18, label="finished")
    axis.step(numbers, np.maximum.accumulate(values), color=DOT, linewidth=1.2, where="post", label="best so far")
    _mark_best(axis, best.number, values.max())
    if others := [trial.number for trial in trials if trial.value is None]:
        bottom = values.min() - 0.06 * (np.ptp(values) or 1.0)
        axis.scatter(others, np.full(len(others), bottom), color=PRUNED, marker="|", s=50, label="pruned or failed")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    set_labels(axis, "trial", "mean return of test episodes")
    add_legend(axis)
    return figure


def curves_figure(search: Search, trials: list[Trial], best: Trial) -> Figure:
    """Draw the learning curve of every trial over the steps of its runs, one after another."""
    figure, axes = subplots(1, 1, width=8.4, height=3.1)
    axis = axes[0, 0]
    for trial in sorted(trials, key=lambda trial: trial is best):
        parts = sorted(trial.curve)
        steps = [part * search.total_timesteps / PARTS for part in parts]
        returns = [trial.curve[part] for part in parts]
        colour = {"finished": DOT, "pruned": PRUNED}.get(trial.state, INK)
        if trial is best:
            axis.plot(steps, returns, color=BEST, linewidth=2.2, label=f"best: trial {trial.number}")
        else:
            axis.plot(steps, returns, color=colour, alpha=0.5, linewidth=0.9)
            axis.plot(
                steps[-1:], returns[-1:], color=colour, alpha=0.7, marker="." if trial.state == "finished" else "x"
            )
    axis.xaxis.set_major_formatter(EngFormatter(sep=""))
    set_labels(axis, "environment steps of the trial", "return of training episodes")
    if best.curve:
        add_legend(axis)
    return figure


def importance_figure(importances: Mapping[str, float]) -> Figure:
    """Draw a bar per setting, the most important at the top."""
    figure, axes = subplots(1, 1, width=8.4, height=0.8 + 0.25 * len(importances))
    axis = axes[0, 0]
    axis.barh(range(len(importances)), list(importances.values()), color=DOT, height=0.6)
    set_rows(axis, list(importances))
    set_labels(axis, "importance")
    return figure


def slices_figure(space: Space, trials: list[Trial], best: Trial) -> Figure:
    """Draw the objective of the finished trials over each setting."""
    finished = [trial for trial in trials if trial.value is not None]
    values = np.array([trial.value for trial in finished], float)
    figure, axes = panels(len(space.searched), width=2.8, height=2.3)
    for axis, (name, entry) in zip(axes, space.searched.items(), strict=True):
        if isinstance(entry, Choices):
            labels = list(entry.values)
            places = [float(labels.index(trial.drawn[name])) for trial in finished]
            axis.set_xticks(range(len(labels)), [str(label) for label in labels], parse_math=False, fontsize=7)
            axis.set_xlim(-0.5, len(labels) - 0.5)
        else:
            places = [trial.drawn[name] for trial in finished]
            axis.set_xscale("log" if entry.log else "linear")
            axis.set_xlim(entry.low, entry.high)
        axis.scatter(places, values, color=DOT, s=12, alpha=0.7)
        place = finished.index(best)
        _mark_best(axis, places[place], values[place])
        set_title(axis, name, fontsize=9)
    return figure


def _mark_best(axis: Axes, x: float, y: float) -> None:
    axis.scatter([x], [y], color="none", edgecolor=BEST, s=80, linewidth=1.8)
