"""What a study is: grids of algorithms, environments and seeds, and the runs that they stand for."""

import re
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import NamedTuple, TypeVar

from toppo.errors import BAD_DATA, NO_INPUT, ToppoError
from toppo.rundir.layout import read_json
from toppo.runs.presets import spec_for
from toppo.runs.spec import Spec

SCHEMA = 2
MAX_RUNS = 100_000

T = TypeVar("T")


class Arm(NamedTuple):
    """An algorithm with the settings that differ from the preset's."""

    algo: str
    settings: dict[str, object]
    name: str  # in files and figures

    @staticmethod
    def of(algo: str, name: str = "", /, **settings: object) -> "Arm":
        """Return an arm; without a name it is named after the algorithm and its settings."""
        return Arm(algo, settings, name or algo + "".join(f"-{key}={value}" for key, value in settings.items()))


class Grid(NamedTuple):
    """All combinations of some arms, environments and seeds."""

    arms: tuple[Arm, ...]
    envs: tuple[str, ...]
    total_timesteps: int
    seeds: int
    preset: str = "default"


class Study(NamedTuple):
    """Grids under one name."""

    name: str
    text: str
    grids: tuple[Grid, ...]


class Job(NamedTuple):
    """One run of a study, under the name of its files."""

    name: str
    arm: str
    spec: Spec


def jobs_of(study: Study) -> list[Job]:
    """Return every run, all arms and environments of a seed before the next seed; refuse two with one name."""
    found: dict[str, Job] = {}
    for grid in study.grids:
        for seed, env, arm in product(range(grid.seeds), grid.envs, grid.arms):
            try:
                spec = spec_for(env, arm.algo, grid.total_timesteps, seed, grid.preset, **arm.settings)
            except (TypeError, ValueError) as error:
                raise ToppoError(f"{arm.name} on {env}: {error}") from error
            file_name = re.sub(r"[^A-Za-z0-9_.=+-]", "-", f"{arm.name}-{env}-{seed}").lstrip(".")[:150]
            job = Job(file_name, arm.name, spec)
            if found.setdefault(job.name, job) != job:
                raise ToppoError(f"two different runs of {study.name} are called {job.name}: name their arms")
    return list(found.values())


def with_seeds(study: Study, seeds: int | None) -> Study:
    """Return the study with another number of seeds in every grid."""
    if seeds is None:
        return study
    if not 1 <= seeds <= MAX_RUNS:
        raise ToppoError(f"seeds is {seeds}, but must be in [1, {MAX_RUNS}]")
    return study._replace(grids=tuple(g._replace(seeds=seeds) for g in study.grids))


def read_study(path: Path) -> Study:
    """Read a study from a JSON file."""
    if not path.exists():
        raise ToppoError(f"{path} does not exist: name a JSON file with a study", NO_INPUT)
    data = read_json(path)
    try:
        if data["schema"] != SCHEMA:
            raise ValueError(f"schema is {data['schema']!r}, but this version of toppo reads {SCHEMA}")
        _refuse_unknown(data, "schema", "text", "grids")
        grids = tuple(map(_grid, data["grids"]))
        if sum(len(g.arms) * len(g.envs) * g.seeds for g in grids) > MAX_RUNS:
            raise ValueError(f"it has more than {MAX_RUNS:,} runs")
        return Study(path.stem, str(data.get("text", "")), grids)
    except KeyError as error:
        raise ToppoError(f"{path} is not a study: {error.args[0]!r} is missing", BAD_DATA) from error
    except (TypeError, ValueError, AttributeError) as error:
        raise ToppoError(f"{path} is not a study: {error}", BAD_DATA) from error


def to_json(study: Study) -> dict[str, object]:
    """Return the study as ``read_study`` reads it."""
    grids = [g._asdict() | {"arms": [a._asdict() for a in g.arms]} for g in study.grids]
    return {"schema": SCHEMA, "text": study.text, "grids": grids}


def _grid(data: Mapping[str, object]) -> Grid:
    _refuse_unknown(data, *Grid._fields)
    return Grid(
        arms=tuple(map(_arm, _not_empty("arms", data["arms"]))),
        envs=tuple(_checked("envs", env, str) for env in _not_empty("envs", data["envs"])),
        total_timesteps=_positive("total_timesteps", data["total_timesteps"]),
        seeds=_positive("seeds", data["seeds"]),
        preset=_checked("preset", data.get("preset", "default"), str),
    )


def _arm(data: Mapping[str, object]) -> Arm:
    _refuse_unknown(data, *Arm._fields)
    given = _checked("settings", data.get("settings", {}), dict)
    # Lists stand for tuples, as in a spec.
    settings = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    return Arm.of(_checked("algo", data["algo"], str), _checked("name", data.get("name", ""), str), **settings)


def _checked(name: str, value: object, kind: type[T]) -> T:
    if type(value) is not kind:
        raise ValueError(f"{name} is {value!r}, but must be a {kind.__name__}")
    return value


def _not_empty(name: str, values: object) -> list[Mapping[str, object]]:
    found: list[Mapping[str, object]] = _checked(name, values, list)
    if not found:
        raise ValueError(f"{name} is empty, but must name at least one")
    return found


def _positive(name: str, value: object) -> int:
    number = _checked(name, value, int)
    if number < 1:
        raise ValueError(f"{name} is {number}, but must be at least 1")
    return number


def _refuse_unknown(data: Mapping[str, object], *names: str) -> None:
    unknown = set(data) - set(names)
    if unknown:
        raise ValueError(f"{', '.join(sorted(unknown))} is not one of {', '.join(names)}")
