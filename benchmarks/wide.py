"""HalfCheetah and Walker2d with four motors at every joint, to see how an algorithm bears actions of many dimensions.

toppo train benchmarks.wide:WideCheetah-v0 --ent-coef 0
"""

from typing import Any

import gymnasium as gym
import numpy as np

MOTORS = 4


class Wide(gym.ActionWrapper):
    """An environment whose actions are four to a joint; half of their sum moves it."""

    def __init__(self, env: gym.Env) -> None:
        super().__init__(env)
        self.joints = env.action_space.shape[0]
        self.action_space = gym.spaces.Box(-1.0, 1.0, (MOTORS * self.joints,), np.float32)

    def action(self, action: np.ndarray) -> np.ndarray:
        """[4 J] -> [J]"""
        moved: np.ndarray = np.clip(action.reshape(MOTORS, self.joints).sum(0) / 2, -1.0, 1.0)
        return moved


def wide_cheetah(**options: Any) -> gym.Env:
    """HalfCheetah-v5 with 24 actions."""
    return Wide(gym.make("HalfCheetah-v5", **options))


def wide_walker(**options: Any) -> gym.Env:
    """Walker2d-v5 with 24 actions."""
    return Wide(gym.make("Walker2d-v5", **options))


gym.register("WideCheetah-v0", entry_point=wide_cheetah)
gym.register("WideWalker2d-v0", entry_point=wide_walker)
