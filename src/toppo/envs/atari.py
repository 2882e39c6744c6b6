"""Atari games by ale-py's own vector environment, which resizes, pools, stacks and skips natively.

Standard preprocessing: up to 29 frames of FIRE and no-ops at the start of a game, every action for 4 frames, the
maximum of the last two, 84 x 84 grey, the last four stacked.  A lost life ends an episode for the learner; the game
continues with FIRE, and a score is that of a whole game.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import gymnasium as gym
import numpy as np

from toppo.envs.spaces import describe_spaces
from toppo.envs.vector import ResetSpec, VecStep
from toppo.errors import ToppoError, as_environment_fault, install_command

FRAMES = 4  # per action
GAMES_PER_SEED = 32


def is_game(given_id: str) -> bool:
    """Is this the id of an Atari game?  ale-py is imported if it looks like one; other ids of a game are refused."""
    env_id = given_id.removeprefix("ale_py:")
    has_our_form = env_id.startswith("ALE/") or "NoFrameskip-v" in env_id
    if has_our_form or env_id != given_id:
        register_games(given_id)
    known = gym.registry.get(env_id)
    if known is None or not str(known.entry_point).startswith("ale_py"):
        return False
    if env_id != given_id or not has_our_form:
        raise ToppoError(f"{given_id!r} is an Atari game that has other names here: {names_of_game(env_id)}")
    return True


def names_of_game(env_id: str) -> str | None:
    """A sentence with the ids of an Atari game in toppo, if the id names a game in another way."""
    game = re.sub(r"^ALE/|(Deterministic|NoFrameskip)?-v\d+$", "", env_id)
    with suppress(ToppoError):
        register_games(env_id)
        if f"ALE/{game}-v5" in gym.registry:
            return f"write '{game}NoFrameskip-v4', or 'ALE/{game}-v5' for sticky actions"
    return None


def register_games(env_id: str) -> None:
    """Import ale-py, which registers its ids with Gymnasium."""
    try:
        import ale_py
    except ImportError as error:
        raise ToppoError(f"{env_id!r} needs the package 'ale_py': {install_command('atari')}") from error
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)


class AtariGames:
    """``n_envs`` games of one id, stepped in one call."""

    def __init__(self, env_id: str, n_envs: int) -> None:
        """``*NoFrameskip-v4``: every action is obeyed; ``ALE/*-v5``: a quarter of them repeat the one before."""
        from ale_py.vector_env import AtariVectorEnv

        settings = gym.registry[env_id].kwargs
        max_frames = settings["max_num_frames_per_episode"]
        stickiness = settings["repeat_action_probability"]
        self.name = env_id
        self.n_envs = n_envs
        # A seed loads the game again, which takes 20 times as long as a reset.  If actions are obeyed, only the number
        # of frames at the start of a game is random, and the games before it have no influence.
        self.episodes_per_seed = 1 if stickiness else GAMES_PER_SEED
        self.env = AtariVectorEnv(
            settings["game"],
            n_envs,
            frameskip=FRAMES,
            repeat_action_probability=stickiness,
            full_action_space=settings["full_action_space"],
            max_num_frames_per_episode=max_frames,
            life_loss_info=True,
            reward_clipping=False,
        )
        self.spaces = describe_spaces(
            self.env.single_observation_space, self.env.single_action_space, masked=False, limit=max_frames // FRAMES
        )
        self._played: dict[int, ResetSpec] = {}
        self._fire = fire_action(self.env)
        self._lost_life = np.zeros(n_envs, bool)

    def reset(self, starts: Mapping[int, ResetSpec]) -> np.ndarray:
        """Start these games; the rows of all."""
        follows = {i for i, start in starts.items() if self._played.get(i) == start._replace(nth=start.nth - 1)}
        seeded = [i for i in starts if i not in follows]
        if not self._played:  # the first reset must be one of all emulators
            seeded = list(range(self.n_envs))
        self._played |= {**dict.fromkeys(seeded, ResetSpec(0)), **starts}
        due = [1 if i in follows else starts[i].nth if i in starts else 0 for i in range(self.n_envs)]
        if seeded:
            rows = self._reset(seeded, np.array([self._played[i].seed for i in sorted(seeded)]))
        for turn in range(max(due)):
            rows = self._reset([i for i, resets in enumerate(due) if resets > turn])
        return rows

    def _reset(self, which: list[int], seeds: np.ndarray | None = None) -> np.ndarray:
        """Reset some of the games, with seeds in their order; the rows of all."""
        mask = np.isin(np.arange(self.n_envs), which)
        with as_environment_fault(f"{self.name}: reset"):
            obs: np.ndarray = self.env.reset(seed=seeds, options=None if mask.all() else {"reset_mask": mask})[0]
        self._lost_life &= ~mask
        rows: np.ndarray = obs.reshape(self.n_envs, -1)
        return rows

    def step(self, actions: np.ndarray) -> VecStep:
        """Play four frames of every game.

        The first action of a new life is FIRE where the game has it, as in the usual wrappers: Breakout waits for it,
        and a policy that never presses it would play for half an hour.
        """
        if self._fire is not None:
            actions = np.where(self._lost_life, self._fire, actions)
        with as_environment_fault(f"{self.name}: step"):
            obs, reward, terminated, truncated, info = self.env.step(np.ascontiguousarray(actions, np.int32))
        over = (terminated & (info["lives"] == 0)) | truncated
        self._lost_life = terminated & ~over
        return VecStep(
            rows=obs.reshape(self.n_envs, -1),
            reward=reward.astype(float),
            terminated=terminated,
            ended=terminated | truncated,
            over=over,
        )

    def close(self) -> None:
        """End the emulators."""
        self.env.close()


def fire_action(env: Any) -> int | None:
    """The number of the action FIRE in a vector of games; None if they do not have it."""
    names = [action.name for action in env.ale.get_action_set()]
    return names.index("FIRE") if "FIRE" in names else None
