"""Atari games by ale-py's own vector environment, which resizes, pools, stacks and skips natively.

Standard preprocessing: up to 29 frames of FIRE and no-ops at the start of a game, every action for 4 frames, the
maximum of the last two, 84 x 84 grey, the last four stacked.  A lost life ends an episode for the learner; the game
goes on with FIRE, and a score is that of a whole game.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import gymnasium as gym
import numpy as np

from toppo.envs.spaces import describe_spaces
from toppo.envs.vector import ResetSpec, VecStep
from toppo.errors import ToppoError, as_environment_fault

FRAMES = 4  # per action
GAMES_PER_SEED = 32


def is_game(given_id: str) -> bool:
    """Is this the id of an Atari game?  ale-py is imported if it looks like one; other ids of a game are refused."""
    env_id = given_id.removeprefix("ale_py:")
    has_our_form = env_id.startswith("ALE/") or "NoFrameskip-v" in env_id
    if has_our_form or env_id != given_id:
        register(given_id)
    known = gym.registry.get(env_id)
    if known is None or not str(known.entry_point).startswith("ale_py"):
        return False
    if env_id != given_id or not has_our_form:
        raise ToppoError(f"{given_id!r} is an Atari game that has other names here: {names_of_game(env_id)}")
    return True


def names_of_game(env_id: str) -> str | None:
    """A sentence on how an Atari game is called here, if the id names one in some other way."""
    game = re.sub(r"^ALE/|(Deterministic|NoFrameskip)?-v\d+$", "", env_id)
    with suppress(ToppoError):
        register(env_id)
        if f"ALE/{game}-v5" in gym.registry:
            return f"write '{game}NoFrameskip-v4', or 'ALE/{game}-v5' for sticky actions"
    return None


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
        frames, stickiness = settings["max_num_frames_per_episode"], settings["repeat_action_probability"]
        # A seed loads the game anew, which takes 20 times as long as a reset.  All that is left to chance then is how
        # many frames a game begins with, if actions are obeyed: what was played before leaves no trace.
        self.per_seed = 1 if stickiness else GAMES_PER_SEED
        self.env = AtariVectorEnv(
            settings["game"],
            count,
            frameskip=FRAMES,
            repeat_action_probability=stickiness,
            full_action_space=settings["full_action_space"],
            max_num_frames_per_episode=frames,
            life_loss_info=True,
            reward_clipping=False,
        )
        space = self.env.single_observation_space
        self.spaces = describe_spaces(space, self.env.single_action_space, False, frames // FRAMES)
        self._played: dict[int, ResetSpec] = {}
        self._fire = _fire_of(self.env)
        self._lost_life = np.zeros(count, bool)

    def reset(self, starts: Mapping[int, ResetSpec]) -> np.ndarray:
        """New games; the rows of all."""
        follows = {i for i, start in starts.items() if self._played.get(i) == start._replace(nth=start.nth - 1)}
        afresh = [i for i in starts if i not in follows]
        if not self._played:  # the emulators want to be started all together
            afresh = list(range(self.count))
        self._played |= {**dict.fromkeys(afresh, ResetSpec(0)), **starts}
        due = [1 if i in follows else starts[i].nth if i in starts else 0 for i in range(self.count)]
        if afresh:
            rows = self._reset(afresh, np.array([self._played[i].seed for i in sorted(afresh)]))
        for turn in range(max(due)):
            rows = self._reset([i for i, resets in enumerate(due) if resets > turn])
        return rows

    def _reset(self, which: list[int], seeds: np.ndarray | None = None) -> np.ndarray:
        """Reset some of the games, with seeds in their order; the rows of all."""
        mask = np.isin(np.arange(self.count), which)
        with as_environment_fault(f"{self.name}: reset"):
            obs, _ = self.env.reset(seed=seeds, options=None if mask.all() else {"reset_mask": mask})
        self._lost_life &= ~mask
        rows: np.ndarray = obs.reshape(self.count, -1)
        return rows

    def step(self, actions: np.ndarray) -> VecStep:
        """Four frames of every game.

        The first action of a new life is FIRE where the game has it, as the usual wrappers have it: Breakout waits for
        it, and a policy that never presses it would play for half an hour.
        """
        if self._fire is not None:
            actions = np.where(self._lost_life, self._fire, actions)
        with as_environment_fault(f"{self.name}: step"):
            obs, reward, terminated, truncated, info = self.env.step(np.ascontiguousarray(actions, np.int32))
        over = (terminated & (info["lives"] == 0)) | truncated
        self._lost_life = terminated & ~over
        return VecStep(obs.reshape(self.count, -1), reward.astype(float), terminated, terminated | truncated, over)

    def close(self) -> None:
        """End the emulators."""
        self.env.close()


def _fire_of(env: Any) -> int | None:
    """Which action of a vector of games is FIRE, if they have it."""
    names = [action.name for action in env.ale.get_action_set()]
    return names.index("FIRE") if "FIRE" in names else None
