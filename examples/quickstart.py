"""Train, play, save and load an agent in Python."""

import sys
import tempfile
from pathlib import Path

import toppo


def quickstart(steps: int = 50_000) -> list[float]:
    agent = toppo.ToPPO("CartPole-v1", seed=0)
    agent.learn(steps)
    with tempfile.TemporaryDirectory() as folder:
        agent.save(Path(folder) / "cartpole")
        copy = toppo.load(Path(folder) / "cartpole")
    returns = copy.evaluate(episodes=3)
    assert returns == agent.evaluate(episodes=3)
    print("returns of three episodes, of 500 at most:", returns)
    return returns


if __name__ == "__main__":
    quickstart(*map(int, sys.argv[1:]))
