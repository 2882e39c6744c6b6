"""Environments of navix: ``navix:Navix-Empty-5x5-v0``."""

from typing import Any, cast

import gymnasium as gym
import navix
import numpy as np
from jax import Array
from navix.environments.registry import registry

from toppo.errors import ToppoError, suggestion
from toppo.jaxenvs.protocol import JaxEnv, Tree


class NavixEnv:
    """An environment of navix without its automatic reset."""

    def __init__(self, name: str) -> None:
        self._env = navix.make(name)
        seen = self._env.observation_space
        low, high = (np.broadcast_to(x, seen.shape) for x in (seen.minimum, seen.maximum))
        self.observation_space = gym.spaces.Box(low.astype(seen.dtype), high.astype(seen.dtype), dtype=seen.dtype)
        self.action_space: gym.Space[Any] = gym.spaces.Discrete(int(self._env.action_space.n))
        self.episode_limit = int(self._env.max_steps)

    def reset(self, key: Array) -> tuple[Tree, Tree]:
        """Begin an episode."""
        timestep = self._env.reset(key)
        return timestep, timestep.observation

    def step(self, key: Array, state: Tree, action: Array) -> tuple[Tree, Tree, Array, Array, Array]:
        """Take a step."""
        timestep = self._env._step(state, action)
        return timestep, timestep.observation, timestep.reward, timestep.is_termination(), timestep.is_truncation()


def make(name: str) -> JaxEnv:
    """Make a registered environment with its default settings."""
    if name not in registry():
        raise ToppoError(f"navix has no environment {name!r}: {suggestion(name, registry())}")
    return cast(JaxEnv, NavixEnv(name))
