"""A worker whose environments are stepped together; it lives in the process that trains."""

from collections.abc import Iterable, Mapping

import numpy as np

from toppo.collect.act import Acting
from toppo.collect.faults import Ends, Notice
from toppo.collect.worker import Buffers, Plan, batch_noise, mlp_acting
from toppo.envs.together import World
from toppo.streams import Purpose, seed_for
from toppo.types import OpenEpisode


class WorldWorker:
    """All environments of a run as one world; the streams of randomness are those of ``Worker``."""

    def __init__(self, plan: Plan, world: World, buffers: Buffers, acting: Acting | None = None) -> None:
        """Take over the world."""
        self.plan, self.world, self.buffers = plan, world, buffers
        self.acting = acting or mlp_acting(plan)
        self.finals: dict[tuple[int, int], np.ndarray] = {}
        self.started = [0] * plan.envs
        self.rows = np.zeros((plan.envs, plan.row_size), plan.row_dtype)
        self.due = np.ones(plan.envs, bool)

    def collect(self, batch: int, ends: Ends | None = None) -> list[Notice]:
        """Fill the buffers with batch number ``batch``; no fault is gone round here."""
        plan, b = self.plan, self.buffers
        actor = self.acting(b.shift, b.factor, b.weights, plan.envs)
        noise = batch_noise(plan, range(plan.envs), batch)
        self.finals.clear()
        if plan.reset_each_batch:
            self.due[:] = True
        b.progress.begun[:] = self.due
        for t in range(plan.steps):
            self._reset(np.flatnonzero(self.due))
            b.obs[t] = self.rows
            b.action[t] = actor(self.rows, noise[t])
            moved = self.world.step(b.action[t])
            self.rows, self.due = moved.rows, moved.over
            b.reward[t], b.terminated[t], b.ended[t], b.over[t] = moved[1:]
            if not plan.images:
                b.next_obs[t] = moved.rows
            else:
                self.finals |= {(t, int(i)): self.rows[i] for i in np.flatnonzero(moved.ended & ~moved.terminated)}
        if plan.images:
            b.next_obs[:] = self.rows
        b.progress.started[:] = self.started
        return []

    def restore(self, episodes: Mapping[int, OpenEpisode]) -> dict[int, bool]:
        """Bring all environments back to where they were by replaying their actions, so that all end together."""
        open_ones = [episodes[i] for i in range(self.plan.envs)]
        self.started = [episode.started for episode in open_ones]
        lengths = [len(episode.actions) for episode in open_ones]
        longest, exact, ended = max(lengths), [True] * len(lengths), np.ones(len(lengths), bool)
        for t in range(longest):
            # An environment whose turn has not come plays something, and is reset when it comes.
            begins = [i for i, n in enumerate(lengths) if n == longest - t]
            self.started = [n - (i in begins) for i, n in enumerate(self.started)]
            self._reset(begins)
            idle = {int(i): 0 for i in np.flatnonzero(ended) if i not in begins}
            if idle:
                self.world.reset(idle)
            actions = [
                e.actions[max(t - longest, -n)] if n else e.actions for e, n in zip(open_ones, lengths, strict=True)
            ]
            blank = np.zeros(self.plan.action_row, self.plan.action_dtype)
            moved = self.world.step(np.stack([a if n else blank for a, n in zip(actions, lengths, strict=True)]))
            self.rows, ended = moved.rows, moved.over
            playing = [n >= longest - t for n in lengths]
            exact = [ok and not (on and over) for ok, on, over in zip(exact, playing, ended, strict=True)]
        for i, episode in enumerate(open_ones):
            exact[i] = exact[i] and (lengths[i] == 0 or self.rows[i].tobytes() == episode.obs.tobytes())
            self.due[i] = lengths[i] == 0 or not exact[i]
        return dict(enumerate(exact))

    def close(self) -> None:
        """Close the world."""
        self.world.close()

    def _reset(self, indices: Iterable[int]) -> None:
        seeds = {int(i): seed_for(self.plan.seed, Purpose.EPISODE, int(i), self.started[i]) for i in indices}
        if seeds:
            self.rows = self.world.reset(seeds)
        for i in seeds:
            self.started[i] += 1
            self.due[i] = False
