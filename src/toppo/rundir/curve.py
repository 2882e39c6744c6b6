"""A run's learning curve, small enough to keep for ever: means between the points of a grid."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from toppo.rundir.jsonl import Row

SERIES = ("memory/size", "train/tv", "train/epochs", "train/clip_fraction_old", "train/explained_variance")


def bin_means(steps: Iterable[int], values: Iterable[float], edges: np.ndarray) -> list[float | None]:
    """Mean of the values whose step lies in (edge_i, edge_{i+1}]; None where there is none."""
    where = np.searchsorted(edges, np.asarray(list(steps)), side="left") - 1
    values = np.asarray(list(values), np.float64)
    return [float(f"{values[where == i].mean():.6g}") if np.any(where == i) else None for i in range(len(edges) - 1)]


def compact(
    spec: Row, versions: Mapping[str, str], episodes: Sequence[Row], metrics: Sequence[Row], points: int = 100
) -> dict[str, object]:
    """Returns and a few metrics on a grid of ``points`` equal parts of the run's steps."""
    edges = np.linspace(0, spec["total_timesteps"], points + 1)
    # The last batch may reach beyond the budget; its steps belong to the last point.
    edges_for_data = np.concatenate([edges[:-1], [np.inf]])
    grid = [int(e) for e in edges[1:]]
    curve: dict[str, object] = {"schema": 2, "spec": dict(spec), "versions": dict(versions), "grid": grid}
    curve["return"] = bin_means((e["step"] for e in episodes), (e["return"] for e in episodes), edges_for_data)
    for name in SERIES:
        rows = [m for m in metrics if name in m]
        curve[name] = bin_means((m["time/total_timesteps"] for m in rows), (m[name] for m in rows), edges_for_data)
    return curve
