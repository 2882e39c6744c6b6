"""Agent steps per second of Stable-Baselines3's PPO on an Atari game, updates included; in its own environment."""

import argparse
import json
import time

import ale_py
import gymnasium as gym
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_atari_env
from stable_baselines3.common.vec_env import VecFrameStack


def main() -> None:
    """Measure and print as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--env", default="BreakoutNoFrameskip-v4")
    parser.add_argument("--batches", type=int, default=4)
    a = parser.parse_args()
    gym.register_envs(ale_py)
    vector = VecFrameStack(make_atari_env(a.env, n_envs=8), 4)
    model = PPO("CnnPolicy", vector, n_steps=128, batch_size=256, n_epochs=4, clip_range=0.1, clip_range_vf=0.1,
                ent_coef=0.01, learning_rate=2.5e-4, gamma=0.99, gae_lambda=0.95, device="cpu")  # fmt: skip
    model.learn(1024)
    began = time.perf_counter()
    model.learn(1024 * a.batches)
    print(json.dumps({"steps_per_second": 1024 * a.batches / (time.perf_counter() - began)}))


if __name__ == "__main__":
    main()
