"""What a study is: grids of algorithms, environments and seeds, and the runs they stand for."""

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from toppo.errors import BAD_DATA, NO_INPUT, ToppoError
from toppo.rundir.layout import read_json
from toppo.runs.presets import spec_for
from toppo.runs.spec import Spec

SCHEMA = 2
MAX_RUNS = 100_000


class Arm(NamedTuple):
    """An algorithm with the settings that it changes of its defaults."""

    algo: str
    settings: dict[str, Any]
    name: str  # stands in files and figures

    @staticmethod
    def of(algo: str, name: str = "", **settings: Any) -> "Arm":
        """An arm; without a name it is called after the algorithm and its settings."""
        return Arm(algo, settings, name or algo + "".join(f"-{k}={v}" for k, v in settings.items()))


class Grid(NamedTuple):
    """All combinations of some arms, environments and seeds."""

    arms: tuple[Arm, ...]
    envs: tuple[str, ...]
    total_timesteps: int
    seeds: int


class Study(NamedTuple):
    """Grids under one name."""

    name: str
    text: str
    grids: tuple[Grid, ...]


class Job(NamedTuple):
    """One run of a study, under the name that its files bear."""

    name: str
    arm: str
    spec: Spec


def jobs_of(study: Study) -> list[Job]:
    """Every run, all arms and environments of a seed before the next seed; two of one name are refused."""
    found: dict[str, Job] = {}
    for grid in study.grids:
        for seed in range(grid.seeds):
            for env in grid.envs:
                for arm in grid.arms:
                    job = _job(arm, env, grid.total_timesteps, seed)
                    if found.setdefault(job.name, job) != job:
                        raise ToppoError(f"two different runs of {study.name} are called {job.name}: name their arms")
    return list(found.values())


def with_seeds(study: Study, seeds: int | None) -> Study:
    """The study with another number of seeds in every grid."""
    if seeds is None:
        return study
    if not 1 <= seeds <= MAX_RUNS:
        raise ToppoError(f"seeds is {seeds}, but must be in [1, {MAX_RUNS}]")
    return study._replace(grids=tuple(g._replace(seeds=seeds) for g in study.grids))


def read_study(path: Path) -> Study:
    """A study from a JSON file."""
    if not path.exists():
        raise ToppoError(f"{path} does not exist: name a JSON file with a study", NO_INPUT)
    data = read_json(path)
    try:
        if data["schema"] != SCHEMA:
            raise ValueError(f"schema is {data['schema']!r}, but this version of toppo reads {SCHEMA}")
        grids = tuple(_grid(_only(g, "arms", "envs", "total_timesteps", "seeds")) for g in data["grids"])
        _only(data, "schema", "text", "grids")
        if sum(len(g.arms) * len(g.envs) * g.seeds for g in grids) > MAX_RUNS:
            raise ValueError(f"it has more than {MAX_RUNS:,} runs")
        return Study(path.stem, str(data.get("text", "")), grids)
    except KeyError as error:
        raise ToppoError(f"{path} is not a study: {error.args[0]!r} is missing", BAD_DATA) from error
    except (TypeError, ValueError, AttributeError) as error:
        raise ToppoError(f"{path} is not a study: {error}", BAD_DATA) from error


def to_json(study: Study) -> dict[str, Any]:
    """The study as ``read_study`` reads it."""
    grids = [g._asdict() | {"arms": [a._asdict() for a in g.arms]} for g in study.grids]
    data: dict[str, Any] = json.loads(json.dumps({"schema": SCHEMA, "text": study.text, "grids": grids}))
    return data


def _job(arm: Arm, env: str, steps: int, seed: int) -> Job:
    try:
        spec = spec_for(env, arm.algo, steps, seed, **arm.settings)
    except (TypeError, ValueError) as error:
        raise ToppoError(f"{arm.name} on {env}: {error}") from error
    return Job(file_name(f"{arm.name}-{env}-{seed}"), arm.name, spec)


def file_name(text: str) -> str:
    """The text as one plain file name."""
    return re.sub(r"[^A-Za-z0-9_.=+-]", "-", text).lstrip(".")[:150]


def _grid(data: dict[str, Any]) -> Grid:
    arms = tuple(_arm(_only(a, "algo", "settings", "name")) for a in _some("arms", data["arms"]))
    envs = tuple(_is(str, "envs", e) for e in _some("envs", data["envs"]))
    return Grid(arms, envs, _positive("total_timesteps", data["total_timesteps"]), _positive("seeds", data["seeds"]))


def _arm(data: dict[str, Any]) -> Arm:
    name, settings = _is(str, "name", data.get("name", "")), _is(dict, "settings", data.get("settings", {}))
    # Lists stand for tuples, as in a spec.
    settings = {k: tuple(v) if isinstance(v, list) else v for k, v in settings.items()}
    unnamed = Arm.of(_is(str, "algo", data["algo"]), **settings)
    return unnamed._replace(name=name or unnamed.name)


def _is(kind: type, name: str, value: Any) -> Any:
    if type(value) is not kind:
        raise ValueError(f"{name} is {value!r}, but must be a {kind.__name__}")
    return value


def _some(name: str, values: Any) -> list[Any]:
    if not _is(list, name, values):
        raise ValueError(f"{name} is empty, but must name at least one")
    return list(values)


def _positive(name: str, value: Any) -> int:
    if _is(int, name, value) < 1:
        raise ValueError(f"{name} is {value}, but must be at least 1")
    return int(value)


def _only(data: dict[str, Any], *names: str) -> dict[str, Any]:
    unknown = set(data) - set(names)
    if unknown:
        raise ValueError(f"{', '.join(sorted(unknown))} is not one of {', '.join(names)}")
    return data
