"""Environments of Brax and of MuJoCo Playground: ``brax:inverted_pendulum``, ``playground:CheetahRun``."""

from collections.abc import Mapping
from typing import Any, cast

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from toppo.errors import ToppoError, suggestion
from toppo.jaxenvs.protocol import JaxEnv, Tree

BRAX_LIMIT = 1000  # Brax states it in the function that wraps an environment, not in the environment


class BraxEnv:
    """An environment whose state holds ``obs``, ``reward`` and ``done``, without its automatic reset and time limit."""

    def __init__(self, env: Any, episode_limit: int) -> None:
        self._env = env
        self.episode_limit = episode_limit
        seen = observed(jax.eval_shape(env.reset, jax.random.key(0)))
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, seen.shape, np.float32)
        self.action_space = gym.spaces.Box(-1.0, 1.0, (env.action_size,), np.float32)

    def reset(self, key: Array) -> tuple[Tree, Tree]:
        """Begin an episode."""
        state = self._env.reset(key)
        return (state, jnp.int32(0)), observed(state)

    def step(self, key: Array, state: Tree, action: Array) -> tuple[Tree, Tree, Array, Array, Array]:
        """Take a step."""
        before, steps = state
        after = self._env.step(before, action)
        steps += 1
        reward = jnp.asarray(after.reward, jnp.float32)
        return (after, steps), observed(after), reward, after.done > 0, steps >= self.episode_limit


def observed(state: Any) -> Any:
    """Return what the policy sees: of several observations the one that a robot has, not the simulator's."""
    return state.obs["state"] if isinstance(state.obs, Mapping) else state.obs


def make_brax(name: str) -> JaxEnv:
    """Make an environment of Brax with its default physics."""
    from brax import envs

    if name not in envs._envs:
        raise ToppoError(f"Brax has no environment {name!r}: {suggestion(name, envs._envs)}")
    return cast(JaxEnv, BraxEnv(envs.get_environment(name), BRAX_LIMIT))


def make_playground(name: str) -> JaxEnv:
    """Make a task of MuJoCo Playground with its default settings, in the simulator that is written in JAX."""
    from mujoco_playground import registry

    if name not in registry.ALL_ENVS:
        raise ToppoError(f"MuJoCo Playground has no task {name!r}: {suggestion(name, registry.ALL_ENVS)}")
    config = registry.get_default_config(name)
    config.impl = "jax"
    return cast(JaxEnv, BraxEnv(registry.load(name, config), int(config.episode_length)))
