"""Stable-Baselines3's own ``evaluate_policy`` plays a toppo agent: the two interfaces fit.

    python -m benchmarks.sb3_evaluate

Borrows the peer's packages from the environment that benchmarks.throughput builds.
"""

import subprocess
import sys
from pathlib import Path

from benchmarks.throughput import python_of

PROGRAM = """
import gymnasium as gym, numpy as np, toppo
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import DummyVecEnv
agent = toppo.ToPPO("Pendulum-v1", seed=0).learn(20_000)
one = evaluate_policy(agent, gym.make("Pendulum-v1"), n_eval_episodes=5, deterministic=True, warn=False)
three = DummyVecEnv([lambda: gym.make("Pendulum-v1")] * 3)
many = evaluate_policy(agent, three, n_eval_episodes=6, deterministic=True, warn=False)
print(f"one environment: {one[0]:.1f} +- {one[1]:.1f}; three at once: {many[0]:.1f} +- {many[1]:.1f}")
cart = toppo.PPO("CartPole-v1", seed=0).learn(20_480)
print("CartPole-v1:", evaluate_policy(cart, gym.make("CartPole-v1"), n_eval_episodes=5, warn=False))
"""


def main() -> None:
    """Run the program with both sets of packages in reach."""
    peer = next((python_of("sb3").parent.parent / "lib").glob("python*/site-packages"))
    code = f"import sys; sys.path.append({str(peer)!r})\n{PROGRAM}"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path.cwd())


if __name__ == "__main__":
    main()
