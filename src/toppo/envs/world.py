"""What a source of environments stands for: single ones, or a world that is stepped together."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import gymnasium as gym
import numpy as np

from toppo.envs.atari import AtariGames, is_atari
from toppo.envs.check import NOT_REPEATED, STEPS, examine, notes_on, probing_action
from toppo.envs.observations import mask_in
from toppo.envs.single import Environment, open_environment
from toppo.envs.source import EnvSource, make, name_of
from toppo.envs.spaces import Env, Spaces
from toppo.envs.vector import FirstEnv, GymVecEnv, ResetSpec, VecEnv
from toppo.errors import ENV_EXCEPTIONS, EnvironmentFault, ToppoError, prefixed


def is_vector(source: Any) -> bool:
    """Are its environments stepped together?"""
    return isinstance(source, gym.vector.VectorEnv) or is_atari(source)


def open_vec_env(source: EnvSource, count: int) -> VecEnv | None:
    """The world of ``count`` environments, or None for a source of single ones."""
    if not is_vector(source):
        return None
    if isinstance(source, str):
        return AtariGames(source, count)
    assert isinstance(source, gym.vector.VectorEnv)
    if source.num_envs != count:
        raise ToppoError(
            f"envs is {count}, but the vector environment has {source.num_envs}: use envs={source.num_envs}"
        )
    return GymVecEnv(source)


Player = Environment | FirstEnv


def open_player(source: EnvSource) -> Player:
    """One environment to play in."""
    if isinstance(source, gym.vector.VectorEnv):
        return FirstEnv(GymVecEnv(source))
    return (
        FirstEnv(AtariGames(source, 1)) if isinstance(source, str) and is_atari(source) else open_environment(source, 0)
    )


class CallReporter(gym.Wrapper[Any, Any, Any, Any]):
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


def examine_world(world: VecEnv) -> list[str]:
    """Notes on what is odd about a world; what training will ask of it, it must do here."""
    notes = notes_on(world.spaces)
    if isinstance(world, GymVecEnv):
        world.notes = notes
    if play(world) != play(world):
        notes.append(NOT_REPEATED)
    return list(dict.fromkeys(notes))


def play(world: VecEnv) -> list[bytes]:
    """A few random steps after a reset of all environments, the first of them reset alone as well; what was seen."""
    rng, spaces, seen = np.random.default_rng(0), world.spaces, []
    rows = world.reset({i: ResetSpec(1 + i) for i in range(world.count)})
    for t in range(STEPS):
        moved = world.step(np.stack([probing_action(spaces, mask_in(row, spaces), rng) for row in rows]))
        seen += [moved.rows.tobytes(), moved.reward.tobytes()]
        again = {int(i): ResetSpec(t) for i in np.flatnonzero(moved.over)} | ({0: ResetSpec(0)} if t == 0 else {})
        rows = world.reset(again) if again else moved.rows
    return seen


def look(source: EnvSource, announce: Callable[[str], None] = lambda call: None) -> tuple[Spaces, list[str]]:
    """The spaces of an environment that keeps its word, and notes on what is odd about it."""
    if is_vector(source):
        return look_at_world(source)
    env = make(source)
    try:
        with prefixed(name_of(source)):
            return examine(CallReporter(env, announce))
    finally:
        if env is not source:
            with suppress(*ENV_EXCEPTIONS):
                env.close()


def look_at_world(source: EnvSource) -> tuple[Spaces, list[str]]:
    """``look`` at environments that are stepped together."""
    try:
        world = open_vec_env(source, getattr(source, "num_envs", 2))
        assert world is not None
        notes = examine_world(world)
    except EnvironmentFault:
        # What is wrong with one of them is easier to understand than what all of them made of it.
        if (one := one_of(source)) is not None:
            with prefixed(f"{name_of(source)} (environment 0)"):
                examine(one)
        raise
    if isinstance(source, str):
        world.close()
    return world.spaces, notes


def one_of(source: Any) -> Env | None:
    """One of the environments that a vector environment is made of, if they can be had."""
    inner = source.unwrapped if isinstance(source, gym.vector.VectorEnv) else None
    if isinstance(inner, gym.vector.AsyncVectorEnv):
        return inner.env_fns[0]()
    return inner.envs[0] if isinstance(inner, gym.vector.SyncVectorEnv) else None
