"""A worker owns environments and fills its columns of a batch; it never imports JAX."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from toppo.collect.actor import ActorFactory, mlp_actor_factory
from toppo.collect.episodes import OpenEpisode
from toppo.collect.faults import STRICT, FailedReplays, FaultPolicy, SurvivedFault, Truncations
from toppo.collect.plan import Buffers, Plan
from toppo.envs import Source
from toppo.envs.observations import live_rows
from toppo.envs.single import BatchStep, batch_step, open_environment
from toppo.errors import EnvironmentFault, NotFinite
from toppo.rng import Stream, seed_for

MAX_FAULTS_PER_ROW = 10  # an environment that gives nothing but NaN must not be asked for ever


def replay_difference(name: str, episode: OpenEpisode, rewards: np.ndarray, obs: np.ndarray) -> str | None:
    """Return a sentence if a replay gave other rewards than the episode, or ended with another observation."""
    pairs = {"led to another observation": (obs, episode.obs), "gave other rewards": (rewards, episode.rewards)}
    for what, (now, then) in pairs.items():
        if now.tobytes() != then.tobytes():
            return f"{name}: its replay of {len(rewards)} steps {what}"
    return None


class Task(NamedTuple):
    """All that a worker is made from."""

    plan: Plan
    indices: list[int]  # of its environments, consecutive
    source: Source
    buffers: Buffers
    fault_policy: FaultPolicy = STRICT
    actor_factory: ActorFactory | None = None  # the NumPy actor's if None
    cores: Sequence[int] = ()  # that its process is pinned to; any if empty


class Worker:
    """Steps some of a run's environments, each with its own streams of randomness."""

    def __init__(self, task: Task) -> None:
        spaces = task.plan.spaces
        self.plan = task.plan
        self.indices = task.indices
        self.buffers = task.buffers
        self.on_nan = task.fault_policy.on_nan
        self._actor_factory = task.actor_factory or mlp_actor_factory(spaces, task.plan.activation)
        self.finals: dict[tuple[int, int], np.ndarray] = {}  # with images: what truncated episodes ended with
        self._columns = slice(self.indices[0], self.indices[-1] + 1)
        self.rows = live_rows(spaces.row_size, spaces.row_dtype, len(self.indices))
        places = zip(self.indices, self.rows, strict=True)
        self.envs = {i: open_environment(task.source, i, spaces.masked, row) for i, row in places}
        # Where an episode may have to be ended and begun again in the middle of a row, they step one by one.
        self._batch_step = batch_step(list(self.envs.values()), self.rows) if self.on_nan == "raise" else None
        self.started = task.buffers.started  # the run reads it
        self.started[self._columns] = 0
        self.due = set(self.indices)  # for a reset
        self._calls = 0
        self._truncations: Truncations = {}
        self._survived: list[SurvivedFault] = []

    def start(self, truncations: Truncations) -> None:
        """Leave the work to ``finish``: nobody collects while this process does something else."""
        self._truncations = truncations

    def finish(self) -> list[SurvivedFault]:
        """Fill this worker's columns of the buffers, all its environments in step; return the faults it survived."""
        b = self.buffers
        rows = self.rows
        columns = self._columns
        noise = b.noise[:, columns]
        actor = self._actor_factory(b.mean, b.inv_std, b.weights, len(rows))
        self._prepare_batch()
        for t in range(self.plan.steps):
            for i in sorted(self.due):
                self._begin(t, i)
            actions = actor(rows, noise[t])
            b.obs[t, columns] = rows
            b.action[t, columns] = actions
            if self._batch_step and not self._truncations:
                self._step_all(t, self._batch_step, actions)
                continue
            for j, i in enumerate(self.indices):
                while not self._step(t, i, actions[j]):  # another episode takes the row
                    self._begin(t, i)
                    actions = actor(rows, noise[t])
                    b.obs[t, i] = rows[j]
                    b.action[t, i] = actions[j]
        for i, env in self.envs.items():
            b.reward[:, i] -= env.control_costs(b.action[:, i])
        self._store_next_obs()
        return self._survived

    def _prepare_batch(self) -> None:
        """Clear what the batch before left."""
        b = self.buffers
        self._survived = []
        self.finals.clear()
        if self.plan.reset_each_batch:
            self.due = set(self.indices)
        b.begun[self._columns] = [i in self.due for i in self.indices]
        for flags in (b.terminated, b.ended, b.over):
            flags[:, self._columns] = False

    def _begin(self, t: int, i: int) -> None:
        """Reset environment ``i`` before row ``t``."""
        while i in self.due:
            self.started[i] += 1
            if self._truncations.get((i, self.started[i])) == t:
                continue
            try:
                self._reset(t, i)
                self.due.discard(i)
            except NotFinite as fault:
                self._survive(t, i, fault)

    def _step(self, t: int, i: int, action: np.ndarray) -> bool:
        """Take row ``t`` in environment ``i``; False if the episode was truncated before it."""
        env = self.envs[i]
        if self._truncations and self._truncations.get((i, self.started[i])) == t:
            self._truncate_before(t, i)
            return False
        self._note_call(t, i, env.t + 1)
        try:
            reward, terminated, truncated = env.step_before_cost(action)
        except NotFinite as fault:
            self._survive(t, i, fault)
            return False
        self.buffers.reward[t, i] = reward
        if terminated or truncated:
            self.buffers.terminated[t, i] = terminated
            self._end(t, i, env.row)
        return True

    def _step_all(self, t: int, step: BatchStep, actions: np.ndarray) -> None:
        """Take row ``t`` in all environments."""
        b = self.buffers
        columns = self._columns
        self._note_call(t, columns, b.step[columns] + 1)
        b.reward[t, columns], ends = step(actions)
        for j, terminated in ends:
            i = self.indices[j]
            b.terminated[t, i] = terminated
            self._end(t, i, self.rows[j])

    def _end(self, t: int, i: int, last: np.ndarray) -> None:
        """Write down that the episode ends with row ``t`` and shows ``last``."""
        b = self.buffers
        b.ended[t, i] = True
        b.over[t, i] = True
        self.due.add(i)
        if not self.plan.spaces.images:
            b.next_obs[t, i] = last
        elif not b.terminated[t, i]:
            self.finals[t, i] = last.copy()

    def _store_next_obs(self) -> None:
        """Fill ``next_obs``: the next row's observation, except where ``_end`` has stored the last of an episode."""
        b = self.buffers
        columns = self._columns
        if self.plan.spaces.images:
            b.next_obs[columns] = self.rows
        else:
            np.copyto(b.next_obs[:-1, columns], b.obs[1:, columns], where=~b.ended[:-1, columns, None])
            b.next_obs[-1, columns] = self.rows

    def _reset(self, t: int, i: int) -> None:
        self._note_call(t, i, 0)
        self.envs[i].reset(seed_for(self.plan.seed, Stream.ENV_RESET, i, self.started[i] - 1))

    def _note_call(self, t: int, i: int | slice, step: int | np.ndarray) -> None:
        """Note the call that follows where the run can read it, in case it never returns."""
        self._calls += self.plan.steps
        self.buffers.call[i] = self._calls + t
        self.buffers.step[i] = step

    def _survive(self, t: int, i: int, fault: NotFinite) -> None:
        """Truncate the episode before the row that failed, or raise."""
        if self.on_nan == "raise" or sum(f.row == t and f.env == i for f in self._survived) == MAX_FAULTS_PER_ROW:
            raise fault
        sentence = f"{fault}; the episode was ended before it"
        self._survived.append(SurvivedFault(env=i, row=t, sentence=sentence, exact=False))
        self._truncate_before(t, i)

    def _truncate_before(self, t: int, i: int) -> None:
        b = self.buffers
        if t == 0:
            b.begun[i] = True
        elif not b.ended[t - 1, i]:
            self._end(t - 1, i, b.obs[t, i])
        self.due.add(i)

    def restore(self, episodes: Mapping[int, OpenEpisode]) -> FailedReplays:
        """Bring environments back to where they were, except those that are returned."""
        failed = {}
        for i, episode in episodes.items():
            self.started[i] = episode.started
            self.due.add(i)
            try:
                if len(episode.actions):
                    self._replay(i, episode)
                    self.due.discard(i)
            except EnvironmentFault as fault:  # hidden randomness may lead to a state where the actions are wrong ones
                failed[i] = str(fault)
        return failed

    def _replay(self, i: int, episode: OpenEpisode) -> None:
        env = self.envs[i]
        rewards = np.zeros(len(episode.actions))
        self._reset(0, i)
        for step, action in enumerate(episode.actions):
            self._note_call(0, i, step + 1)
            rewards[step], terminated, truncated = env.step_before_cost(action)
            if terminated or truncated:
                raise EnvironmentFault(f"{env.name}: its replay ended at step {step + 1} of {len(rewards)}")
        obs = env.row.astype(self.plan.spaces.row_dtype)
        difference = replay_difference(env.name, episode, rewards - env.control_costs(episode.actions), obs)
        if difference:
            raise EnvironmentFault(difference)

    def close(self) -> None:
        """Close the environments."""
        for env in self.envs.values():
            env.close()
