"""Figures for people: labelled, readable, the same style everywhere."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from toppo.errors import IO_ERROR, ToppoError
from toppo.report.load import Curve, on_grid, run_curve

COLOURS = {
    "toppo": "#0b6e99",
    "ppo": "#d1603d",
    "geppo": "#6a994e",
    "trpo": "#7b5ea7",
    "otrpo": "#b08900",
    "oppo": "#8d99ae",
    "disc": "#bc4b8a",
}


def figure(rows: int, columns: int, width: float = 4.2, height: float = 3.1) -> tuple[Any, Any]:
    """A figure and its axes [rows, columns] in the house style; needs no display."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    sheet = Figure(figsize=(width * columns, height * rows), layout="constrained")
    FigureCanvasAgg(sheet)
    axes = sheet.subplots(rows, columns, squeeze=False)
    for axis in axes.flat:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.25, linewidth=0.6)
        axis.tick_params(labelsize=8)
    return sheet, axes


def save(sheet: Any, out: Path) -> None:
    """Write the figure; the ending of the name decides the format."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        sheet.savefig(out, dpi=150)
    except (OSError, ValueError) as error:
        raise ToppoError(f"{out} cannot be written: {error}", IO_ERROR) from error


def learning_curves(runs: Sequence[Path], out: Path, points: int = 50) -> None:
    """One panel per environment, one line per algorithm: every run thin, their mean thick."""
    curves = [run_curve(root) for root in runs]
    envs = sorted({c.env for c in curves})
    sheet, axes = figure(1, len(envs), width=5.5 if len(envs) == 1 else 4.2)
    for axis, env in zip(axes[0], envs, strict=True):
        here = [c for c in curves if c.env == env]
        for algo in sorted({c.algo for c in here}):
            draw_group(axis, [c for c in here if c.algo == algo], points)
        axis.set_title(env, fontsize=10)
        axis.set_xlabel("environment steps", fontsize=9)
        axis.legend(fontsize=8, frameon=False)
    axes[0, 0].set_ylabel("return of training episodes", fontsize=9)
    save(sheet, out)


def draw_group(axis: Any, curves: list[Curve], points: int) -> None:
    """The runs of one algorithm on one environment."""
    budget = max(c.budget for c in curves)
    grid = np.linspace(0, budget, points + 1)
    centres = (grid[1:] + grid[:-1]) / 2
    rows = np.stack([on_grid(c, grid) for c in curves])
    colour = COLOURS.get(curves[0].algo, "#444444")
    name = f"{curves[0].algo} ({len(curves)} run{'s' if len(curves) > 1 else ''})"
    if len(curves) > 1:
        for row in rows:
            seen = ~np.isnan(row)
            axis.plot(centres[seen], row[seen], color=colour, alpha=0.3, linewidth=0.8)
    known = ~np.isnan(rows).all(0)
    axis.plot(centres[known], np.nanmean(rows[:, known], 0), color=colour, linewidth=1.8, label=name)
