"""The search space: for every setting a range, a list of choices, or one value that all trials take.

It is JSON data: ``{"low": 1e-5, "high": 1e-3, "log": true}``, ``{"choices": [64, 128]}``, or a plain value.  A setting
that is not named keeps its default.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from toppo.envs import Source, Spaces
from toppo.errors import BAD_DATA, NO_INPUT, ToppoError
from toppo.rundir.layout import read_json
from toppo.runs import presets
from toppo.runs.run import setup_from
from toppo.runs.spec import Spec

Json = Mapping[str, Any]

SHARED: Json = {
    "n_steps": {"choices": [256, 512, 1024, 2048, 4096]},
    "gamma": {"choices": [0.9, 0.95, 0.98, 0.99, 0.995, 0.999]},
    "gae_lambda": {"low": 0.9, "high": 1.0},
    "learning_rate": {"low": 3e-5, "high": 3e-3, "log": True},
    "n_epochs": {"low": 3, "high": 20},
    "n_minibatches": {"choices": [4, 8, 16, 32, 64]},
    "hidden": {"choices": [[64, 64], [128, 128], [256, 256]]},
}
GAUSSIAN: Json = {"log_std_init": {"low": -2.0, "high": 0.5}}  # for actions that are numbers
ADAM: Json = {
    "clip_range": {"low": 0.05, "high": 0.3},
    "ent_coef": {"low": 1e-6, "high": 0.03, "log": True},
    "max_grad_norm": {"choices": [0.3, 0.5, 1.0, 2.0, 5.0]},
}
MEMORY: Json = {"n_policies": {"low": 2, "high": 8}}
TRUST_REGION: Json = {"delta": {"low": 0.003, "high": 0.1, "log": True}}
OWN: Mapping[str, Json] = {
    "toppo": {
        **ADAM,
        **MEMORY,
        "alpha": {"low": 0.003, "high": 0.3, "log": True},
        "early_stop": {"choices": [True, False]},
    },
    "ppo": {**ADAM, "early_stop": {"choices": [True, False]}},
    "geppo": {**ADAM, "mean_age": {"low": 1.5, "high": 4.0}},
    "oppo": {**ADAM, **MEMORY},
    "disc": {
        "learning_rate": {"low": 1e-4, "high": 3e-3, "log": True},  # its lr_min is 1e-4
        "clip_range": {"low": 0.1, "high": 0.6},
        "n_policies": {"low": 8, "high": 64},
        "eps_b": {"low": 0.03, "high": 0.3, "log": True},
    },
    "trpo": TRUST_REGION,
    "otrpo": {**TRUST_REGION, **MEMORY},
}


class Range(NamedTuple):
    """Numbers from low to high; whole numbers if the setting is one."""

    low: float
    high: float
    log: bool


class Choices(NamedTuple):
    """Values without an order, by the label under which the storage keeps them: a list is its JSON."""

    values: dict[Any, object]


class Space(NamedTuple):
    """What is searched, and what all trials share."""

    searched: dict[str, Range | Choices]
    fixed: dict[str, object]

    def settings(self, drawn: Json) -> dict[str, object]:
        """Return the settings of a trial from what was drawn for it."""
        found = {name: self._value(name, value) for name, value in drawn.items()}
        return {**self.fixed, **found}

    def _value(self, name: str, drawn: Any) -> object:
        entry = self.searched[name]
        return entry.values[drawn] if isinstance(entry, Choices) else drawn


class Task(NamedTuple):
    """What every trial trains: an algorithm on an environment for a number of steps."""

    source: Source
    spaces: Spaces
    algo: str
    total_timesteps: int

    def spec(self, seed: int, settings: Json) -> Spec:
        """Return the spec of a run, or raise a sentence that says why there can be none."""
        try:
            spec = presets.spec_for(self.source, self.algo, self.total_timesteps, seed, **settings)
        except (TypeError, ValueError) as error:
            raise ToppoError(str(error)) from error
        setup_from(spec, self.spaces)
        return spec


def default_space(task: Task) -> dict[str, object]:
    """Return the table of an algorithm as JSON data, without the choices that do not suit the environment."""
    table = {**SHARED, **OWN[task.algo], **({} if task.spaces.discrete else GAUSSIAN)}
    kept: dict[str, object] = {}
    for name, entry in table.items():
        if "choices" in entry:
            allowed = [value for value in entry["choices"] if _is_possible(task, {name: value})]
            if allowed:
                kept[name] = {"choices": allowed}
        else:
            kept[name] = entry
    return kept


def read_space(path: Path) -> dict[str, object]:
    """Read a space from a JSON file."""
    if not path.exists():
        raise ToppoError(f"{path} does not exist: name a JSON file with a search space", NO_INPUT)
    data = read_json(path)
    if not isinstance(data, dict):
        raise ToppoError(f"{path} is not a search space: it must be an object with settings", BAD_DATA)
    return data


def space_from_json(data: Json, task: Task) -> Space:
    """Return the space, or refuse the first entry or value that no trial can have."""
    searched: dict[str, Range | Choices] = {}
    fixed: dict[str, object] = {}
    common, config = presets.defaults(task.algo, task.source)
    defaults = {**vars(common), **vars(config)}
    for name, entry in data.items():
        if isinstance(entry, dict):
            searched[name] = _entry(name, entry, whole=type(defaults.get(name)) is int)
        else:
            fixed[name] = entry
    if not searched:
        raise ToppoError("the search space is empty: give at least one setting a range or choices", BAD_DATA)
    for name, found in searched.items():
        for value in _extremes(found):
            _refuse_unless_trained(task, fixed | {name: value}, {n: e for n, e in searched.items() if n != name})
    return Space(searched, fixed)


def _refuse_unless_trained(task: Task, settings: dict[str, object], others: dict[str, Range | Choices]) -> None:
    """Refuse settings that no other searched value makes possible."""
    try:
        task.spec(0, settings)
    except ToppoError:
        candidates = ((other, value) for other, entry in others.items() for value in _extremes(entry))
        if not any(_is_possible(task, {**settings, other: value}) for other, value in candidates):
            raise


def _entry(name: str, entry: Json, whole: bool) -> Range | Choices:
    """Return one list of choices or one range, of whole numbers if the setting is one."""
    if set(entry) == {"choices"} and isinstance(entry["choices"], list) and entry["choices"]:
        return Choices({json.dumps(v) if isinstance(v, list | dict) else v: v for v in entry["choices"]})
    low = entry.get("low")
    high = entry.get("high")
    log = entry.get("log", False)
    numbers = type(low) in (int, float) and type(high) in (int, float) and type(log) is bool
    if not numbers or set(entry) - {"low", "high", "log"}:
        raise ToppoError(
            f"the search space has {name} = {json.dumps(entry)[:200]}, but must have a value, "
            '{"choices": [...]} or {"low": ..., "high": ..., "log": true or false}',
            BAD_DATA,
        )
    assert low is not None
    assert high is not None
    if not low < high or (log and low <= 0):
        rule = "low must be above 0 if log is true" if low < high else "low must be below high"
        raise ToppoError(f"the search space gives {name} the range {low} to {high}: {rule}", BAD_DATA)
    return Range(low, high, log) if whole else Range(float(low), float(high), log)


def _extremes(entry: Range | Choices) -> Iterator[object]:
    yield from entry.values.values() if isinstance(entry, Choices) else (entry.low, entry.high)


def _is_possible(task: Task, settings: Json) -> bool:
    try:
        task.spec(0, settings)
    except ToppoError:
        return False
    return True
