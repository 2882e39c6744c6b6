"""Bookkeeping of episodes, from the arrays of a batch alone."""

from typing import NamedTuple

import numpy as np

from toppo.collect.faults import FailedReplays
from toppo.collect.plan import Buffers, Plan


class OpenEpisode(NamedTuple):
    """What brings one environment back to where it is: reset it with the seed, replay the actions."""

    started: int  # episodes started so far, this one included
    actions: np.ndarray  # [t, ...] as sampled, since the reset
    rewards: np.ndarray  # [t] raw, since the reset
    obs: np.ndarray  # the last observation, for comparison after a replay

    def without_steps(self) -> "OpenEpisode":
        """Return the episode before its first step, or after its last."""
        return self._replace(actions=self.actions[:0], rewards=self.rewards[:0])


class Finished(NamedTuple):
    """An episode that ended in this batch."""

    t: int  # row of its last step; -1 if that lies in the batch before
    env: int
    rewards: np.ndarray  # all of its rewards, earlier batches included


def no_episode(plan: Plan) -> OpenEpisode:
    """Return the record of an environment before its first reset."""
    spaces = plan.spaces
    actions = np.zeros((0, *spaces.action_row), plan.action_dtype)
    obs = np.zeros(spaces.row_size, spaces.row_dtype)
    return OpenEpisode(started=0, actions=actions, rewards=np.zeros(0), obs=obs)


def after_replay(episodes: tuple[OpenEpisode, ...], failed: FailedReplays) -> tuple[OpenEpisode, ...]:
    """Return the open episodes after ``Pool.restore``: one whose replay failed is given up, and a new one follows."""
    return tuple(e.without_steps() if i in failed else e for i, e in enumerate(episodes))


def describe_failed_replays(failed: FailedReplays) -> str:
    """Return the text of a warning."""
    return f"an environment did not replay to where it was ({'; '.join(dict.fromkeys(failed.values()))})"


def advance(
    episodes: tuple[OpenEpisode, ...], batch: Buffers, reset_each_batch: bool
) -> tuple[tuple[OpenEpisode, ...], list[Finished]]:
    """Return the open episodes after a batch, and the episodes that ended in it in the order of their last steps."""
    after = []
    finished = []
    for i, episode in enumerate(episodes):
        if batch.begun[i] and len(episode.actions):  # given up before its first step in this batch
            finished.append(Finished(-1, i, episode.rewards))
            episode = episode.without_steps()
        start = 0
        for t in np.flatnonzero(batch.over[:, i]):
            finished.append(Finished(int(t), i, np.concatenate([episode.rewards, batch.reward[start : t + 1, i]])))
            start = int(t) + 1
            episode = episode.without_steps()
        episode = episode._replace(started=int(batch.started[i]))
        if not reset_each_batch:  # otherwise the tail is never continued
            episode = episode._replace(
                actions=np.concatenate([episode.actions, batch.action[start:, i]]),
                rewards=np.concatenate([episode.rewards, batch.reward[start:, i]]),
                obs=(batch.next_obs if batch.next_obs.ndim == 2 else batch.next_obs[-1])[i].copy(),
            )
        after.append(episode)
    return tuple(after), sorted(finished, key=lambda f: (f.t, f.env))
