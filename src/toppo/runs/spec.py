"""The spec: all that defines a run, and its JSON."""

import dataclasses
import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from typing import TYPE_CHECKING, Any, TypeVar

from toppo.algos import REGISTRY
from toppo.algos.contract import Algorithm
from toppo.algos.schedules import schedule_from
from toppo.algos.settings import AUTO, Common, automatic_of, require, schedules_of
from toppo.errors import BAD_DATA, ToppoError, suggestion

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

SCHEMA = 2
T = TypeVar("T")
Settings = TypeVar("Settings", bound="DataclassInstance")


@dataclass(frozen=True)
class Spec:
    """Defines a run: the same spec and versions give the same bytes."""

    env: str
    algo: str
    total_timesteps: int
    seed: int
    common: Common
    config: Any  # the algorithm's own settings
    env_kwargs: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # JSON data

    def __post_init__(self) -> None:
        """Check what no single setting can know."""
        algorithm(self.algo)
        n = self.config.n_steps
        common = self.common
        require(self.total_timesteps >= 1, f"total_timesteps is {self.total_timesteps}, but must be at least 1")
        require(0 <= self.seed < 2**31, f"seed is {self.seed}, but must be in [0, 2^31)")
        require(self.env.isprintable() and len(self.env) <= 200, f"env is {self.env[:200]!r}, which is not a name")
        for name, value in {**vars(common), **vars(self.config)}.items():
            require(not isinstance(value, float) or isfinite(value), f"{name} is {value}, but must be finite")
        # An untrusted file may ask for anything; larger runs than these would fail in the middle of training.
        require(n <= 10**8, f"n_steps is {n}, but must be at most 10^8")
        for name, widths in (("hidden", common.hidden), ("hidden_critic", common.hidden_critic)):
            weights = sum(a * b for a, b in pairwise(widths))
            require(max(weights, *widths, 0) <= 10**9, f"{name} is {widths}, which is more than 10^9 weights")
        require(n % common.n_envs == 0, f"n_steps is {n}, but must be a multiple of n_envs = {common.n_envs}")
        minibatches = common.n_minibatches
        require(n >= minibatches, f"n_steps is {n}, but must be at least n_minibatches = {minibatches}")


def algorithm(name: str) -> Algorithm:
    """The algorithm of that name."""
    if name not in REGISTRY:
        raise ToppoError(f"{name!r} is not an algorithm: {suggestion(name, REGISTRY)}")
    return REGISTRY[name]


def to_json(spec: Spec) -> dict[str, object]:
    """The spec as JSON data, with every setting."""
    return {"schema": SCHEMA, **json.loads(json.dumps(dataclasses.asdict(spec)))}


def from_json(data: object) -> Spec:
    """The spec that ``to_json`` wrote; a missing setting takes its default, an unknown key is an error."""
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        found = data.get("schema") if isinstance(data, dict) else type(data).__name__
        raise ToppoError(f"the spec has schema {found}, but this version of toppo reads {SCHEMA}", BAD_DATA)
    try:
        refuse_unknown("spec", data, {"schema", *(field.name for field in dataclasses.fields(Spec))})
        chosen = algorithm(data["algo"])
        return Spec(
            env=_typed("env", data["env"], str),
            algo=chosen.name,
            total_timesteps=_typed("total_timesteps", data["total_timesteps"], int),
            seed=_typed("seed", data["seed"], int),
            common=settings_from(Common, data["common"]),
            config=settings_from(chosen.config, data["config"]),
            env_kwargs=_typed("env_kwargs", data.get("env_kwargs", {}), dict),
        )
    except (KeyError, TypeError, ValueError) as error:
        why = f"it lacks {error}" if isinstance(error, KeyError) else error
        raise ToppoError(f"the spec cannot be used: {why}", BAD_DATA) from error


def default_settings(algo: str) -> dict[str, object]:
    """The settings that a spec of this algorithm has where it states none; nothing for an unknown algorithm."""
    if algo not in REGISTRY:
        return {}
    settings = dataclasses.asdict(Common()) | dataclasses.asdict(REGISTRY[algo].config())
    return dict(json.loads(json.dumps(settings))) | {"env_kwargs": {}}


def settings_from(kind: type[Settings], values: object) -> Settings:
    """A settings object from JSON values, each checked against the type of its default."""
    if not isinstance(values, dict):
        raise ValueError(f"{kind.__name__} is {values!r}, but must be an object with settings")
    defaults = {field.name: field.default for field in dataclasses.fields(kind)}
    refuse_unknown(kind.__name__, values, defaults)
    schedules = schedules_of(kind)
    automatic = automatic_of(kind)

    def checked(name: str, value: object) -> object:
        if name in automatic and isinstance(value, str):
            require(value == AUTO, f"{name} is {value!r}, but must be a float or {AUTO!r}")
            return value
        return schedule_from(name, value) if name in schedules else _like(name, value, defaults[name])

    return kind(**{name: checked(name, value) for name, value in values.items()})


def spec_hash(spec: Spec) -> str:
    """A short name for the spec's content."""
    return hashlib.sha256(json.dumps(to_json(spec), sort_keys=True).encode()).hexdigest()[:12]


def refuse_unknown(owner: str, names: Collection[str], known: Collection[str]) -> None:
    """Refuse the first name that is not known, and suggest the one that is spelt most like it."""
    for name in names:
        if name not in known:
            raise ValueError(f"{owner} has no setting `{name}`: {suggestion(str(name), sorted(known))}")


def _typed(name: str, value: object, kind: type[T]) -> T:
    if type(value) is not kind:
        raise ValueError(f"{name} is {value!r}, but must be a {kind.__name__}")
    return value


def _like(name: str, value: object, default: object) -> object:
    """The value, if it has the type of the default or can be converted to it without loss."""
    if isinstance(default, tuple) and isinstance(value, list | tuple):
        return tuple(_like(name, v, 0) for v in value)  # widths of layers
    if type(default) is float and type(value) is int and abs(value) < 2**53:
        return float(value)
    if type(default) is int and isinstance(value, float) and value.is_integer():
        return int(value)
    return _typed(name, value, type(default))
