"""One environment on the hot path: no checks that have passed already, and faults named where they happen."""

import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from toppo.envs.actions import action_to_env, mask_reader
from toppo.envs.mujoco import Step, costs, thin_step
from toppo.envs.mujoco_batch import EnvError, thin_steps
from toppo.envs.observations import LARGEST, held, live_rows, numbers_in, observer
from toppo.envs.source import EnvSource, make, name_of, strip
from toppo.envs.spaces import Env, describe
from toppo.errors import ENV_EXCEPTIONS, EnvironmentFault, NotFinite, in_one_line

LARGEST_SQUARE = LARGEST**2

StepTogether = Callable[[np.ndarray], tuple[Sequence[float], list[tuple[int, bool]]]]
"""Actions [E, A] in; all rewards before costs out, and for every episode that ended its environment and whether it
terminated."""


class Environment:
    """Steps one environment with the policy's actions; counts the time limit itself.

    What it shows lies in ``row``, and is overwritten by the next step: nothing is made anew and copied.
    """

    def __init__(
        self, env: Env, name: str, masked: bool | None = None, row: np.ndarray | None = None, owned: bool = True
    ) -> None:
        """Strip the checking wrappers; ``name`` stands in messages, and observations go to ``row``.

        An environment that is not ``owned`` is left open at the end.
        """
        self.name, self._owned = name, owned
        self.env, limit = strip(env)
        self._limit = float("inf") if limit is None else limit
        self.spaces = spaces = describe(env, masked)
        self.row = live_rows(spaces.row_size, spaces.row_dtype)[0] if row is None else row
        self._numbers = numbers_in(self.row, spaces.obs_size)
        self._to_env: Callable[[np.ndarray], Any] = action_to_env(spaces)
        self._observe, self._mask = observer(spaces), mask_reader(env, spaces)
        self._thin = thin_step(self.env, self.row)
        self._advance = never_truncated(self._thin.step) if self._thin else self._whole_step
        self.t = 0  # steps of this episode
        self._seed = 0

    def reset(self, seed: int) -> None:
        """Start an episode."""
        self.t, self._seed = 0, seed
        try:
            obs, info = self.env.reset(seed=seed)
            self._show(obs, self._mask(info, False))
        except ENV_EXCEPTIONS as error:
            raise self._raised(error) from error
        if not held(self._numbers):
            raise NotFinite(
                f"{self._where()} gave an observation that is not finite ({self._numbers}); mend the environment, or "
                "leave such episodes out with --on-nan truncate",
                self._details(obs=self._numbers) | {"field": "observation"},
            )

    def step(self, action: np.ndarray) -> tuple[float, bool, bool]:
        """One step: reward, terminated, truncated."""
        reward, terminated, truncated = self.take(action)
        return reward - float(self.costs(action)), terminated, truncated

    def costs(self, actions: np.ndarray) -> np.ndarray | float:
        """What the policy's actions [..., A] cost, if ``take`` leaves that out of their rewards."""
        return costs(self._to_env(actions), self._thin.price) if self._thin and self._thin.price else 0.0

    def take(self, action: np.ndarray) -> tuple[float, bool, bool]:
        """One step, its reward before the action's cost: those of a whole batch are cheaper taken off at once."""
        env_action, numbers = self._to_env(action), self._numbers
        self.t += 1
        try:
            reward, terminated, truncated = self._advance(env_action)
        except ENV_EXCEPTIONS as error:
            raise self._raised(error, action=env_action) from error
        # The product with itself is infinite or NaN if any entry is: a tenth of the price of looking at each.
        if not (-LARGEST <= reward <= LARGEST and float(numbers.dot(numbers)) < LARGEST_SQUARE):
            self._refuse(reward, env_action)
        return reward, terminated, truncated or self.is_late()

    def is_late(self) -> bool:
        """Has the episode reached its time limit?"""
        return self.t >= self._limit

    def close(self) -> None:
        """Close the environment; one that fails in doing so has nothing left to spoil."""
        with suppress(Exception):
            if self._owned:
                self.env.close()

    def _whole_step(self, action: Any) -> tuple[float, bool, bool]:
        obs, reward, terminated, truncated, info = self.env.step(action)
        self._show(obs, self._mask(info, bool(terminated or truncated)))
        return float(reward), bool(terminated), bool(truncated)

    def _show(self, obs: Any, mask: np.ndarray | None) -> None:
        row = self._observe(obs, mask)
        if row.shape != self.row.shape:  # NumPy would fill the row with copies of a single number
            raise ValueError(f"its observation has shape {np.shape(obs)}, another than before")
        self.row[:] = row

    def _refuse(self, reward: float, action: Any) -> None:
        for a, field, value in (("a", "reward", np.asarray(reward)), ("an", "observation", self._numbers)):
            if not held(value):
                raise NotFinite(
                    f"{self._where()} gave {a} {field} that is not finite ({value}) after action {action}; mend the "
                    "environment, or end the episode there with --on-nan truncate",
                    self._details(obs=self._numbers, reward=reward, action=action) | {"field": field},
                )

    def _raised(self, error: BaseException, **values: Any) -> EnvironmentFault:
        """The environment's own exception."""
        details = self._details(**values) | {"traceback": traceback.format_exception(error)}
        return EnvironmentFault(f"{self._where()} raised {in_one_line(error)}", details)

    def _where(self) -> str:
        return describe_call(self.name, self._seed, self.t)

    def _details(self, **values: Any) -> dict[str, Any]:
        plain = {name: np.asarray(value).astype(str).tolist() for name, value in values.items()}
        return {"environment": self.name, "seed": self._seed, "step": self.t, **plain}


