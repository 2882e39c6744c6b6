"""Curves from run directories, and from the compact files that outlive them."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from toppo.errors import NO_INPUT, ToppoError
from toppo.rundir.layout import Layout, read_json
from toppo.rundir.log import read_lines


class Curve(NamedTuple):
    """Returns of finished episodes against the steps at which they ended."""

    algo: str
    env: str
    seed: int
    budget: int
    steps: np.ndarray
    returns: np.ndarray


def run_curve(root: Path) -> Curve:
    """The training curve of a run directory."""
    layout = Layout(root)
    spec = read_json(layout.spec)
    if not layout.episodes.is_file():
        raise ToppoError(f"{root} has no episodes yet: let it train first", NO_INPUT)
    rows = [(int(r["step"]), float(r["return"])) for r in read_lines(layout.episodes) if "return" in r and "step" in r]
    steps, returns = np.array(rows, np.float64).reshape(-1, 2).T
    return Curve(str(spec["algo"]), str(spec["env"]), int(spec["seed"]), int(spec["steps"]), steps, returns)


def on_grid(curve: Curve, grid: np.ndarray) -> np.ndarray:
    """Mean return of the episodes that ended in each part of the grid; NaN where none did.  [len(grid) - 1]"""
    where = np.searchsorted(grid, curve.steps, side="left") - 1
    inside = (where >= 0) & (where < len(grid) - 1)
    sums = np.bincount(where[inside], curve.returns[inside], len(grid) - 1)
    counts = np.bincount(where[inside], minlength=len(grid) - 1)
    with np.errstate(invalid="ignore"):
        return sums / np.where(counts > 0, counts, np.nan)
