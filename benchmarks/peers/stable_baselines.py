"""Steps per second of the PPO of Stable-Baselines3 or SBX, updates included.  Runs in an environment of its own."""

import argparse
import json
import time

import gymnasium as gym
import torch
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecNormalize


def main() -> None:
    """Measure one setting and print it as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", choices=["sb3", "sbx"], default="sb3")
    parser.add_argument("--env", default="HalfCheetah-v5")
    parser.add_argument("--n-envs", type=int, default=1)
    parser.add_argument("--normalise", type=int, default=1)
    parser.add_argument("--processes", type=int, default=0)
    parser.add_argument("--batches", type=int, default=4)
    a = parser.parse_args()
    torch.set_num_threads(1)  # faster than two for networks of this size
    if a.library == "sbx":
        from sbx import PPO
    else:
        from stable_baselines3 import PPO
    makers = [lambda: gym.make(a.env)] * a.n_envs
    vector = SubprocVecEnv(makers) if a.processes else DummyVecEnv(makers)
    vector = VecNormalize(vector) if a.normalise else vector
    nets = {"net_arch": {"pi": [64, 64], "vf": [64, 64]}}
    model = PPO(
        "MlpPolicy", vector, n_steps=2048 // a.n_envs, batch_size=64, n_epochs=10, device="cpu", policy_kwargs=nets
    )
    model.learn(2048)
    began = time.perf_counter()
    model.learn(2048 * a.batches)
    print(json.dumps({"steps_per_second": 2048 * a.batches / (time.perf_counter() - began)}))


if __name__ == "__main__":
    main()
