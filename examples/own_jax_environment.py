"""An environment of your own, written in JAX: hundreds of copies step in one compiled program."""

import gymnasium as gym
import jax
import jax.numpy as jnp

import toppo

LIMIT = 50


class Target:
    """A point moves on a line towards a target; an episode ends there, or after 50 steps."""

    observation_space = gym.spaces.Box(-4.0, 4.0, (1,))
    action_space = gym.spaces.Box(-1.0, 1.0, (1,))
    episode_limit = LIMIT

    def reset(self, key):
        distance = jax.random.uniform(key, (1,), minval=-2.0, maxval=2.0)
        return (distance, jnp.int32(0)), distance

    def step(self, key, state, action):
        distance, t = state
        distance = jnp.clip(distance - 0.2 * action + 0.02 * jax.random.normal(key, (1,)), -4.0, 4.0)
        arrived = jnp.abs(distance[0]) < 0.1
        return (distance, t + 1), distance, -jnp.abs(distance[0]), arrived, t + 1 >= LIMIT


def own_jax_environment(steps: int = 100_000) -> float:
    agent = toppo.PPO(Target(), seed=0, n_envs=64, n_steps=1024, n_minibatches=8)
    agent.learn(steps)
    returns = agent.evaluate(episodes=10)
    print(f"mean return of 10 episodes: {sum(returns) / len(returns):.2f}")
    return sum(returns) / len(returns)


if __name__ == "__main__":
    own_jax_environment()
