"""A worker that steps a vector environment; it lives in the process that trains."""

from collections.abc import Mapping, Sequence

import numpy as np

from toppo.collect.actor import mlp_actor_factory
from toppo.collect.episodes import OpenEpisode
from toppo.collect.faults import FailedReplays, SurvivedFault, Truncations
from toppo.collect.worker import Task, replay_difference
from toppo.envs.actions import random_action
from toppo.envs.observations import mask_in
from toppo.envs.source import open_vec_env
from toppo.envs.vector import ResetSpec
from toppo.errors import EnvironmentFault
from toppo.rng import Stream, seed_for


class VectorWorker:
    """Steps all environments of a run at once; the streams of randomness are those of ``Worker``."""

    def __init__(self, task: Task) -> None:
        spaces = task.plan.spaces
        n_envs = task.plan.n_envs
        self.plan = task.plan
        self.vec_env = open_vec_env(task.source, n_envs)
        self.close = self.vec_env.close
        self._label = task.source.label
        self.buffers = task.buffers
        self._actor_factory = task.actor_factory or mlp_actor_factory(spaces, task.plan.activation)
        self.finals: dict[tuple[int, int], np.ndarray] = {}  # with images: what truncated episodes ended with
        self.started = task.buffers.started
        self.started[:] = 0
        self.rows = np.zeros((n_envs, spaces.row_size), spaces.row_dtype)
        self.due = np.ones(n_envs, bool)  # for a reset
        self.row = 0  # of the batch, for those who wait

    def start(self, truncations: Truncations) -> None:
        """Leave the work to ``finish``, which can truncate no episode: all environments step together."""

    def finish(self) -> list[SurvivedFault]:
        """Fill the buffers; no fault is survived here."""
        b = self.buffers
        images = self.plan.spaces.images
        actor = self._actor_factory(b.mean, b.inv_std, b.weights, self.plan.n_envs)
        self.finals.clear()
        if self.plan.reset_each_batch:
            self.due[:] = True
        b.begun[:] = self.due
        for t in range(self.plan.steps):
            self.row = t
            resets = {i: self._reset_spec(i, int(self.started[i])) for i in np.flatnonzero(self.due).tolist()}
            if resets:
                self.rows = self.vec_env.reset(resets)
            self.started += self.due
            b.obs[t] = self.rows
            b.action[t] = actor(self.rows, b.noise[t])
            step = self.vec_env.step(b.action[t])
            self.rows = step.rows
            self.due = step.over
            b.reward[t] = step.reward
            b.terminated[t] = step.terminated
            b.ended[t] = step.ended
            b.over[t] = step.over
            if images:
                self.finals |= {(t, int(i)): self.rows[i] for i in np.flatnonzero(step.ended & ~step.terminated)}
            else:
                b.next_obs[t] = step.rows
        if images:
            b.next_obs[:] = self.rows
        return []

    def restore(self, episodes: Mapping[int, OpenEpisode]) -> FailedReplays:
        """Bring all environments back to where they were, except those that are returned."""
        in_order = [episodes[i] for i in range(self.plan.n_envs)]
        try:
            failed = self._replay(in_order)
        except EnvironmentFault as fault:  # they step together: none of them is where it was
            failed = {i: str(fault) for i, episode in enumerate(in_order) if len(episode.actions)}
        self.started[:] = [episode.started for episode in in_order]
        self.due = np.array([i in failed or len(episode.actions) == 0 for i, episode in enumerate(in_order)])
        return failed

    def _replay(self, episodes: Sequence[OpenEpisode]) -> FailedReplays:
        """Take the actions of all episodes so that all end with the same step; shorter ones wait at random."""
        spaces = self.vec_env.spaces
        rng = np.random.default_rng(0)
        failed: FailedReplays = {}
        lengths = [len(e.actions) for e in episodes]
        over = np.ones(len(episodes), bool)
        rewards = np.zeros((max(lengths), len(episodes)))
        for left in range(max(lengths), 0, -1):
            replaying = {i for i, n in enumerate(lengths) if n >= left} - failed.keys()
            resets = {int(i): ResetSpec(0) for i in np.flatnonzero(over) if i not in replaying}
            resets |= {i: self._reset_spec(i, episodes[i].started - 1) for i in replaying if lengths[i] == left}
            if resets:
                self.rows = self.vec_env.reset(resets)
            actions = [
                e.actions[-left] if i in replaying else random_action(spaces, mask_in(self.rows[i], spaces), rng)
                for i, e in enumerate(episodes)
            ]
            step = self.vec_env.step(np.stack(actions))
            self.rows = step.rows
            over = step.over
            rewards[-left] = step.reward
            for i in replaying:
                if over[i]:
                    failed[i] = f"{self._label(i)}: its replay ended at step {lengths[i] - left + 1} of {lengths[i]}"
        for i, episode in enumerate(episodes):
            if lengths[i] and i not in failed:
                reason = replay_difference(self._label(i), episode, rewards[-lengths[i] :, i], self.rows[i])
                failed |= {i: reason} if reason else {}
        return failed

    def _reset_spec(self, i: int, episode: int) -> ResetSpec:
        nth = episode % self.vec_env.episodes_per_seed
        return ResetSpec(seed_for(self.plan.seed, Stream.ENV_RESET, i, episode - nth), nth)
