"""Episodes of sb3-contrib's TRPO with the settings of benchmarks.trpo_peer.  Runs in an environment of its own."""

import argparse
import json

import gymnasium as gym
import torch
from sb3_contrib import TRPO
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize


def main() -> None:
    """Train once and print every training episode as JSON: steps until its end, and its return."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--env", required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--settings", type=json.loads, required=True)
    a = parser.parse_args()
    torch.set_num_threads(1)
    monitor = Monitor(gym.make(a.env))
    vector = VecNormalize(DummyVecEnv([lambda: monitor]), gamma=a.settings["gamma"])
    nets = {"net_arch": {"pi": [64, 64], "vf": [64, 64]}}
    model = TRPO("MlpPolicy", vector, seed=a.seed, device="cpu", policy_kwargs=nets, **a.settings)
    model.learn(a.steps)
    lengths = monitor.get_episode_lengths()
    returns = monitor.get_episode_rewards()
    ends = [sum(lengths[: i + 1]) for i in range(len(lengths))]
    print(json.dumps([ends, returns]))


if __name__ == "__main__":
    main()
