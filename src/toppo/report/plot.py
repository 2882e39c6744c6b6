"""What ``toppo plot`` draws: any metric of some runs against steps, seconds or iterations."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from toppo.errors import NO_INPUT, ToppoError, suggestion
from toppo.report.compare import groups_of
from toppo.report.curves import Run
from toppo.report.figures import Labels, curves_figure, runs_with_curve
from toppo.report.load import Loaded
from toppo.report.run_directories import numeric_rows, seconds_of
from toppo.rundir.curve import SERIES
from toppo.rundir.layout import Layout

RETURN = "return"
TEST_RETURN = "eval/mean_reward"  # as TensorBoard shows evaluations.jsonl
EPISODES = {RETURN: "return of training episodes", "length": "length of training episodes"}
AXES = {"steps": "environment steps", "seconds": "seconds of training", "iterations": "iterations"}
POINTS = 100  # of a curve; a log with more lines is drawn by means

Points = tuple[np.ndarray, np.ndarray]


class Wanted(NamedTuple):
    """What to draw."""

    metric: str = RETURN
    x: str = "steps"
    smooth: int = 1  # points


def metric_figure(loaded: Loaded, wanted: Wanted) -> Figure:
    """Draw the curves of a metric: one panel per environment, the mean over the runs of every arm."""
    known: dict[str, None] = {}
    drawn = []
    for run in loaded.runs:
        found = _points_of_curve(run, wanted.x) if run.root is None else _points_of_logs(run, wanted.x)
        known |= dict.fromkeys(found)
        x, y = _means(*found.get(wanted.metric, (np.zeros(0), np.zeros(0))))
        drawn.append(run._replace(grid=x, returns=moving_mean(y, wanted.smooth)))
    if wanted.metric not in known:
        names = sorted(known)
        raise ToppoError(f"{wanted.metric!r} is not a metric of these runs: {suggestion(wanted.metric, names)}")
    groups = [g for g in groups_of(loaded._replace(runs=drawn)) if runs_with_curve(g)]
    if not groups:
        raise ToppoError(f"these runs have logged no {wanted.metric} yet: let them train first", NO_INPUT)
    smooth = f", mean of {wanted.smooth} points" if wanted.smooth > 1 else ""
    labels = Labels(AXES[wanted.x], EPISODES.get(wanted.metric, wanted.metric) + smooth)
    return curves_figure(groups, labels=labels)


def moving_mean(values: np.ndarray, window: int) -> np.ndarray:
    """Replace every value by the mean of the last ``window`` values up to it, gaps left out.  [points] -> [points]"""
    if not len(values):
        return values
    known = ~np.isnan(values)
    ones = np.ones(min(window, len(values)))
    sums = np.convolve(np.where(known, values, 0.0), ones)[: len(values)]
    counts = np.convolve(known.astype(float), ones)[: len(values)]
    return np.where(counts > 0.5, sums / np.maximum(counts, 1.0), np.nan)


def _points_of_curve(run: Run, x: str) -> dict[str, Points]:
    """Return steps and values of all that a compact curve keeps, by metric."""
    if x != "steps":
        raise ToppoError(
            f"{run.arm} on {run.env}, seed {run.seed} is a compact curve, which keeps no {x}: "
            "name its run directory, or use --x steps"
        )
    found = {name: (run.grid, values) for name, values in run.series.items() if name in SERIES}
    if len(run.evaluations):
        found[TEST_RETURN] = (run.evaluations[:, 0], run.evaluations[:, 1])
    return found | {RETURN: (run.grid, run.returns)}


def _points_of_logs(run: Run, x: str) -> dict[str, Points]:
    """Return x and values of all that a run has logged, by metric."""
    assert run.root is not None
    layout = Layout(run.root)
    metrics, timing, episodes = (numeric_rows(log) for log in (layout.metrics, layout.timing, layout.episodes))
    tested = layout.evaluations.is_file() and not layout.evaluations.is_symlink()
    tests = numeric_rows(layout.evaluations) if tested else []
    found: dict[str, Points] = {}
    for rows in (metrics, timing):
        for name in dict.fromkeys(name for row in rows for name in row):
            mine = [row for row in rows if name in row]
            found[name] = _columns(mine, "time/total_timesteps", name)
    found |= {"length": _columns(episodes, "step", "length"), RETURN: (run.grid, run.returns)}
    found |= {TEST_RETURN: _columns(tests, "step", RETURN)} if tests else {}
    if x == "steps":
        return found
    steps = np.array([0.0, *(row["time/total_timesteps"] for row in (timing if x == "seconds" else metrics))])
    passed = np.cumsum([0.0, *map(seconds_of, timing)]) if x == "seconds" else np.arange(len(steps), dtype=float)
    return {name: (np.interp(at, steps, passed), values) for name, (at, values) in found.items()}


def _columns(rows: list[Mapping[str, float]], x: str, y: str) -> Points:
    found = np.array([(row[x], row[y]) for row in rows if x in row and y in row], np.float64).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def _means(x: np.ndarray, y: np.ndarray) -> Points:
    """Return the means of the values at every x, or in equal parts of x if there are more than ``POINTS``."""
    if len(np.unique(x)) == len(x) <= POINTS:
        return x, y
    x = x[~np.isnan(y)]
    y = y[~np.isnan(y)]
    edges = np.unique(x)
    if len(edges) > POINTS:
        edges = np.linspace(0, edges[-1], POINTS + 1)[1:]
    where = np.minimum(np.searchsorted(edges, x), len(edges) - 1)
    counts = np.bincount(where, minlength=len(edges))
    sums = np.bincount(where, weights=y, minlength=len(edges))
    return edges, np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
