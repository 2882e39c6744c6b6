"""What an environment written in JAX must be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import gymnasium as gym
    from jax import Array

Tree = Any
"""A pytree of arrays whose structure, shapes and types never change."""


class JaxEnv(Protocol):
    """One environment as pure functions; toppo maps them over many.

    All randomness comes from the keys.  An environment has no side effects, and what it must remember is in its state.
    """

    @property
    def observation_space(self) -> gym.Space[Any]:
        """The space of its observations."""

    @property
    def action_space(self) -> gym.Space[Any]:
        """The space of its actions."""

    @property
    def episode_limit(self) -> int | None:
        """After how many steps ``step`` truncates an episode; None if it never does."""

    def reset(self, key: Array) -> tuple[Tree, Tree]:
        """Begin an episode: state, observation."""

    def step(self, key: Array, state: Tree, action: Array) -> tuple[Tree, Tree, Array, Array, Array]:
        """Take a step: state, observation, reward, terminated, truncated.

        The observation is that of the state which the step leads to, also at the end of an episode.
        """