def never_truncated(step: Step) -> Callable[[np.ndarray], tuple[float, bool, bool]]:
    """A thin step as a whole one."""
    return lambda action: (*step(action), False)


def step_together(envs: Sequence[Environment], rows: np.ndarray) -> StepTogether | None:
    """What ``take`` of each does, in one call: all that need not be done one by one is done once.

    None for one alone, and if one of them is not a MuJoCo task of Gymnasium's, or actions cost something else in it;
    ``rows`` [E, row] is where they show what they observe.
    """
    thins = [env._thin for env in envs if env._thin is not None]
    if len(envs) == 1 or len(thins) < len(envs) or len({thin.price for thin in thins}) > 1:
        return None
    to_env, numbers, move = envs[0]._to_env, rows.ravel(), thin_steps([env.env for env in envs], thins, rows)

    def step(actions: np.ndarray) -> tuple[Sequence[float], list[tuple[int, bool]]]:
        # The simulator computes in double precision: one conversion here is cheaper than one per environment.
        actions = to_env(actions).astype(float)
        for env in envs:
            env.t += 1
        try:
            rewards, terminated = move(actions)
        except EnvError as failed:
            raise envs[failed.place]._raised(failed.error, action=actions[failed.place]) from failed.error
        if not float(numbers.dot(numbers)) < LARGEST_SQUARE:  # their rewards are finite if what they show is
            for env, action, reward in zip(envs, actions, rewards, strict=True):
                env._refuse(reward, action)
        ends = [(j, over) for j, (env, over) in enumerate(zip(envs, terminated, strict=True)) if over or env.is_late()]
        return rewards, ends

    return step


def describe_call(name: str, seed: int, step: int) -> str:
    """Which call of an environment it was; step 0 is the reset."""
    call = f"step {step} of the episode with seed {seed}" if step else f"reset(seed={seed})"
    return f"{name}: {call}"


def label_of(source: EnvSource, index: int) -> str:
    """What environment number ``index`` of a run is called in messages."""
    return f"{name_of(source)} (environment {index})"


def open_environment(
    source: EnvSource, index: int, masked: bool | None = None, row: np.ndarray | None = None
) -> Environment:
    """Environment number ``index`` of a run, made from its source."""
    env = make(source)
    return Environment(env, label_of(source, index), masked, row, owned=env is not source)
