"""What the learner needs to know of an environment's spaces."""

from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from toppo.errors import ToppoError


class Spaces(NamedTuple):
    """Sizes of the flattened observation and of the action; ``discrete`` actions are whole numbers below the size."""

    obs_size: int
    action_size: int
    discrete: bool
    episode_limit: int | None


def describe(env: "gym.Env[Any, Any]") -> Spaces:
    """Sizes of the spaces, or one sentence that says why this environment cannot be used."""
    obs, action = env.observation_space, env.action_space
    if not isinstance(obs, gym.spaces.Box) or not np.issubdtype(obs.dtype, np.number):
        raise ToppoError(f"the observation space is {obs}, but must be a Box of numbers")
    obs_size = int(np.prod(obs.shape))
    if obs_size == 0:
        raise ToppoError(f"the observation space is {obs}, which has no entries")
    limit = getattr(env.spec, "max_episode_steps", None)
    if isinstance(action, gym.spaces.Discrete):
        return Spaces(obs_size, int(action.n), True, limit)
    if not isinstance(action, gym.spaces.Box) or not np.issubdtype(action.dtype, np.floating):
        raise ToppoError(f"the action space is {action}, but must be a Box of floats or Discrete")
    size = int(np.prod(action.shape))
    if size == 0 or np.any(action.low >= action.high):
        raise ToppoError(f"the action space is {action}, but every dimension needs low < high")
    return Spaces(obs_size, size, False, limit)


def action_to_env(space: "gym.Space[Any]") -> Callable[[np.ndarray], Any]:
    """The map from the policy's action to the environment's.

    Box: clip to [-1, 1]^d and rescale to the bounds (unbounded dimensions pass unchanged).  Discrete: add the start.
    """
    if isinstance(space, gym.spaces.Discrete):
        start = int(space.start)
        return lambda action: int(action) + start
    assert isinstance(space, gym.spaces.Box)
    shape, dtype = space.shape, space.dtype
    bounded = np.isfinite(space.low) & np.isfinite(space.high)
    low = np.where(bounded, -1.0, -np.inf).ravel().astype(np.float32)
    high = -low
    with np.errstate(invalid="ignore"):
        factor = np.where(bounded, (space.high - space.low) / 2, 1.0).ravel().astype(np.float32)
        shift = np.where(bounded, (space.high + space.low) / 2, 0.0).ravel().astype(np.float32)
    if np.all(factor == 1) and np.all(shift == 0) and len(shape) == 1 and dtype == np.float32:
        return lambda action: np.minimum(np.maximum(action, low), high)

    def rescale(action: np.ndarray) -> np.ndarray:
        return (np.minimum(np.maximum(action, low), high) * factor + shift).astype(dtype).reshape(shape)

    return rescale
