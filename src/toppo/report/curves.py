"""One run as the report knows it, read from its compact curve."""

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from toppo.report.arms import arm_of, comparable
from toppo.report.text import clean, unique_name
from toppo.rundir.curve import SERIES

SPEC_SCHEMA = 2
MAX_POINTS = 10_000
MAX_NUMBER = 1e300
NOT_SETTINGS = ("algo", "env", "seed", "total_timesteps")  # a run has fields for these

Json = Mapping[str, Any]


class Run(NamedTuple):
    """One run on a grid of its steps."""

    arm: str
    algo: str
    env: str
    seed: int
    budget: int  # steps that it was to do, or that it did until a callback stopped it
    grid: np.ndarray
    returns: np.ndarray  # of the training episodes that ended between two points; NaN where none did
    series: dict[str, np.ndarray]
    tests: list[float]  # returns of the test episodes at the end
    evaluations: np.ndarray  # [tests during training, (step, mean return)]
    settings: dict[str, object]
    versions: dict[str, str]
    seconds: float | None = None  # per thousand steps, median of its iterations
    damage: tuple[str, ...] = ()  # what could not be read in its logs
    root: Path | None = None  # its run directory, if it was read from one
    stopped_by: str = ""  # the callback that ended it early
    planned: int = 0  # steps that it was to do then


def run_from_curve(data: Json, name: str, arms: Collection[str] = ()) -> Run:
    """Read a run from its compact curve, or raise what is wrong with it; ``arms`` are those that studies name."""
    spec = checked_spec(data["spec"])
    grid = _array(data["grid"])
    returns = _array(data["return"])
    series = {key: _array(data[key]) for key in SERIES if key in data}
    if not (grid.ndim == 1 and 0 < len(grid) <= MAX_POINTS and np.all(np.diff(grid) > 0)):
        raise ValueError("its grid is not a growing list of steps")
    if any(a.shape != grid.shape for a in (returns, *series.values())):
        raise ValueError("its series are not as long as its grid")
    tests = _array(data.get("test_returns", []))
    evaluations = _array([x for pair in data.get("evaluations", []) for x in pair]).reshape(-1, 2)
    if not np.all(np.diff(evaluations[:, 0], prepend=-1) > 0):  # also false if a step is NaN
        raise ValueError("its tests during training are not at growing steps")
    algo = unique_name(spec["algo"])
    seed = int(spec["seed"])
    return Run(
        arm=arm_of(name, algo, str(spec["env"]), seed, arms),
        algo=algo,
        env=unique_name(spec["env"]),
        seed=seed,
        budget=int(spec["total_timesteps"]),
        grid=grid,
        returns=returns,
        series=series,
        tests=tests[np.isfinite(tests)].tolist(),
        evaluations=evaluations,
        settings=settings_of(spec),
        versions={clean(k): clean(v) for k, v in dict(data.get("versions", {})).items() if k != "schema"},
    )


def checked_spec(spec: Json) -> Json:
    """Return the spec if this version of toppo can read it."""
    if spec["schema"] != SPEC_SCHEMA:
        raise ValueError(
            f"its spec has schema {spec['schema']!r}, but this version of toppo reads {SPEC_SCHEMA}: train it again"
        )
    return spec


def settings_of(spec: Json) -> dict[str, object]:
    """Return all settings of a spec, with values that can be shown and compared."""
    others = {k: v for k, v in spec.items() if k not in ("schema", "common", "config", *NOT_SETTINGS)}
    return comparable({**others, **dict(spec.get("common", {})), **dict(spec.get("config", {}))})


def _array(values: Iterable[float | None]) -> np.ndarray:
    found = np.array([np.nan if v is None else v for v in values], np.float64)
    return np.where(np.abs(found) < MAX_NUMBER, found, np.nan)
