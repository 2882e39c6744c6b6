"""All that defines a run, and its JSON."""

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from typing import Any

from toppo.algos import REGISTRY
from toppo.algos.contract import Algorithm
from toppo.algos.settings import Common, require
from toppo.errors import BAD_DATA, ToppoError

SCHEMA = 2


@dataclass(frozen=True)
class Spec:
    """A run: the same spec and versions give the same bytes."""

    env: str
    algo: str
    total_timesteps: int
    seed: int
    common: Common
    config: Any

    def __post_init__(self) -> None:
        """Check what no single setting can know."""
        algorithm(self.algo)
        require(self.total_timesteps >= 1, f"total_timesteps is {self.total_timesteps}, but must be at least 1")
        require(0 <= self.seed < 2**31, f"seed is {self.seed}, but must be in [0, 2^31)")
        require(self.env.isprintable() and len(self.env) <= 200, f"env is {self.env[:200]!r}, which is no name")
        n, common = self.config.n_steps, self.common
        for name, value in {**vars(common), **vars(self.config)}.items():
            require(not isinstance(value, float) or isfinite(value), f"{name} is {value}, but must be finite")
        # Beyond these a machine would fail in the middle of things; a stranger's file may ask for anything.
        require(n <= 10**8, f"n_steps is {n}, but must be at most 10^8")
        weights = sum(a * b for a, b in pairwise(common.hidden))
        require(max(weights, *common.hidden, 0) <= 10**9, f"hidden is {common.hidden}, which is more than 10^9 weights")
        require(n % common.n_envs == 0, f"n_steps is {n}, but must be a multiple of n_envs = {common.n_envs}")
        require(
            n >= common.n_minibatches, f"n_steps is {n}, but must be at least n_minibatches = {common.n_minibatches}"
        )


def algorithm(name: str) -> Algorithm:
    """The algorithm of that name."""
    if name not in REGISTRY:
        raise ToppoError(f"{name!r} is not an algorithm: choose one of {', '.join(REGISTRY)}")
    return REGISTRY[name]


def to_json(spec: Spec) -> dict[str, Any]:
    """The spec as JSON data, with every setting."""
    data: dict[str, Any] = {"schema": SCHEMA, **json.loads(json.dumps(dataclasses.asdict(spec)))}
    return data


def from_json(data: Any) -> Spec:
    """The spec that ``to_json`` wrote; a setting it does not know takes its default, an unknown key is an error."""
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        found = data.get("schema") if isinstance(data, dict) else type(data).__name__
        raise ToppoError(f"the spec has schema {found}, but this version of toppo reads {SCHEMA}", BAD_DATA)
    try:
        known = {f.name for f in dataclasses.fields(Spec)}
        _refuse_unknown("spec", set(data) - known - {"schema"})
        chosen = algorithm(data["algo"])
        return Spec(
            env=_typed(data, "env", str),
            algo=chosen.name,
            total_timesteps=_typed(data, "total_timesteps", int),
            seed=_typed(data, "seed", int),
            common=settings_from(Common, data["common"]),
            config=settings_from(chosen.config, data["config"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ToppoError(f"the spec cannot be used: {error}", BAD_DATA) from error


def settings_from(kind: type, values: dict[str, Any]) -> Any:
    """A settings object from JSON values, each checked against the type of its default."""
    if not isinstance(values, dict):
        raise ValueError(f"{kind.__name__} is {values!r}, but must be an object with settings")
    defaults = {f.name: f.default for f in dataclasses.fields(kind)}
    _refuse_unknown(kind.__name__, set(values) - set(defaults))
    return kind(**{name: _like(name, value, defaults[name]) for name, value in values.items()})


def spec_hash(spec: Spec) -> str:
    """A short name for the spec's content."""
    return hashlib.sha256(json.dumps(to_json(spec), sort_keys=True).encode()).hexdigest()[:12]


def _refuse_unknown(where: str, names: set[str]) -> None:
    if names:
        raise ValueError(f"{where} has no setting {', '.join(sorted(names))}")


def _typed(data: dict[str, Any], name: str, kind: type) -> Any:
    if type(data[name]) is not kind:
        raise ValueError(f"{name} is {data[name]!r}, but must be a {kind.__name__}")
    return data[name]


def _like(name: str, value: Any, default: Any) -> Any:
    if isinstance(default, tuple) and isinstance(value, list | tuple):
        return tuple(_like(name, v, default[0]) for v in value)
    if type(default) is float and type(value) is int and abs(value) < 2**53:
        return float(value)
    if type(value) is not type(default):
        raise ValueError(f"{name} is {value!r}, but must be a {type(default).__name__}")
    return value
