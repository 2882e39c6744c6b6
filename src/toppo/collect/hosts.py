"""Where a worker lives: in this process, or in one of its own that may hang, crash or be killed."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from toppo.collect.actor import ActorFactory
from toppo.collect.child import POLL_SECONDS, Child, too_long
from toppo.collect.episodes import OpenEpisode
from toppo.collect.faults import Ends, FailedReplays, FaultPolicy, SurvivedFault
from toppo.collect.plan import Buffers, Plan, plan_to_json
from toppo.collect.vector_worker import VectorWorker
from toppo.collect.worker import Worker
from toppo.envs import Source
from toppo.envs.single import describe_call
from toppo.envs.source import open_vec_env
from toppo.errors import EnvironmentFault
from toppo.rng import Stream, seed_for


class Task(NamedTuple):
    """All that a worker is made from."""

    plan: Plan
    indices: Sequence[int]
    source: Source
    buffers: Buffers
    tolerance: FaultPolicy
    actor_factory: ActorFactory | None
    cores: list[int]  # where it stays; anywhere if empty


class Host(Protocol):
    """A worker, wherever it lives.  ``start`` may return before the batch is there; ``finish`` waits for it."""

    def start(self, batch: int, ends: Ends) -> None:
        """Begin to collect a batch."""

    def finish(self) -> list[SurvivedFault]:
        """Wait until the batch is there; EnvironmentFault if it never will be."""

    def restore(self, episodes: Mapping[int, OpenEpisode]) -> FailedReplays:
        """Bring environments back to where they were, except those that are returned."""

    def close(self) -> None:
        """End the worker."""


class LocalHost:
    """A worker in this process."""

    def __init__(self, task: Task) -> None:
        """Make its environments here."""
        plan = task.plan
        self._worker: Worker | VectorWorker = (
            VectorWorker(plan, open_vec_env(task.source, plan.n_envs), task.buffers, task.actor_factory)
            if task.source.is_vector
            else Worker(plan, task.indices, task.source, task.buffers, task.tolerance.on_nan, task.actor_factory)
        )
        self.restore, self.close = self._worker.restore, self._worker.close

    @property
    def finals(self) -> list[np.ndarray]:
        """With images: the last observation of every truncated episode of the batch, in order."""
        return [row for _, row in sorted(self._worker.finals.items(), key=lambda item: item[0])]

    def start(self, batch: int, ends: Ends) -> None:
        """Remember the batch: there is nobody to collect it while this process does something else."""
        self._batch, self._ends = batch, ends

    def finish(self) -> list[SurvivedFault]:
        """Collect."""
        return self._worker.collect(self._batch, self._ends)


class ProcessHost:
    """A worker in a process of its own."""

    def __init__(self, task: Task, memory: int) -> None:
        """Start the process; the first answer comes when it has its environments."""
        self.task, self.child = task, Child(memory)
        hello = {"plan": plan_to_json(task.plan), "indices": list(task.indices), "on_nan": task.tolerance.on_nan}
        self.child.send({**hello, "cores": task.cores, "address": task.source.address})
        self.close = self.child.close

    def ready(self) -> None:
        """Wait until the environments are made."""
        self._reply(float("inf"))

    def start(self, batch: int, ends: Ends) -> None:
        """Tell the worker to collect."""
        self.child.send({"do": "collect", "batch": batch, "ends": [(*key, t) for key, t in ends.items()]})

    def finish(self) -> list[SurvivedFault]:
        """Wait for the worker's answer."""
        return [SurvivedFault(*n) for n in self._reply(self.task.tolerance.env_timeout)["notices"]]

    def restore(self, episodes: Mapping[int, OpenEpisode]) -> FailedReplays:
        """Let the worker replay the episodes."""
        lost = {}
        for i, episode in episodes.items():
            message = {"do": "restore", "env": i, "started": episode.started}
            self.child.send(message, (episode.actions, episode.rewards, episode.obs))
            if reason := self._reply(self.task.tolerance.env_timeout)["lost"]:
                lost[i] = str(reason)
        return lost

    def _reply(self, timeout: float) -> dict[str, Any]:
        """The worker's answer; one whose calls stand still for too long is ended.

        Looks are counted and not seconds, so that a run that was suspended finds no fault with its workers.
        """
        pause, quiet, before = min(POLL_SECONDS, timeout / 4), 0, b""
        while not self.child.answers_within(pause):
            calls = self.task.buffers.progress.call.tobytes()
            quiet, before = (0 if calls != before else quiet + 1), calls
            if quiet * pause >= timeout:
                self.child.kill()
                raise self._fault(too_long(timeout, self.child))
        return self.child.receive(self._fault)

    def _fault(self, what: str) -> EnvironmentFault:
        plan, indices, progress = self.task.plan, self.task.indices, self.task.buffers.progress
        i = last_called(indices, self.task.buffers)
        if i is None:
            return EnvironmentFault(f"{self.task.source.label(indices[0])}: {what} between two calls")
        seed, step = seed_for(plan.seed, Stream.ENV_RESET, i, int(progress.started[i]) - 1), int(progress.step[i])
        where = describe_call(self.task.source.label(i), seed, step)
        return EnvironmentFault(f"{where}: {what}", {"environment": i, "seed": seed, "step": step})


def last_called(indices: Sequence[int], buffers: Buffers) -> int | None:
    """Which of a worker's environments it called last in this batch; None if it has called none."""
    calls = buffers.progress.call[list(indices)]
    return indices[int(calls.argmax())] if calls.any() else None
