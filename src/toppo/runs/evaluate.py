"""Playing a trained policy: the same network, the same frozen normaliser."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from toppo.collect.actor import Actor, noise_for
from toppo.collect.worker import mlp_acting
from toppo.envs import Player, Spaces
from toppo.envs.spaces import refuse_other_spaces
from toppo.maths.moments import shift_and_factor
from toppo.learn.nets import acting_weights
from toppo.learn.setup import Setup, acting, plan
from toppo.rng import Stream, seed_for, rng_for
from toppo.learn.state import State

MAX_STEPS = 100_000  # of an episode that is played: some never end


class Played(NamedTuple):
    """An episode that was played."""

    ret: float  # undiscounted
    length: int
    ended: bool  # False if it was cut off


class Policy(NamedTuple):
    """A trained policy on the host: observations as rows in, the policy's own actions out."""

    actor: Callable[[int], Actor]  # for so many rows at once
    spaces: Spaces


def policy_of(state: State, setup: Setup) -> Policy:
    """The policy of a training state with its normaliser frozen."""
    scale, spaces = shift_and_factor(state.obs_moments), setup.spaces
    weights = acting_weights(state.learner.params.policy, spaces.action_size)
    way = acting(setup) or mlp_acting(plan(setup))
    return Policy(lambda rows: way(*scale, weights, rows), spaces)


def play(
    policy: Policy,
    env: Player,
    episodes: int,
    seed: int,
    deterministic: bool = True,
    max_steps: int = MAX_STEPS,
    after_step: Callable[[int], None] = lambda episode: None,
) -> list[Played]:
    """Play so many episodes, each for at most ``max_steps``; ``after_step`` is called with the episode's number."""
    refuse_other_spaces(env.name, env.spaces, policy.spaces)
    actor = policy.actor(1)
    results = []
    for episode in range(episodes):
        rng = rng_for(seed, Stream.EVALUATION, episode, 1)
        env.reset(seed_for(seed, Stream.EVALUATION, episode, 0))
        total, length, ended = 0.0, 0, False
        silent = np.zeros((1, policy.spaces.action_size), np.float32)
        while not ended and length < max_steps:
            noise = silent if deterministic else noise_for(rng, 1, policy.spaces.action_size, policy.spaces.discrete)
            reward, terminated, truncated = env.step(actor(env.row[None], noise)[0])
            total, length, ended = total + reward, length + 1, terminated or truncated
            after_step(episode)
        results.append(Played(total, length, ended))
    return results
