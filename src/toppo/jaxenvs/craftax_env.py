"""Environments of craftax: ``craftax:Craftax-Symbolic-v1``, ``craftax:Craftax-Classic-Symbolic-v1``."""

from typing import Any, cast

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from craftax.craftax_env import make_craftax_env_from_name
from jax import Array

from toppo.errors import ToppoError, suggestion
from toppo.jaxenvs.protocol import JaxEnv, Tree

NAMES = [f"Craftax-{kind}-v1" for kind in ("Symbolic", "Pixels", "Classic-Symbolic", "Classic-Pixels")]


class CraftaxEnv:
    """An environment of craftax without its automatic reset."""

    def __init__(self, name: str) -> None:
        self._env = make_craftax_env_from_name(name, auto_reset=False)
        self._params = self._env.default_params
        # The game has one end for all reasons; without a time limit it is that of the game alone.
        self._endless = self._params.replace(max_timesteps=np.iinfo(np.int32).max)
        seen = jax.eval_shape(lambda: self.reset(jax.random.key(0)))[1]
        self.observation_space = gym.spaces.Box(0.0, 1.0, seen.shape, np.float32)
        self.action_space: gym.Space[Any] = gym.spaces.Discrete(self._env.num_actions)
        self.episode_limit = int(self._params.max_timesteps)

    def reset(self, key: Array) -> tuple[Tree, Tree]:
        """Begin an episode."""
        obs, state = self._env.reset_env(key, self._params)
        return state, obs

    def step(self, key: Array, state: Tree, action: Array) -> tuple[Tree, Tree, Array, Array, Array]:
        """Take a step."""
        obs, state, reward, _, _ = self._env.step_env(key, state, action, self._params)
        terminated = jnp.asarray(self._env.is_terminal(state, self._endless))
        return state, obs, reward, terminated, state.timestep >= self.episode_limit


def make(name: str) -> JaxEnv:
    """Make one of the four environments with its default parameters."""
    if name not in NAMES:
        raise ToppoError(f"craftax has no environment {name!r}: {suggestion(name, NAMES)}")
    return cast(JaxEnv, CraftaxEnv(name))
