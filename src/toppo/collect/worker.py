"""A worker owns environments and fills its columns of a batch; it never imports JAX."""

from collections.abc import Mapping, Sequence

import numpy as np

from toppo.collect.actor import ActorFactory, mlp_actor_factory
from toppo.collect.episodes import OpenEpisode
from toppo.collect.faults import Ends, FailedReplays, OnNan, SurvivedFault
from toppo.collect.plan import Buffers, Plan
from toppo.envs import Source, open_environment
from toppo.envs.observations import live_rows
from toppo.envs.single import BatchStep, batch_step
from toppo.errors import EnvironmentFault, NotFinite
from toppo.rng import Stream, seed_for

MAX_FAULTS_IN_A_ROW = 10  # of the batch; an environment that gives nothing but NaN must not be asked for ever


def not_replayed(name: str, episode: OpenEpisode, rewards: np.ndarray, obs: np.ndarray) -> str | None:
    """A sentence on a replay that gave other rewards than the episode, or ended with another observation."""
    pairs = {"led to another observation": (obs, episode.obs), "gave other rewards": (rewards, episode.rewards)}
    for what, (now, then) in pairs.items():
        if now.tobytes() != then.tobytes():
            return f"{name}: its replay of {len(rewards)} steps {what}"
    return None


class Worker:
    """A stretch of a run's environments, each with its own streams of randomness."""

    def __init__(
        self,
        plan: Plan,
        indices: Sequence[int],
        source: Source,
        buffers: Buffers,
        on_nan: OnNan = "raise",
        actor_factory: ActorFactory | None = None,
    ) -> None:
        """Make the environments number ``indices``, which follow each other; ``actor_factory`` replaces the NumPy actor."""
        self.plan, self.indices, self.buffers, self.on_nan = plan, indices, buffers, on_nan
        self._actor_factory = actor_factory or mlp_actor_factory(plan.spaces)
        self.finals: dict[tuple[int, int], np.ndarray] = {}  # with images: what truncated episodes ended with
        self._mine = slice(indices[0], indices[-1] + 1)
        self.rows = live_rows(plan.spaces.row_size, plan.spaces.row_dtype, len(indices))
        self.envs = {
            i: open_environment(source, i, plan.spaces.masked, row) for i, row in zip(indices, self.rows, strict=True)
        }
        # Where an episode may have to be ended and begun again in the middle of a row, they step one by one.
        self._together = batch_step(list(self.envs.values()), self.rows) if on_nan == "raise" else None
        self.started = dict.fromkeys(indices, 0)
        self.due = set(indices)  # for a reset
        self._calls = 0
        self._ends: Ends = {}
        self._notices: list[SurvivedFault] = []

    def collect(self, batch: int, ends: Ends | None = None) -> list[SurvivedFault]:
        """Fill this worker's columns with batch number ``batch``, all its environments in step.

        Returns the values that were not finite and that it went round.
        """
        plan, b, indices, rows, mine = self.plan, self.buffers, self.indices, self.rows, self._mine
        self._ends, self._notices = dict(ends or {}), []
        actor = self._actor_factory(b.mean, b.inv_std, b.weights, len(indices))
        noise = b.noise[:, mine]
        self.finals.clear()
        if plan.reset_each_batch:
            self.due = set(indices)
        for i in indices:
            b.progress.begun[i], b.progress.started[i] = i in self.due, self.started[i]
        b.terminated[:, mine] = b.ended[:, mine] = b.over[:, mine] = False
        for t in range(plan.steps):
            for i in sorted(self.due) if self.due else ():
                self._begin(t, i)
            actions = actor(rows, noise[t])
            b.obs[t, mine] = rows
            b.action[t, mine] = actions
            if self._together and not self._ends:
                self._step_all(t, self._together, actions)
                continue
            for j, i in enumerate(indices):
                while not self._step(t, i, actions[j]):  # another episode takes the row
                    self._begin(t, i)
                    actions = actor(rows, noise[t])
                    b.obs[t, i], b.action[t, i] = rows[j], actions[j]
        if self._together:
            b.reward[:, mine] -= self.envs[indices[0]].control_costs(b.action[:, mine])  # they are of one kind
        else:
            for i, env in self.envs.items():
                b.reward[:, i] -= env.control_costs(b.action[:, i])
        self._store_what_followed()
        return self._notices

    def _begin(self, t: int, i: int) -> None:
        """Reset the environment before row ``t``."""
        while i in self.due:
            self.started[i] += 1
            if self._ends.get((i, self.started[i])) == t:
                continue
            try:
                self._reset(t, i)
                self.due.discard(i)
            except NotFinite as fault:
                self._truncate_before(t, i, fault)

    def _step(self, t: int, i: int, action: np.ndarray) -> bool:
        """Take row ``t``; False if the episode was ended before it."""
        env = self.envs[i]
        if self._ends and self._ends.get((i, self.started[i])) == t:
            self._end_before(t, i)
            return False
        self._mark(t, i, env.t + 1)
        try:
            reward, terminated, truncated = env.step_before_cost(action)
        except NotFinite as fault:
            self._truncate_before(t, i, fault)
            return False
        self.buffers.reward[t, i] = reward
        if terminated or truncated:
            self.buffers.terminated[t, i] = terminated
            self._end(t, i, env.row)
        return True

    def _step_all(self, t: int, together: BatchStep, actions: np.ndarray) -> None:
        """Take row ``t`` in all environments."""
        b, mine, first = self.buffers, self._mine, self.indices[0]
        self._mark(t, mine, b.progress.step[mine] + 1)
        b.reward[t, mine], ends = together(actions)
        for j, terminated in ends:
            b.terminated[t, first + j] = terminated
            self._end(t, first + j, self.rows[j])

    def _end(self, t: int, i: int, last: np.ndarray) -> None:
        """The episode ends with row ``t`` and shows ``last``."""
        b = self.buffers
        b.ended[t, i] = b.over[t, i] = True
        self.due.add(i)
        if not self.plan.spaces.images:
            b.next_obs[t, i] = last
        elif not b.terminated[t, i]:
            self.finals[t, i] = last.copy()

    def _store_what_followed(self) -> None:
        """Fill ``next_obs``: the next row's observation, except where an episode ended and the last one lies there."""
        b, mine = self.buffers, self._mine
        if self.plan.spaces.images:
            b.next_obs[mine] = self.rows
        else:
            np.copyto(b.next_obs[:-1, mine], b.obs[1:, mine], where=~b.ended[:-1, mine, None])
            b.next_obs[-1, mine] = self.rows

    def _reset(self, t: int, i: int) -> None:
        self.buffers.progress.started[i] = self.started[i]
        self._mark(t, i, 0)
        self.envs[i].reset(seed_for(self.plan.seed, Stream.ENV_RESET, i, self.started[i] - 1))

    def _mark(self, t: int, i: int | slice, step: int | np.ndarray) -> None:
        """Leave a note of the call that follows, for the case that it never returns."""
        self._calls += self.plan.steps
        progress = self.buffers.progress
        progress.call[i] = self._calls + t
        progress.step[i] = step

    def _truncate_before(self, t: int, i: int, fault: NotFinite) -> None:
        """End the episode before the row that failed, or raise."""
        if self.on_nan == "raise" or sum(n.row == t and n.env == i for n in self._notices) == MAX_FAULTS_IN_A_ROW:
            raise fault
        self._notices.append(SurvivedFault(i, t, f"{fault}; the episode was ended before it", exact=False))
        self._end_before(t, i)

    def _end_before(self, t: int, i: int) -> None:
        b = self.buffers
        if t == 0:
            b.progress.begun[i] = True
        elif not b.ended[t - 1, i]:
            self._end(t - 1, i, b.obs[t, i])
        self.due.add(i)

    def restore(self, episodes: Mapping[int, OpenEpisode]) -> FailedReplays:
        """Bring environments back to where they were, except those that are returned."""
        reasons = {i: self.restore_one(i, episode) for i, episode in episodes.items()}
        return {i: reason for i, reason in reasons.items() if reason}

    def restore_one(self, i: int, episode: OpenEpisode) -> str | None:
        """Bring environment ``i`` back to where it was; if replaying its actions led elsewhere, a sentence on it."""
        self.started[i] = episode.started
        self.due.add(i)
        if len(episode.actions) == 0:
            return None
        try:
            reason = self._replay(i, episode)
        except EnvironmentFault as fault:
            # Where hidden randomness led elsewhere, the actions of then may be wrong ones now.
            reason = str(fault)
        if reason is None:
            self.due.discard(i)
        return reason

    def _replay(self, i: int, episode: OpenEpisode) -> str | None:
        env, rewards = self.envs[i], np.zeros(len(episode.actions))
        self._reset(0, i)
        for step, action in enumerate(episode.actions):
            self._mark(0, i, step + 1)
            rewards[step], terminated, truncated = env.step_before_cost(action)
            if terminated or truncated:
                return f"{env.name}: its replay ended at step {step + 1} of {len(rewards)}"
        shown = env.row.astype(self.plan.spaces.row_dtype)
        return not_replayed(env.name, episode, rewards - env.control_costs(episode.actions), shown)

    def close(self) -> None:
        """Close the environments."""
        for env in self.envs.values():
            env.close()
