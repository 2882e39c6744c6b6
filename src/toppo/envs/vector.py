"""Environments that are stepped together: whatever is a ``gymnasium.vector.VectorEnv`` already."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

import gymnasium as gym
import numpy as np

from toppo.envs.actions import action_to_env, flat_mask, random_action, why_not_a_mask
from toppo.envs.observations import (
    check_observation,
    fits_float32,
    mask_in,
    numbers_in,
    of_batch,
    row_encoder,
)
from toppo.envs.spaces import Info, Spaces, describe_spaces, shortened
from toppo.errors import (
    ENV_EXCEPTIONS,
    EnvironmentFault,
    NotFinite,
    ToppoError,
    as_environment_fault,
    prefixed,
    safe_message,
)

VectorEnv = gym.vector.VectorEnv[Any, Any, Any]
LATE_MASK = (
    "step() gave an action_mask, but reset() gave none, so the first action would be chosen without: give it with both"
)


class VecStep(NamedTuple):
    """One step of all environments."""

    rows: np.ndarray  # [E, row]; where an episode is over, its last observation
    reward: np.ndarray  # [E]
    terminated: np.ndarray  # [E]
    ended: np.ndarray  # [E] for the learner
    over: np.ndarray  # [E] is a reset due?


class ResetSpec(NamedTuple):
    """Where an episode begins: with a reset by a seed, and ``nth`` more resets without one."""

    seed: int
    nth: int = 0


class VecEnv(Protocol):
    """Environments in step."""

    name: str  # stands in messages
    spaces: Spaces
    count: int
    per_seed: int  # episodes by one seed; 1 unless a reset leads to the same start whatever was played before it

    def reset(self, starts: Mapping[int, ResetSpec]) -> np.ndarray:
        """Reset these environments, and leave the others alone; the rows of all of them."""

    def step(self, actions: np.ndarray) -> VecStep:
        """Step all environments with the policy's actions."""

    def close(self) -> None:
        """Close them."""


class GymVecEnv:
    """Gymnasium's vector environments, in any of their autoreset modes: they are reset here, each with its seed."""

    per_seed = 1

    def __init__(self, env: VectorEnv) -> None:
        """Look at the first reset."""
        self.name, self.env, self.count = type(env).__name__, env, env.num_envs
        self.notes: list[str] | None = None  # a list in the look before training: then every row is examined
        with as_environment_fault(f"{self.name}: reset"):
            self._masks = masks_reader(env, self._first_info())
        limit = getattr(env.spec, "max_episode_steps", None)
        observation, action, masked = env.single_observation_space, env.single_action_space, self._masks is not None
        self.spaces = describe_spaces(observation, action, masked, limit)
        self._encode, self._to_env = row_encoder(self.spaces), action_to_env(self.spaces)
        self._ends_at_once = env.metadata.get("autoreset_mode") == gym.vector.AutoresetMode.SAME_STEP
        self._last = np.zeros((self.count, self.spaces.row_size), self.spaces.row_dtype)

    def reset(self, starts: Mapping[int, ResetSpec]) -> np.ndarray:
        """Reset these environments; the rows of all."""
        mask = np.array([i in starts for i in range(self.count)])
        with as_environment_fault(f"{self.name}: reset"):
            try:
                seeds: Any = [starts[i].seed if i in starts else None for i in range(self.count)]
                answer = self.env.reset(seed=seeds, options=None if mask.all() else {"reset_mask": mask})
            except (TypeError, ValueError, gym.error.Error) as error:
                if mask.all():
                    raise
                raise self._resets_as_a_whole(safe_message(error)) from error
            obs, info = self._answer(2, answer)
            masks = self._masks(info) if self._masks else None
            for i in starts:
                self._last[i] = self._row(obs, masks, i, "reset")
            if self.notes is not None:
                self._refuse_other_resets(obs, np.flatnonzero(~mask))
        return self._last.copy()

    def step(self, actions: np.ndarray) -> VecStep:
        """Step all environments."""
        given = np.stack([np.asarray(self._to_env(action)) for action in actions])
        with as_environment_fault(f"{self.name}: step"):
            obs, reward, terminated, truncated, info = self._answer(5, self.env.step(given))
            if self.notes is not None and self._masks is None and self.spaces.discrete and "action_mask" in info:
                raise EnvironmentFault(f"{self.name}: {LATE_MASK}")
            masks, over = self._masks(info) if self._masks else None, np.asarray(terminated) | np.asarray(truncated)
            if not fits_float32(reward):
                bad = next(i for i, value in enumerate(reward) if not fits_float32(value))
                raise NotFinite(
                    f"{self._where(bad)}: a step gave a reward that is not finite in float32 ({reward[bad]})"
                )
            for i in range(self.count):
                shown = info["final_obs"] if over[i] and self._ends_at_once else obs
                self._last[i] = self._row(shown, masks, i, "step", bool(over[i]))
        return VecStep(self._last.copy(), np.asarray(reward, float), np.asarray(terminated, bool), over, over)

    def close(self) -> None:
        """Leave the environments open: they belong to whoever made them."""

    def _first_info(self) -> Info:
        """The info of a first reset; environments that take only one seed for all could not be reset alone."""
        each: Any = [0] * self.count
        try:
            answer = self.env.reset(seed=each)
        except ENV_EXCEPTIONS as error:
            if self._takes_one_seed():
                raise self._resets_as_a_whole(safe_message(error)) from error
            raise
        info: Info = self._answer(2, answer)[1]
        return info

    def _takes_one_seed(self) -> bool:
        with suppress(*ENV_EXCEPTIONS):
            self.env.reset(seed=0)
            return True
        return False

    def _answer(self, size: int, answer: Any) -> Any:
        """What ``reset`` or ``step`` gave, if it has the right form."""
        if not isinstance(answer, tuple) or len(answer) != size or not isinstance(answer[-1], dict):
            form = "observations, info" if size == 2 else "observations, rewards, terminated, truncated, info"
            call = "reset" if size == 2 else "step"
            raise EnvironmentFault(f"{self.name}: {call}() returned {shortened(answer)}, but must return ({form})")
        for name, part in zip(("rewards", "terminated", "truncated"), answer[1:-1], strict=False):
            if np.shape(part) != (self.count,):
                raise EnvironmentFault(
                    f"{self.name}: step() returned {name} of shape {np.shape(part)}, but must return {(self.count,)}"
                )
        return answer

    def _row(self, obs: Any, masks: Any, i: int, where: str, over: bool = False) -> np.ndarray:
        mask = None if masks is None or over else flat_mask(masks[i])
        if self.spaces.masked and not over and (fault := why_not_a_mask(mask, self.spaces)):
            raise EnvironmentFault(f"{self._where(i)}: its mask after a {where} cannot be used: {fault}")
        try:
            seen = of_batch(obs, i)
        except (LookupError, TypeError) as error:
            raise EnvironmentFault(f"{self._where(i)}: {where}() gave no observation of it, but must of all") from error
        if self.notes is not None:
            with prefixed(self._where(i)):
                check_observation(seen, self.spaces, self.env.single_observation_space, f"{where}()", self.notes)
        row = self._encode(seen, mask)
        if not fits_float32(numbers_in(row, self.spaces.obs_size)):
            raise NotFinite(f"{self._where(i)}: a {where} gave an observation that is not finite: {row}")
        return row

    def _refuse_other_resets(self, obs: Any, others: Iterable[int]) -> None:
        """Environments that were to be left alone must show what they showed before."""
        for i in others:
            row = self._encode(of_batch(obs, i), mask_in(self._last[i], self.spaces)).astype(self._last.dtype)
            if row.tobytes() != self._last[i].tobytes():
                raise self._resets_as_a_whole(f"environment {i} was to be left alone and shows something else")

    def _resets_as_a_whole(self, why: str) -> ToppoError:
        return ToppoError(
            f"{self.name} does not reset single environments, each by its seed and options['reset_mask'] ({why}): give "
            f"the id or the function that makes one environment, and n_envs={self.count}, instead"
        )

    def _where(self, i: int) -> str:
        return f"{self.name} (environment {i})"


