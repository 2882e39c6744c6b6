"""Environments that one call steps: whatever is a ``gymnasium.vector.VectorEnv``."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from toppo.envs.actions import action_to_env, checked_mask
from toppo.envs.observations import check_observation, fits_float32, mask_in, numbers_in, of_batch, row_encoder
from toppo.envs.spaces import BadValue, Info, Obs, describe_spaces, shortened
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
LATE_MASK = "step() gave an action_mask, but reset() gave none: give it with both, or the first action has none"


class VecStep(NamedTuple):
    """One step of all environments."""

    rows: np.ndarray  # [E, row]; where an episode is over, its last observation
    reward: np.ndarray  # [E]
    terminated: np.ndarray  # [E]
    ended: np.ndarray  # [E] for the learner
    over: np.ndarray  # [E] is a reset due?


class ResetSpec(NamedTuple):
    """The start of an episode: a reset with a seed, and ``nth`` more resets without one."""

    seed: int
    nth: int = 0


class GymVecEnv:
    """A vector environment of Gymnasium's, in any autoreset mode; every reset is made here, with its own seed."""

    episodes_per_seed = 1  # more if a reset leads to the same start whatever was played before it

    def __init__(self, env: VectorEnv) -> None:
        """Reset the environments once, to find out whether they give masks."""
        self.name = type(env).__name__
        self.env = env
        self.n_envs = env.num_envs
        self.notes: list[str] | None = None  # a list in the check before training: then every row is checked
        with as_environment_fault(f"{self.name}: reset"):
            self._read_masks = _masks_reader(env, self._first_info())
        self.spaces = describe_spaces(
            env.single_observation_space,
            env.single_action_space,
            masked=self._read_masks is not None,
            limit=getattr(env.spec, "max_episode_steps", None),
        )
        self._encode = row_encoder(self.spaces)
        self._to_env = action_to_env(self.spaces)
        self._resets_in_step = env.metadata.get("autoreset_mode") == gym.vector.AutoresetMode.SAME_STEP
        self._rows = np.zeros((self.n_envs, self.spaces.row_size), self.spaces.row_dtype)

    def reset(self, starts: Mapping[int, ResetSpec]) -> np.ndarray:
        """Reset these environments; the rows of all."""
        mask = np.array([i in starts for i in range(self.n_envs)])
        # Gymnasium's own vector environments take None for those that are left alone; its types do not say so.
        seeds: Any = [starts[i].seed if i in starts else None for i in range(self.n_envs)]
        with as_environment_fault(f"{self.name}: reset"):
            try:
                answer = self.env.reset(seed=seeds, options=None if mask.all() else {"reset_mask": mask})
            except (TypeError, ValueError, gym.error.Error) as error:
                if mask.all():
                    raise
                raise self._no_single_resets(safe_message(error)) from error
            obs, info = self._checked_answer(answer, ("observations", "info"))
            masks = self._read_masks(info) if self._read_masks else None
            for i in starts:
                self._rows[i] = self._row(obs, masks, i, "reset")
            if self.notes is not None:
                self._refuse_other_resets(obs, np.flatnonzero(~mask))
        return self._rows.copy()

    def step(self, actions: np.ndarray) -> VecStep:
        """Step all environments."""
        given = np.stack([self._to_env(action) for action in actions])
        form = ("observations", "rewards", "terminated", "truncated", "info")
        with as_environment_fault(f"{self.name}: step"):
            obs, reward, terminated, truncated, info = self._checked_answer(self.env.step(given), form)
            if self.notes is not None and self._read_masks is None and self.spaces.discrete and "action_mask" in info:
                raise EnvironmentFault(f"{self.name}: {LATE_MASK}")
            masks = self._read_masks(info) if self._read_masks else None
            over = terminated | truncated
            if not fits_float32(reward):
                i = next(i for i, value in enumerate(reward) if not fits_float32(value))
                raise NotFinite(f"{self._label(i)}: a step gave a reward that is not finite in float32 ({reward[i]})")
            for i in range(self.n_envs):
                last = info["final_obs"] if over[i] and self._resets_in_step else obs
                self._rows[i] = self._row(last, masks, i, "step", bool(over[i]))
        rows = self._rows.copy()
        return VecStep(rows=rows, reward=reward.astype(float), terminated=terminated, ended=over, over=over)

    def close(self) -> None:
        """Leave the environments open: they belong to whoever made them."""

    def _first_info(self) -> Info:
        """The info of a first reset; environments that take only one seed for all could not be reset alone."""
        seeds: Any = [0] * self.n_envs
        try:
            answer = self.env.reset(seed=seeds)
        except ENV_EXCEPTIONS as error:
            takes_one_seed = False
            with suppress(*ENV_EXCEPTIONS):
                self.env.reset(seed=0)
                takes_one_seed = True
            if takes_one_seed:
                raise self._no_single_resets(safe_message(error)) from error
            raise
        info: Info = self._checked_answer(answer, ("observations", "info"))[1]
        return info

    def _checked_answer(self, answer: Any, form: Sequence[str]) -> Any:
        """What ``reset`` or ``step`` gave, if it has the right form: shapes and types, not values."""
        call = "reset" if len(form) == 2 else "step"
        if not isinstance(answer, tuple) or len(answer) != len(form) or not isinstance(answer[-1], dict):
            raise EnvironmentFault(
                f"{self.name}: {call}() returned {shortened(answer)}, but must return ({', '.join(form)})"
            )
        arrays = [np.asarray(part) for part in answer[1:-1]]
        for name, array in zip(form[1:-1], arrays, strict=True):
            wanted = "numbers" if name == "rewards" else "booleans"
            if array.shape != (self.n_envs,) or array.dtype.kind not in {"numbers": "iuf", "booleans": "b"}[wanted]:
                raise EnvironmentFault(
                    f"{self.name}: step() returned {name} of shape {array.shape} and type {array.dtype}, but they "
                    f"must be {self.n_envs} {wanted}"
                )
        return answer[0], *arrays, answer[-1]

    def _row(self, obs: Obs, masks: Any, i: int, call: str, over: bool = False) -> np.ndarray:
        """The row of environment ``i``; after the end of an episode no mask is needed."""
        with prefixed(self._label(i)):
            try:
                needs_mask = self.spaces.masked and not over
                mask = checked_mask(None if masks is None else masks[i], self.spaces) if needs_mask else None
                try:
                    own = of_batch(obs, i)
                except (LookupError, TypeError) as error:
                    raise EnvironmentFault(f"{call}() gave no observation of it, but must give one of each") from error
                if self.notes is not None:
                    check_observation(own, self.spaces, self.env.single_observation_space, f"{call}()", self.notes)
                row = self._encode(own, mask)
            except BadValue as error:
                raise EnvironmentFault(f"after a {call}, {error}") from error
            if not fits_float32(numbers_in(row, self.spaces.obs_size)):
                raise NotFinite(f"a {call} gave an observation that is not finite: {row}")
        return row

    def _refuse_other_resets(self, obs: Obs, others: Iterable[int]) -> None:
        """Refuse a reset that changed the observations of environments that were to be left alone."""
        for i in others:
            row = self._encode(of_batch(obs, i), mask_in(self._rows[i], self.spaces)).astype(self._rows.dtype)
            if row.tobytes() != self._rows[i].tobytes():
                raise self._no_single_resets(f"environment {i} was to be left alone, but its observation changed")

    def _no_single_resets(self, why: str) -> ToppoError:
        return ToppoError(
            f"{self.name} does not reset single environments, each by its seed and options['reset_mask'] ({why}): give "
            f"the id or the function that makes one environment, and n_envs={self.n_envs}, instead"
        )

    def _label(self, i: int) -> str:
        return f"{self.name} (environment {i})"


def _masks_reader(env: VectorEnv, first_info: Info) -> Callable[[Info], Any] | None:
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
