"""Running statistics of observations and returns, and the normaliser that they give."""

from toppo.algos.contract import Normaliser, Tree
from toppo.learn.collector import BatchStatistics
from toppo.learn.state import State
from toppo.maths.moments import mean_and_inv_std, merge


def normaliser_of(state: State) -> Normaliser:
    """Return the normaliser as it is now."""
    parts: Tree = (*mean_and_inv_std(state.obs_moments), mean_and_inv_std(state.return_moments)[1])
    return Normaliser(*parts)


def with_statistics(state: State, batch: BatchStatistics) -> State:
    """Return the state with a batch's episodes and statistics in it."""
    return state._replace(
        episodes=batch.episodes,
        batches=state.batches + 1,
        obs_moments=merge(state.obs_moments, batch.obs) if batch.obs else state.obs_moments,
        return_moments=merge(state.return_moments, batch.returns) if batch.returns else state.return_moments,
    )
