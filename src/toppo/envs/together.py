"""Environments that are stepped together: whatever is a ``gymnasium.vector.VectorEnv`` already."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import gymnasium as gym
import numpy as np

from toppo.envs.actions import action_to_env, flat_mask, why_not_a_mask
from toppo.envs.rows import held, numbers_in, observer, row_of
from toppo.envs.spaces import Spaces, describe_spaces
from toppo.errors import EnvironmentFault, NotFinite, ToppoError, blaming

VectorEnv = gym.vector.VectorEnv[Any, Any, Any]


class Moved(NamedTuple):
    """One step of all environments."""

    rows: np.ndarray  # [E, row]; where an episode is over, its last observation
    reward: np.ndarray  # [E]
    terminated: np.ndarray  # [E]
    ended: np.ndarray  # [E] for the learner
    over: np.ndarray  # [E] is a reset due?


class World(Protocol):
    """Environments in step."""

    name: str  # stands in messages
    spaces: Spaces
    count: int

    def reset(self, seeds: Mapping[int, int]) -> np.ndarray:
        """Reset these environments, and leave the others alone; the rows of all of them."""

    def step(self, actions: np.ndarray) -> Moved:
        """Step all environments with the policy's actions."""

    def close(self) -> None:
        """Close them."""


class VectorWorld:
    """Gymnasium's vector environments, in any of their autoreset modes: they are reset here, each with its seed."""

    def __init__(self, env: VectorEnv) -> None:
        """Look at the first reset."""
        self.name, self.env, self.count = type(env).__name__, env, env.num_envs
        with blaming(f"{self.name}: reset"):
            _, info = env.reset(seed=[0] * self.count)  # type: ignore[arg-type]
        limit = getattr(env.spec, "max_episode_steps", None)
        masked = "action_mask" in info
        self.spaces = describe_spaces(env.single_observation_space, env.single_action_space, masked, limit)
        self._observe, self._to_env = observer(self.spaces), action_to_env(self.spaces)
        self._ends_at_once = env.metadata.get("autoreset_mode") == gym.vector.AutoresetMode.SAME_STEP
        self._last = np.zeros((self.count, self.spaces.row_size), self.spaces.row_dtype)

    def reset(self, seeds: Mapping[int, int]) -> np.ndarray:
        """Reset these environments; the rows of all."""
        mask = np.array([i in seeds for i in range(self.count)])
        with blaming(f"{self.name}: reset"):
            try:
                obs, info = self.env.reset(
                    seed=[seeds.get(i) for i in range(self.count)],  # type: ignore[arg-type]
                    options=None if mask.all() else {"reset_mask": mask},
                )
            except (TypeError, ValueError) as error:
                if mask.all():
                    raise
                raise ToppoError(
                    f"{self.name} does not reset single environments by options['reset_mask'] ({error}): "
                    "give the function that makes one environment instead"
                ) from error
        for i in seeds:
            self._last[i] = self._row(obs, info, i, "reset")
        return self._last.copy()

    def step(self, actions: np.ndarray) -> Moved:
        """Step all environments."""
        given = np.stack([np.asarray(self._to_env(action)) for action in actions])
        with blaming(f"{self.name}: step"):
            obs, reward, terminated, truncated, info = self.env.step(given)
        over = np.asarray(terminated) | np.asarray(truncated)
        if not held(reward):
            bad = next(i for i, value in enumerate(reward) if not held(value))
            raise NotFinite(
                f"{self.name} (environment {bad}): a step gave a reward that is not finite in float32 ({reward[bad]})"
            )
        for i in range(self.count):
            shown = info["final_obs"] if over[i] and self._ends_at_once else obs
            self._last[i] = self._row(shown, {} if over[i] else info, i, "step")
        return Moved(self._last.copy(), np.asarray(reward, float), np.asarray(terminated, bool), over, over)

    def close(self) -> None:
        """Leave the environments open: they belong to whoever made them."""

    def _row(self, obs: Any, info: dict[str, Any], i: int, where: str) -> np.ndarray:
        mask = flat_mask(info["action_mask"][i]) if self.spaces.masked and "action_mask" in info else None
        if mask is not None and (fault := why_not_a_mask(mask, self.spaces)):
            raise EnvironmentFault(f"{self.name} (environment {i}): its mask after a {where} cannot be used: {fault}")
        row = self._observe(row_of(obs, i), mask)
        if not held(numbers_in(row, self.spaces.obs_size)):
            raise NotFinite(f"{self.name} (environment {i}): a {where} gave an observation that is not finite: {row}")
        return row


class Solo:
    """The first environment of a world, alone; with the interface of ``Environment``."""

    def __init__(self, world: World) -> None:
        """Play in that world."""
        self.world, self.env, self.spaces = world, getattr(world, "env", world), world.spaces
        self.name = world.name
        self.row = np.zeros(self.spaces.row_size, self.spaces.row_dtype)  # what was seen last

    def reset(self, seed: int) -> None:
        """Start an episode."""
        self.row = self.world.reset(dict.fromkeys(range(self.world.count), seed))[0]

    def step(self, action: np.ndarray) -> tuple[float, bool, bool]:
        """One step; an ending is that of the whole episode."""
        moved = self.world.step(np.stack([action] * self.world.count))
        over, terminated, self.row = bool(moved.over[0]), bool(moved.terminated[0]), moved.rows[0]
        return float(moved.reward[0]), over and terminated, over and not terminated

    def close(self) -> None:
        """Close the world."""
        self.world.close()
