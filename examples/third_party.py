"""An environment from a package, wrapped: MiniGrid's dictionary of picture, direction and mission, with a small twist.

Needs `pip install minigrid`.
"""

import sys
from typing import Any

import gymnasium as gym
import numpy as np

import toppo


class FewerActions(gym.ActionWrapper[Any, int, int]):
    """Only left, right and forward: an empty room has nothing to pick up, drop or open."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self.action_space = gym.spaces.Discrete(3)

    def action(self, action: int) -> int:
        return int(action)


def empty_room() -> gym.Env[Any, Any]:
    import minigrid  # noqa: F401 - it registers its environments

    return FewerActions(gym.make("MiniGrid-Empty-5x5-v0"))


def third_party(steps: int = 20_000) -> None:
    agent = toppo.PPO(empty_room, seed=0, n_steps=512, n_envs=8, n_minibatches=8, gamma=0.99, warmup_steps=512)
    before = np.mean(agent.evaluate(episodes=10, deterministic=False))
    agent.learn(steps)
    after = np.mean(agent.evaluate(episodes=10, deterministic=False))
    print(f"mean return before {before:.2f}, after {after:.2f}")


if __name__ == "__main__":
    third_party(*map(int, sys.argv[1:]))
