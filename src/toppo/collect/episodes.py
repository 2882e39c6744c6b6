"""Bookkeeping of episodes, from the arrays of a batch alone."""

from typing import NamedTuple

import numpy as np

from toppo.collect.faults import FailedReplays
from toppo.collect.plan import Buffers, Plan


class OpenEpisode(NamedTuple):
    """What one environment needs to be brought back to where it is: reset with the seed, replay the actions."""

    started: int  # episodes started so far, this one included
    actions: np.ndarray  # [t, ...] as sampled, since the reset
    rewards: np.ndarray  # [t] raw, since the reset
    obs: np.ndarray  # the last observation, for comparison after a replay


class Finished(NamedTuple):
    """An episode that ended in this batch."""

    t: int  # row of its last step; -1 if that lies in the batch before
    env: int
    rewards: np.ndarray  # all of its rewards, earlier batches included


def no_episode(plan: Plan) -> OpenEpisode:
    """An environment before its first reset."""
    spaces = plan.spaces
    return OpenEpisode(
        started=0,
        actions=np.zeros((0, *spaces.action_row), plan.action_dtype),
        rewards=np.zeros(0),
        obs=np.zeros(spaces.row_size, spaces.row_dtype),
    )


def after_replay(episodes: tuple[OpenEpisode, ...], lost: FailedReplays) -> tuple[OpenEpisode, ...]:
    """The open episodes after ``Pool.restore``: one whose replay led elsewhere is given up, and a new one follows."""
    return tuple(
        e._replace(actions=e.actions[:0], rewards=e.rewards[:0]) if i in lost else e for i, e in enumerate(episodes)
    )


def say_lost(lost: FailedReplays) -> str:
    """What a replay that led elsewhere is called in a warning."""
    return f"an environment did not replay to where it was ({'; '.join(dict.fromkeys(lost.values()))})"


def advance(
    episodes: tuple[OpenEpisode, ...], batch: Buffers, reset_each_batch: bool
) -> tuple[tuple[OpenEpisode, ...], list[Finished]]:
    """The open episodes after a batch, and the episodes that ended in it, in the order of their last steps."""
    after, finished = [], []
    for i, episode in enumerate(episodes):
        if batch.progress.begun[i] and len(episode.actions):  # given up before its first step in this batch
            finished.append(Finished(-1, i, episode.rewards))
            episode = episode._replace(actions=episode.actions[:0], rewards=episode.rewards[:0])
        start = 0
        for t in np.flatnonzero(batch.over[:, i]):
            finished.append(Finished(int(t), i, np.concatenate([episode.rewards, batch.reward[start : t + 1, i]])))
            start = int(t) + 1
            episode = episode._replace(actions=episode.actions[:0], rewards=episode.rewards[:0])
        episode = episode._replace(started=int(batch.progress.started[i]))
        if not reset_each_batch:  # otherwise the tail is never continued
            episode = episode._replace(
                actions=np.concatenate([episode.actions, batch.action[start:, i]]),
                rewards=np.concatenate([episode.rewards, batch.reward[start:, i]]),
                obs=(batch.next_obs if batch.next_obs.ndim == 2 else batch.next_obs[-1])[i].copy(),
            )
        after.append(episode)
    return tuple(after), sorted(finished, key=lambda f: (f.t, f.env))
