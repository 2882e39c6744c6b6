"""Run an exported policy with NumPy alone: `policy_from` needs nothing else.

The module numpy_policy.py, which `toppo export` writes beside the file, does the same for images, masks and all spaces.
"""

import json
import sys
import tempfile
from pathlib import Path

import numpy as np


def policy_from(path):
    arrays = dict(np.load(path))
    about = json.loads(str(arrays["about"]))

    def policy(observation):
        """The most likely action for one observation of numbers, by a network with the default activation."""
        x = np.clip((np.ravel(observation) - arrays["mean"]) * arrays["inv_std"], -10, 10)
        for i in range(about["layers"]):
            x = (np.tanh(x) if i else x) @ arrays[f"layer{i}.w"] + arrays[f"layer{i}.b"]
        if about["action"]["discrete"]:
            return x.argmax() + arrays["starts"][0]
        low, high, factor, shift = (arrays[f"box.{name}"] for name in ("low", "high", "factor", "shift"))
        return (np.clip(x, low, high) * factor + shift).reshape(about["action"]["shape"])

    return policy


def run_with_numpy(steps: int = 30_000) -> None:
    import toppo
    from toppo.cli import main

    agent = toppo.ToPPO("CartPole-v1", seed=0).learn(steps)
    with tempfile.TemporaryDirectory() as folder:
        agent.save(Path(folder) / "cartpole")
        main(["export", f"{folder}/cartpole", "--format", "numpy", "--out", f"{folder}/policy.npz"])
        policy = policy_from(f"{folder}/policy.npz")
    observations = np.random.default_rng(0).normal(0, 0.1, (100, 4)).astype(np.float32)
    expected, _ = agent.predict(observations, deterministic=True)
    assert [policy(row) for row in observations] == expected.tolist()
    print("with NumPy alone: the same 100 actions")


if __name__ == "__main__":
    run_with_numpy(*map(int, sys.argv[1:]))
