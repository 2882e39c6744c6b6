"""Evaluating a policy: the one loop that plays episodes outside of training."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from toppo.collect.actor import Actor, mlp_actor_factory, noise_for
from toppo.envs import Player
from toppo.envs.spaces import refuse_other_spaces
from toppo.learn.nets import actor_weights
from toppo.learn.setup import Setup, image_actor_factory
from toppo.learn.state import State
from toppo.maths.moments import mean_and_inv_std
from toppo.rng import Stream, rng_for, seed_for

MAX_STEPS = 100_000  # some episodes never end

Act = Callable[[np.ndarray], np.ndarray]  # observation [row_size] -> the policy's action
ActWith = Callable[[np.random.Generator], Act]  # the generator gives the action's random numbers
AfterStep = Callable[[float], object]  # gets the reward of every step


class EpisodeResult(NamedTuple):
    """What an episode came to."""

    episode_return: float  # undiscounted
    length: int
    ended: bool  # False if it was cut off


class Evaluation(NamedTuple):
    """A test of the policy during training."""

    step: int  # training steps so far
    mean: float  # undiscounted return
    returns: list[float]  # of each episode
    cut: int = 0  # how many episodes were cut off

    def values(self) -> dict[str, float]:
        """Return what trackers show of the test."""
        return {"eval/mean_reward": self.mean}


def frozen_actor(state: State, setup: Setup, rows: int) -> Actor:
    """The policy and the normaliser of a training state on the host, for so many observations at once."""
    weights = actor_weights(state.learner.params.policy, setup.spaces.action_size)
    factory = image_actor_factory(setup) or mlp_actor_factory(setup.spaces, setup.common.activation)
    return factory(*mean_and_inv_std(state.obs_moments), weights, rows)


def rollout(
    env: Player, act: Act, max_steps: float, after_step: AfterStep | None = None, ignore_time_limit: bool = False
) -> EpisodeResult:
    """Play on from where ``env`` stands until the episode ends or ``max_steps`` are done."""
    total = 0.0
    length = 0
    ended = False
    while not ended and length < max_steps:
        reward, terminated, truncated = env.step(act(env.row))
        total += reward
        length += 1
        ended = terminated or (truncated and not ignore_time_limit)
        if after_step is not None:
            after_step(reward)
    return EpisodeResult(total, length, ended)


def play_episodes(
    env: Player, act_with: ActWith, episodes: int, seed: int, max_steps: float, after_step: AfterStep | None = None
) -> list[EpisodeResult]:
    """Play whole episodes; the seed fixes their resets and the random numbers of the actions."""
    results = []
    for episode in range(episodes):
        act = act_with(rng_for(seed, Stream.EVALUATION, episode, 1))
        env.reset(seed_for(seed, Stream.EVALUATION, episode, 0))
        results.append(rollout(env, act, max_steps, after_step))
    return results


def evaluate_policy(
    state: State,
    setup: Setup,
    env: Player,
    episodes: int,
    seed: int,
    deterministic: bool = True,
    max_steps: int = MAX_STEPS,
    after_step: AfterStep | None = None,
) -> list[EpisodeResult]:
    """Play whole episodes with a trained policy, with its most likely actions if ``deterministic``."""
    spaces = setup.spaces
    refuse_other_spaces(env.name, env.spaces, spaces)
    actor = frozen_actor(state, setup, 1)
    no_noise = np.zeros((1, spaces.action_size), np.float32)

    def act_with(rng: np.random.Generator) -> Act:
        if deterministic:
            return lambda row: actor(row[None], no_noise)[0]
        return lambda row: actor(row[None], noise_for(rng, 1, spaces.action_size, spaces.discrete))[0]

    return play_episodes(env, act_with, episodes, seed, max_steps, after_step)
