"""A worker whose environments are stepped together; it lives in the process that trains."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from toppo.collect.actor import ActorFactory, mlp_actor_factory
from toppo.collect.episodes import OpenEpisode
from toppo.collect.faults import Ends, FailedReplays, SurvivedFault
from toppo.collect.plan import Buffers, Plan
from toppo.collect.worker import not_replayed
from toppo.envs.actions import random_action
from toppo.envs.observations import mask_in
from toppo.envs.vector import ResetSpec, VecEnv
from toppo.errors import EnvironmentFault
from toppo.rng import Stream, seed_for


class VectorWorker:
    """All environments of a run as one world; the streams of randomness are those of ``Worker``."""

    def __init__(self, plan: Plan, world: VecEnv, buffers: Buffers, actor_factory: ActorFactory | None = None) -> None:
        """Take over the world."""
        self.plan, self.world, self.buffers = plan, world, buffers
        self._actor_factory = actor_factory or mlp_actor_factory(plan.spaces)
        self.finals: dict[tuple[int, int], np.ndarray] = {}
        self.started = [0] * plan.n_envs
        self.rows = np.zeros((plan.n_envs, plan.spaces.row_size), plan.spaces.row_dtype)
        self.due = np.ones(plan.n_envs, bool)

    def collect(self, batch: int, ends: Ends | None = None) -> list[SurvivedFault]:
        """Fill the buffers with batch number ``batch``; no fault is gone round here."""
        plan, b = self.plan, self.buffers
        actor = self._actor_factory(b.mean, b.inv_std, b.weights, plan.n_envs)
        self.finals.clear()
        if plan.reset_each_batch:
            self.due[:] = True
        b.progress.begun[:] = self.due
        for t in range(plan.steps):
            self._reset(np.flatnonzero(self.due))
            b.obs[t] = self.rows
            b.action[t] = actor(self.rows, b.noise[t])
            moved = self.world.step(b.action[t])
            self.rows, self.due = moved.rows, moved.over
            b.reward[t], b.terminated[t], b.ended[t], b.over[t] = moved[1:]
            if not plan.spaces.images:
                b.next_obs[t] = moved.rows
            else:
                self.finals |= {(t, int(i)): self.rows[i] for i in np.flatnonzero(moved.ended & ~moved.terminated)}
        if plan.spaces.images:
            b.next_obs[:] = self.rows
        b.progress.started[:] = self.started
        return []

    def restore(self, episodes: Mapping[int, OpenEpisode]) -> FailedReplays:
        """Bring all environments back to where they were, except those that are returned."""
        open_ones = [episodes[i] for i in range(self.plan.n_envs)]
        try:
            lost = self._replay(open_ones)
        except EnvironmentFault as fault:  # they step together: none of them is where it was
            lost = {i: str(fault) for i, episode in enumerate(open_ones) if len(episode.actions)}
        self.started = [episode.started for episode in open_ones]
        self.due = np.array([i in lost or len(episode.actions) == 0 for i, episode in enumerate(open_ones)])
        return lost

    def _replay(self, episodes: Sequence[OpenEpisode]) -> FailedReplays:
        """Take the actions of all episodes, so that all end together; one whose turn has not come plays something."""
        spaces, rng = self.world.spaces, np.random.default_rng(0)
        lost: FailedReplays = {}
        lengths, over = [len(e.actions) for e in episodes], np.ones(len(episodes), bool)
        rewards: list[list[float]] = [[] for _ in episodes]
        for left in range(max(lengths), 0, -1):
            playing = {i for i, n in enumerate(lengths) if n >= left} - lost.keys()
            starts = {int(i): ResetSpec(0) for i in np.flatnonzero(over) if i not in playing}
            starts |= {i: self._start(i, episodes[i].started - 1) for i in playing if lengths[i] == left}
            if starts:
                self.rows = self.world.reset(starts)
            actions = [
                e.actions[-left] if i in playing else random_action(spaces, mask_in(self.rows[i], spaces), rng)
                for i, e in enumerate(episodes)
            ]
            self.rows, reward, _, _, over = self.world.step(np.stack(actions))
            for i in playing:
                rewards[i].append(reward[i])
                if over[i]:
                    lost[i] = f"{self._name(i)}: its replay ended at step {lengths[i] - left + 1} of {lengths[i]}"
        for i, episode in enumerate(episodes):
            if lengths[i] and i not in lost:
                reason = not_replayed(self._name(i), episode, np.array(rewards[i]), self.rows[i])
                lost |= {i: reason} if reason else {}
        return lost

    def close(self) -> None:
        """Close the world."""
        self.world.close()

    def _reset(self, indices: Iterable[int]) -> None:
        starts = {int(i): self._start(int(i), self.started[i]) for i in indices}
        if starts:
            self.rows = self.world.reset(starts)
        for i in starts:
            self.started[i] += 1
            self.due[i] = False

    def _start(self, i: int, episode: int) -> ResetSpec:
        nth = episode % self.world.per_seed
        return ResetSpec(seed_for(self.plan.seed, Stream.ENV_RESET, i, episode - nth), nth)

    def _name(self, i: int) -> str:
        return f"{self.world.name} (environment {i})"
