"""What the learner needs to know of an environment's spaces, as plain data that fits into a JSON file."""

from collections.abc import Callable
from math import inf, isfinite
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from toppo.errors import BAD_DATA, ToppoError


class Spaces(NamedTuple):
    """Observation and action as the policy sees them, and how its actions become the environment's."""

    obs_shape: tuple[int, ...]
    action_size: int  # dimensions of a Box, or number of discrete actions
    discrete: bool
    action_shape: tuple[int, ...]
    action_dtype: str
    low: tuple[float, ...]  # bounds of a Box, flat; empty if discrete
    high: tuple[float, ...]
    start: int  # of a discrete space
    episode_limit: int | None

    @property
    def obs_size(self) -> int:
        """Entries of the flattened observation."""
        return int(np.prod(self.obs_shape))


def describe(env: "gym.Env[Any, Any]") -> Spaces:
    """The environment's spaces, or one sentence that says why it cannot be used."""
    obs, action = env.observation_space, env.action_space
    if not isinstance(obs, gym.spaces.Box) or not np.issubdtype(obs.dtype, np.number):
        raise ToppoError(f"the observation space is {obs}, but must be a Box of numbers")
    if 0 in obs.shape:
        raise ToppoError(f"the observation space is {obs}, which has no entries")
    limit = getattr(env.spec, "max_episode_steps", None)
    if isinstance(action, gym.spaces.Discrete):
        return Spaces(obs.shape, int(action.n), True, (), "int64", (), (), int(action.start), limit)
    if not isinstance(action, gym.spaces.Box) or not np.issubdtype(action.dtype, np.floating):
        raise ToppoError(f"the action space is {action}, but must be a Box of floats or Discrete")
    if 0 in action.shape or np.any(action.low >= action.high):
        raise ToppoError(f"the action space is {action}, but every dimension needs low < high")
    low, high = (tuple(float(x) for x in bound.ravel()) for bound in (action.low, action.high))
    return Spaces(obs.shape, len(low), False, action.shape, str(action.dtype), low, high, 0, limit)


def action_to_env(spaces: Spaces) -> Callable[[np.ndarray], Any]:
    """The map from the policy's action to the environment's.

    Box: clip to [-1, 1]^d and rescale to the bounds (unbounded dimensions pass unchanged).  Discrete: add the start.
    """
    if spaces.discrete:
        return lambda action: int(action) + spaces.start
    env_low, env_high = np.array(spaces.low), np.array(spaces.high)
    bounded = np.isfinite(env_low) & np.isfinite(env_high)
    low = np.where(bounded, -1.0, -np.inf).astype(np.float32)
    high = -low
    with np.errstate(invalid="ignore"):
        factor = np.where(bounded, (env_high - env_low) / 2, 1.0).astype(np.float32)
        shift = np.where(bounded, (env_high + env_low) / 2, 0.0).astype(np.float32)
    shape, dtype = spaces.action_shape, np.dtype(spaces.action_dtype)
    if np.all(factor == 1) and np.all(shift == 0) and len(shape) == 1 and dtype == np.float32:
        return lambda action: np.minimum(np.maximum(action, low), high)

    def rescale(action: np.ndarray) -> Any:
        return (np.minimum(np.maximum(action, low), high) * factor + shift).astype(dtype).reshape(shape)

    return rescale


def spaces_to_json(spaces: Spaces) -> dict[str, Any]:
    """The Spaces as JSON data; an unbounded side is null, since JSON knows no infinity."""
    bounds = {name: [x if isfinite(x) else None for x in getattr(spaces, name)] for name in ("low", "high")}
    return {**spaces._asdict(), **bounds}


def spaces_from_json(data: Any) -> Spaces:
    """The Spaces that ``spaces_to_json`` wrote; a stranger may have made the file."""
    if not isinstance(data, dict) or set(data) != set(Spaces._fields):
        raise ToppoError("the file does not hold the spaces of an environment", BAD_DATA)
    whole = all(type(data[name]) is int for name in ("action_size", "start")) and type(data["discrete"]) is bool
    shapes = all(_numbers(data[name], int) for name in ("obs_shape", "action_shape"))
    bounds = all(_numbers(data[name], float, type(None)) for name in ("low", "high"))
    limit, dtype = data["episode_limit"], data["action_dtype"]
    known = dtype in ("float16", "float32", "float64", "int64") and (limit is None or type(limit) is int)
    sizes = not bounds or len(data["low"]) == len(data["high"]) == (0 if data["discrete"] else data["action_size"])
    if not (whole and shapes and bounds and known and sizes):
        raise ToppoError("the file's spaces hold values that no environment has", BAD_DATA)
    low = tuple(-inf if x is None else x for x in data["low"])
    high = tuple(inf if x is None else x for x in data["high"])
    tuples = {"obs_shape": tuple(data["obs_shape"]), "action_shape": tuple(data["action_shape"])}
    return Spaces(**{**data, **tuples, "low": low, "high": high})


def _numbers(values: Any, *kinds: type) -> bool:
    return isinstance(values, list) and all(type(v) in kinds for v in values)
