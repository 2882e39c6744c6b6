"""Steps per second of Tianshou's PPO, updates included.  Runs in an environment of its own."""

import argparse
import json
import time

import gymnasium as gym
import torch
from tianshou.algorithm import PPO
from tianshou.algorithm.modelfree.reinforce import ProbabilisticActorPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv, VectorEnvNormObs
from tianshou.trainer import OnPolicyTrainerParams
from tianshou.utils.net.common import Net
from tianshou.utils.net.continuous import ContinuousActorProbabilistic, ContinuousCritic
from torch.distributions import Independent, Normal


def main() -> None:
    """Measure one setting and print it as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--library")
    parser.add_argument("--env", default="HalfCheetah-v5")
    parser.add_argument("--n-envs", type=int, default=1)
    parser.add_argument("--batches", type=int, default=4)
    a = parser.parse_args()
    torch.set_num_threads(1)  # faster than two for networks of this size
    envs = VectorEnvNormObs(DummyVectorEnv([lambda: gym.make(a.env)] * a.n_envs))
    spaces = gym.make(a.env)
    shape = spaces.observation_space.shape
    action = spaces.action_space

    def net() -> Net:
        return Net(state_shape=shape, hidden_sizes=[64, 64], activation=torch.nn.Tanh)

    actor = ContinuousActorProbabilistic(preprocess_net=net(), action_shape=action.shape, unbounded=True)
    policy = ProbabilisticActorPolicy(
        actor=actor, dist_fn=lambda given: Independent(Normal(*given), 1), action_space=action
    )
    algorithm = PPO(
        policy=policy,
        critic=ContinuousCritic(preprocess_net=net()),
        optim=AdamOptimizerFactory(lr=3e-4),
        ent_coef=0.0,
        max_grad_norm=0.5,
        return_scaling=True,
    )
    collector = Collector(algorithm, envs, VectorReplayBuffer(2048, a.n_envs))
    collector.reset()

    def train(batches: int) -> None:
        algorithm.run_training(
            OnPolicyTrainerParams(
                training_collector=collector,
                max_epochs=1,
                epoch_num_steps=2048 * batches,
                collection_step_num_env_steps=2048,
                batch_size=64,
                update_step_num_repetitions=10,
                verbose=False,
                show_progress=False,
            )
        )

    train(1)
    began = time.perf_counter()
    train(a.batches)
    print(json.dumps({"steps_per_second": 2048 * a.batches / (time.perf_counter() - began)}))


if __name__ == "__main__":
    main()
