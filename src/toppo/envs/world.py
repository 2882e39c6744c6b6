"""What a source of environments stands for: single ones, or a world that is stepped together."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import gymnasium as gym

from toppo.envs.atari import AtariGames, is_atari
from toppo.envs.check import examine
from toppo.envs.environment import Environment, open_environment
from toppo.envs.make import EnvSource, make
from toppo.envs.spaces import Env, Spaces
from toppo.envs.together import Solo, VectorWorld, World
from toppo.errors import ToppoError


def is_world(source: Any) -> bool:
    """Are its environments stepped together?"""
    return isinstance(source, gym.vector.VectorEnv) or is_atari(source)


def open_world(source: EnvSource, count: int) -> World | None:
    """The world of ``count`` environments, or None for a source of single ones."""
    if not is_world(source):
        return None
    if isinstance(source, str):
        return AtariGames(source, count)
    assert isinstance(source, gym.vector.VectorEnv)
    if source.num_envs != count:
        raise ToppoError(
            f"envs is {count}, but the vector environment has {source.num_envs}: use envs={source.num_envs}"
        )
    return VectorWorld(source)


Player = Environment | Solo


def open_player(source: EnvSource) -> Player:
    """One environment to play in."""
    if isinstance(source, gym.vector.VectorEnv):
        return Solo(VectorWorld(source))
    return Solo(AtariGames(source, 1)) if isinstance(source, str) and is_atari(source) else open_environment(source, 0)


class Announced(gym.Wrapper[Any, Any, Any, Any]):
    """Says which call comes next, for the case that it never returns."""

    def __init__(self, env: Env, announce: Callable[[str], None]) -> None:
        """Announce the calls of this environment."""
        super().__init__(env)
        self._announce, self._t = announce, 0

    @property
    def spec(self) -> Any:  # type: ignore[override]
        """What the environment is registered with."""
        return self.env.spec

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Announce and reset."""
        self._t = 0
        self._announce(f"reset(seed={seed})")
        return self.env.reset(seed=seed)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Announce and step."""
        self._t += 1
        self._announce(f"step {self._t}")
        return self.env.step(action)


def look(source: EnvSource, announce: Callable[[str], None] = lambda call: None) -> tuple[Spaces, list[str]]:
    """The spaces of an environment that keeps its word, and notes on what is odd about it."""
    if is_world(source):
        world = open_world(source, getattr(source, "num_envs", 1))
        assert world is not None
        return world.spaces, []
    env = make(source)
    try:
        return examine(Announced(env, announce))
    finally:
        if env is not source:
            with suppress(Exception):
                env.close()
