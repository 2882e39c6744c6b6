"""Environments of gymnax: ``gymnax:CartPole-v1``, ``gymnax:Breakout-MinAtar``."""

import gymnax
from gymnax.environments.spaces import gymnax_space_to_gym_space
from jax import Array

from toppo.errors import ToppoError, suggestion
from toppo.jaxenvs.protocol import JaxEnv, Tree


class GymnaxEnv:
    """An environment of gymnax without its automatic reset."""

    def __init__(self, name: str) -> None:
        self._env, self._params = gymnax.make(name)
        self.observation_space = gymnax_space_to_gym_space(self._env.observation_space(self._params))
        self.action_space = gymnax_space_to_gym_space(self._env.action_space(self._params))
        self.episode_limit = int(self._params.max_steps_in_episode)

    def reset(self, key: Array) -> tuple[Tree, Tree]:
        """Begin an episode."""
        obs, state = self._env.reset_env(key, self._params)
        return state, obs

    def step(self, key: Array, state: Tree, action: Array) -> tuple[Tree, Tree, Array, Array, Array]:
        """Take a step."""
        obs, state, reward, terminated, _ = self._env.step_env(key, state, action, self._params)
        return state, obs, reward, terminated, self._env.is_truncated(state, self._params)


def make(name: str) -> JaxEnv:
    """Make a registered environment with its default parameters."""
    if name not in gymnax.registered_envs:
        raise ToppoError(f"gymnax has no environment {name!r}: {suggestion(name, gymnax.registered_envs)}")
    return GymnaxEnv(name)
