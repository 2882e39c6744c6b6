"""Running statistics of observations and returns, and the normaliser that they give."""

from itertools import accumulate

import numpy as np

from toppo.algos.contract import Normaliser, Tree
from toppo.collect.episodes import Finished, advance
from toppo.collect.plan import Buffers
from toppo.envs.observations import numbers_in
from toppo.learn.setup import Setup
from toppo.learn.state import State
from toppo.maths.moments import mean_and_inv_std, merge


def normaliser_of(state: State) -> Normaliser:
    """Return the normaliser as it is now."""
    parts: Tree = (*mean_and_inv_std(state.obs_moments), mean_and_inv_std(state.return_moments)[1])
    return Normaliser(*parts)


def with_statistics(
    setup: Setup, state: State, buffers: Buffers, use_open_episodes: bool = False
) -> tuple[State, list[Finished]]:
    """Return the state with a batch's episodes and statistics in it, and the episodes that ended in the batch.

    ``use_open_episodes``: at the end of the warm-up, if no episode has ended yet, open ones give the returns.
    """
    common = setup.common
    episodes, finished = advance(state.episodes, buffers, common.reset_each_batch)
    state = state._replace(episodes=episodes, batches=state.batches + 1)
    size = setup.spaces.obs_size
    if common.normalise_obs and size:
        data = numbers_in(buffers.obs, size).reshape(-1, size)
        state = state._replace(obs_moments=merge(state.obs_moments, data))
    if common.normalise_reward:
        rewards = [f.rewards for f in finished]
        warmed_up = state.batches * setup.config.n_steps >= common.warmup_steps
        if use_open_episodes and warmed_up and not rewards and state.return_moments.n == 0:
            rewards = list(buffers.reward.T)
        rewards = [np.sign(r) for r in rewards] if common.sign_reward else rewards
        gamma = common.gamma
        returns = [x for r in rewards for x in accumulate(r[::-1].tolist(), lambda later, now: now + gamma * later)]
        state = state._replace(return_moments=merge(state.return_moments, np.array(returns)))
    return state, finished
