"""One environment on the hot path: no checks that have passed already, and faults named where they happen."""

from collections.abc import Callable
from math import isfinite
from typing import Any

import numpy as np

from toppo.envs.make import Env, EnvSource, make, strip
from toppo.envs.mujoco import thin_step
from toppo.envs.spaces import action_to_env, describe
from toppo.errors import EnvironmentFault


class Environment:
    """Steps one environment with the policy's actions; counts the time limit itself."""

    def __init__(self, env: Env, name: str) -> None:
        """Strip the checking wrappers; ``name`` stands in messages."""
        self.name = name
        self.env, self._limit = strip(env)
        self._to_env: Callable[[np.ndarray], Any] = action_to_env(describe(env))
        self._step = thin_step(self.env) or self.env.step
        self._t = 0

    def reset(self, seed: int) -> np.ndarray:
        """Start an episode; the observation as a flat array."""
        self._t = 0
        obs, _ = self.env.reset(seed=seed)
        flat = np.asarray(obs).ravel()
        if not np.isfinite(flat).all():
            raise EnvironmentFault(f"{self.name}: reset(seed={seed}) gave an observation that is not finite: {flat}")
        return flat

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool]:
        """One step: flat observation, reward, terminated, truncated."""
        env_action = self._to_env(action)
        obs, reward, terminated, truncated, _ = self._step(env_action)
        self._t += 1
        flat = np.asarray(obs).ravel()
        reward = float(reward)
        # The product with itself is infinite or NaN if any entry is: a tenth of the price of looking at each.
        if not (isfinite(reward) and isfinite(flat.dot(flat))):
            self._refuse(flat, reward, env_action)
        if self._limit is not None and self._t >= self._limit:
            truncated = True
        return flat, reward, bool(terminated), bool(truncated)

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    def _refuse(self, obs: np.ndarray, reward: float, action: Any) -> None:
        for field, value in (("reward", np.asarray(reward)), ("observation", obs)):
            if not np.isfinite(value).all():
                raise EnvironmentFault(
                    f"{self.name}: step {self._t} of the episode gave a {field} that is not finite "
                    f"({value}) after action {action}; mend the environment or end the episode there"
                )


def open_environment(source: EnvSource, index: int) -> Environment:
    """Environment number ``index`` of a run, made from its source."""
    label = source if isinstance(source, str) else getattr(source, "__name__", type(source).__name__)
    return Environment(make(source), f"{label} (environment {index})")
