"""Atari games by ale-py's own vector environment, which resizes, pools, stacks and skips natively.

Standard preprocessing: up to 29 frames of FIRE and no-ops at the start of a game, every action for 4 frames, the
maximum of the last two, 84 x 84 grey, the last four stacked.  A lost life ends an episode for the learner; the game
goes on with FIRE, and a score is that of a whole game.
"""

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from toppo.envs.spaces import describe_spaces
from toppo.envs.together import Moved
from toppo.errors import ToppoError, blaming

FRAMES = 4  # per action


def is_atari(source: Any) -> bool:
    """Is this the id of an Atari game?"""
    if not isinstance(source, str):
        return False
    env_id = source.removeprefix("ale_py:")
    if not (env_id.startswith("ALE/") or "NoFrameskip-v" in env_id):
        return False
    register(source)
    if source != env_id and env_id in gym.registry:
        raise ToppoError(f"{source!r} is an Atari game, which goes by one name here: write {env_id!r}")
    return source in gym.registry


def register(env_id: str) -> None:
    """Make Gymnasium know the ids of ale-py, which registers them when it is imported."""
    try:
        import ale_py
    except ImportError as error:
        raise ToppoError(f"{env_id!r} needs the package 'ale_py': pip install 'toppo[atari]'") from error
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)


class AtariGames:
    """``count`` games of one id in step."""

    def __init__(self, env_id: str, count: int) -> None:
        """``*NoFrameskip-v4``: every action is obeyed; ``ALE/*-v5``: a quarter of them repeat the one before."""
        from ale_py.vector_env import AtariVectorEnv

        settings, self.name, self.count = gym.registry[env_id].kwargs, env_id, count
        frames = settings["max_num_frames_per_episode"]
        self.env = AtariVectorEnv(
            settings["game"],
            count,
            frameskip=FRAMES,
            repeat_action_probability=settings["repeat_action_probability"],
            full_action_space=settings["full_action_space"],
            max_num_frames_per_episode=frames,
            life_loss_info=True,
            reward_clipping=False,
        )
        space = self.env.single_observation_space
        self.spaces = describe_spaces(space, self.env.single_action_space, False, frames // FRAMES)
        self._started = False
        self._fire = _fire_of(self.env)
        self._lost_life = np.zeros(count, bool)

    def reset(self, seeds: Mapping[int, int]) -> np.ndarray:
        """New games, each with its seed; the rows of all."""
        mask = np.array([i in seeds for i in range(self.count)])
        if not self._started:  # the emulators want to be started all together
            mask[:] = True
        given = np.array([seeds.get(int(i), 0) for i in np.flatnonzero(mask)])
        with blaming(f"{self.name}: reset"):
            obs, _ = self.env.reset(seed=given, options={"reset_mask": mask} if self._started else None)
        self._started = True
        self._lost_life &= ~mask
        rows: np.ndarray = obs.reshape(self.count, -1)
        return rows

    def step(self, actions: np.ndarray) -> Moved:
        """Four frames of every game.

        The first action of a new life is FIRE where the game has it, as the usual wrappers have it: Breakout waits for
        it, and a policy that never presses it would play for half an hour.
        """
        if self._fire is not None:
            actions = np.where(self._lost_life, self._fire, actions)
        with blaming(f"{self.name}: step"):
            obs, reward, terminated, truncated, info = self.env.step(np.ascontiguousarray(actions, np.int32))
        over = (terminated & (info["lives"] == 0)) | truncated
        self._lost_life = terminated & ~over
        return Moved(obs.reshape(self.count, -1), reward.astype(float), terminated, terminated | truncated, over)

    def close(self) -> None:
        """End the emulators."""
        self.env.close()


def _fire_of(env: Any) -> int | None:
    """Which action of a vector of games is FIRE, if they have it."""
    names = [action.name for action in env.ale.get_action_set()]
    return names.index("FIRE") if "FIRE" in names else None
