"""Train, play, save and load an agent in Python."""

import sys
import tempfile
from pathlib import Path

import toppo


def quickstart(steps: int = 30_000) -> None:
    agent = toppo.ToPPO("Pendulum-v1", seed=0)
    agent.learn(steps)
    with tempfile.TemporaryDirectory() as folder:
        agent.save(Path(folder) / "pendulum")
        copy = toppo.load(Path(folder) / "pendulum")
    assert copy.evaluate(episodes=3) == agent.evaluate(episodes=3)
    print("returns of three episodes:", [round(r, 1) for r in copy.evaluate(episodes=3)])


if __name__ == "__main__":
    quickstart(*map(int, sys.argv[1:]))
