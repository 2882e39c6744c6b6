"""The collector of environments in Python: a pool of workers that act in NumPy."""

from itertools import accumulate
from typing import Any

import jax
import numpy as np
from jax.dtypes import canonicalize_dtype

from toppo.collect.episodes import Finished, OpenEpisode, advance, after_replay, no_episode
from toppo.collect.faults import FailedReplays, SurvivedFault
from toppo.collect.plan import RawBatch
from toppo.collect.pool import Pool
from toppo.envs.observations import numbers_in
from toppo.errors import LearnerFault
from toppo.learn.collector import BatchStatistics
from toppo.learn.jax_episodes import JaxEpisodes
from toppo.learn.metrics import Episode
from toppo.learn.nets import actor_weights
from toppo.learn.setup import Setup, plan
from toppo.learn.state import State
from toppo.maths.moments import Summary, mean_and_inv_std, summary

OTHER_KIND = "its episodes were those of an environment written in JAX"


class HostCollector:
    """Hands policies to a pool and reads its batches."""

    def __init__(self, setup: Setup, pool: Pool) -> None:
        self.setup = setup
        self.pool = pool
        self.close = pool.close
        self.progress = pool.progress

    def start(self, state: State) -> None:
        """Hand the policy and the normaliser to the workers and let them collect."""
        buffers = self.pool.buffers
        buffers.mean[:], buffers.inv_std[:] = mean_and_inv_std(state.obs_moments)
        weights = actor_weights(state.learner.params.policy, self.setup.spaces.action_size)
        for target, weight in zip(buffers.weights, weights, strict=True):
            refuse_not_finite(weight, state.iteration)
            target[:] = weight
        self.pool.start(state.batches, state.episodes)

    def finish(self) -> list[SurvivedFault]:
        """Wait for the pool."""
        return self.pool.finish()

    def batch(self) -> RawBatch[np.ndarray]:
        """Copy the batch: the workers write the next one into the same memory while this one is still in use."""
        raw: RawBatch[np.ndarray] = jax.tree.map(lambda x: np.array(x, canonicalize_dtype(x.dtype)), self.pool.batch())
        return raw

    def statistics(self, state: State, use_open_episodes: bool = False) -> BatchStatistics:
        """Draw the noise of the next batch, and sum up this one."""
        setup = self.setup
        common = setup.common
        buffers = self.pool.buffers
        self.pool.draw_noise(state.batches + 1)
        episodes, finished = advance(state.episodes, buffers, common.reset_each_batch)
        rewards = [f.rewards for f in finished]
        if use_open_episodes and not rewards:
            rewards = list(buffers.reward.T)
        size = setup.spaces.obs_size
        return BatchStatistics(
            episodes=episodes,
            finished=[episode_of(setup, state, f) for f in finished],
            obs=summary(numbers_in(buffers.obs, size).reshape(-1, size)) if common.normalise_obs and size else None,
            returns=returns_summary(setup, rewards) if common.normalise_reward else None,
        )

    def restore(self, episodes: Any) -> tuple[tuple[OpenEpisode, ...], FailedReplays]:
        """Let the workers replay the episodes."""
        if isinstance(episodes, JaxEpisodes):
            n_envs = self.setup.common.n_envs
            return (no_episode(plan(self.setup)),) * n_envs, dict.fromkeys(range(n_envs), OTHER_KIND)
        failed = self.pool.restore(episodes)
        return after_replay(episodes, failed), failed

    def processes(self) -> int:
        """Return the number of worker processes; 0 if all environments are in this one."""
        return len(self.pool.pids())


def refuse_not_finite(weights: np.ndarray, iteration: int) -> None:
    """Refuse to act with a policy that has exploded."""
    if not np.isfinite(weights).all():
        raise LearnerFault(
            f"iteration {iteration}: the policy's parameters are not finite; lower --learning-rate or "
            "check the rewards of the environment"
        )


def episode_of(setup: Setup, state: State, finished: Finished) -> Episode:
    """Return a finished episode with the training step at which it ended."""
    return Episode(
        step=state.steps + finished.t * setup.common.n_envs + finished.env + 1,
        env=finished.env,
        episode_return=float(finished.rewards.sum()),
        length=len(finished.rewards),
    )


def returns_summary(setup: Setup, rewards: list[np.ndarray]) -> Summary:
    """Sum up the discounted returns from every step of some episodes on."""
    gamma = setup.common.gamma
    rewards = [np.sign(r) for r in rewards] if setup.common.sign_reward else rewards
    returns = [x for r in rewards for x in accumulate(r[::-1].tolist(), lambda later, now: now + gamma * later)]
    return summary(np.array(returns))