def masks_reader(env: VectorEnv, first_info: Info) -> Callable[[Info], Any] | None:
    """The function from a step's info to the masks of all environments; None if they give none."""
    if isinstance(env.single_action_space, gym.spaces.Box):
        return None
    if "action_mask" in first_info:
        return lambda info: info.get("action_mask")
    inner = env.unwrapped
    if isinstance(inner, gym.vector.SyncVectorEnv | gym.vector.AsyncVectorEnv):
        offered = all(inner.call("has_wrapper_attr", "action_masks"))
        return (lambda info: inner.call("action_masks")) if offered else None
    return (lambda info: inner.action_masks()) if hasattr(inner, "action_masks") else None


class FirstEnv:
    """The first environment of a world, alone; with the interface of ``Environment``."""

    def __init__(self, world: VecEnv) -> None:
        """Play in that world."""
        self.world, self.env, self.spaces = world, getattr(world, "env", world), world.spaces
        self.name = world.name
        self._rows = np.zeros((world.count, self.spaces.row_size), self.spaces.row_dtype)
        self._rng = np.random.default_rng(0)

    @property
    def row(self) -> np.ndarray:
        """What was seen last."""
        row: np.ndarray = self._rows[0]
        return row

    def reset(self, seed: int) -> None:
        """Start an episode."""
        self._rows = self.world.reset(dict.fromkeys(range(self.world.count), ResetSpec(seed)))

    def step(self, action: np.ndarray) -> tuple[float, bool, bool]:
        """One step, in which the others do anything; an ending is that of the whole episode."""
        others = [random_action(self.spaces, mask_in(row, self.spaces), self._rng) for row in self._rows[1:]]
        moved = self.world.step(np.stack([action, *others]))
        ended = {int(i): ResetSpec(0) for i in np.flatnonzero(moved.over) if i > 0}
        self._rows = moved.rows
        if ended:
            self._rows = self.world.reset(ended)
        over, terminated = bool(moved.over[0]), bool(moved.terminated[0])
        return float(moved.reward[0]), over and terminated, over and not terminated

    def close(self) -> None:
        """Close the world."""
        self.world.close()
