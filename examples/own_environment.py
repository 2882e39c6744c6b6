"""An environment of your own: any class with Gymnasium's interface can be trained in."""

import sys
from typing import Any

import gymnasium as gym
import numpy as np

import toppo


class Thermostat(gym.Env[np.ndarray, np.ndarray]):
    """Keep a leaky room at 20 degrees; heating costs a little."""

    observation_space = gym.spaces.Box(-50.0, 50.0, (2,), np.float32)
    action_space = gym.spaces.Box(0.0, 1.0, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.inside = 15.0
        self.outside = float(self.np_random.uniform(-5, 10))
        self.t = 0
        return self._observation(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        heat = float(action[0])
        self.inside += 2.0 * heat - 0.05 * (self.inside - self.outside)
        self.t += 1
        reward = -abs(self.inside - 20.0) - 0.1 * heat
        return self._observation(), reward, False, self.t >= 200, {}

    def _observation(self) -> np.ndarray:
        return np.array([self.inside, self.outside], np.float32)


def own_environment(steps: int = 40_000) -> None:
    agent = toppo.ToPPO(Thermostat, seed=0)
    before = sum(agent.evaluate(episodes=5)) / 5
    agent.learn(steps)
    after = sum(agent.evaluate(episodes=5)) / 5
    print(f"mean return before {before:.0f}, after {after:.0f}")


if __name__ == "__main__":
    own_environment(*map(int, sys.argv[1:]))
