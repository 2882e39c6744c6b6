"""Where a worker lives: in this process, or in one of its own that may hang, crash or be killed."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from toppo.collect.actor import ActorFactory
from toppo.collect.child import POLL_SECONDS, Child, too_long
from toppo.collect.episodes import OpenEpisode
from toppo.collect.faults import FailedReplays, FaultPolicy, SurvivedFault, Truncations
from toppo.collect.plan import Buffers, Plan, Progress, plan_to_json
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
    indices: list[int]  # of its environments
    source: Source
    buffers: Buffers
    fault_policy: FaultPolicy
    actor_factory: ActorFactory | None
    cores: list[int]  # that it is pinned to; any if empty


class Host(Protocol):
    """A worker, wherever it lives.  ``start`` may return before the batch is there; ``finish`` waits for it."""

    def wait_until_ready(self) -> None:
        """Wait until the environments are made."""

    def start(self, truncations: Truncations) -> None:
        """Begin to collect a batch."""

    def finish(self) -> list[SurvivedFault]:
        """Wait until the batch is there; raise EnvironmentFault if it never will be."""

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
            else Worker(plan, task.indices, task.source, task.buffers, task.fault_policy.on_nan, task.actor_factory)
        )
        self._truncations: Truncations = {}
        self.restore = self._worker.restore
        self.close = self._worker.close

    @property
    def finals(self) -> list[np.ndarray]:
        """With images: the last observation of every truncated episode of the batch, in order."""
        return [row for _, row in sorted(self._worker.finals.items(), key=lambda item: item[0])]

    def wait_until_ready(self) -> None:
        """Do nothing: the environments are there."""

    def start(self, truncations: Truncations) -> None:
        """Leave the work to ``finish``: nobody collects while this process does something else."""
        self._truncations = truncations

    def finish(self) -> list[SurvivedFault]:
        """Collect."""
        return self._worker.collect(self._truncations)


class ProcessHost:
    """A worker in a process of its own."""

    def __init__(self, task: Task, memory: int) -> None:
        """Start the process; the first answer comes when it has its environments."""
        self.task = task
        self.child = Child(memory)
        self.close = self.child.close
        self.child.send(
            {
                "plan": plan_to_json(task.plan),
                "indices": task.indices,
                "on_nan": task.fault_policy.on_nan,
                "cores": task.cores,
                "address": task.source.address,
            }
        )

    def wait_until_ready(self) -> None:
        """Wait until the environments are made, however long that takes."""
        self._reply(float("inf"))

    def start(self, truncations: Truncations) -> None:
        """Tell the worker to collect."""
        self.child.send({"do": "collect", "truncations": [(*key, row) for key, row in truncations.items()]})

    def finish(self) -> list[SurvivedFault]:
        """Wait for the worker's answer."""
        return [SurvivedFault(**fault) for fault in self._reply(self.task.fault_policy.env_timeout)["survived"]]

    def restore(self, episodes: Mapping[int, OpenEpisode]) -> FailedReplays:
        """Let the worker replay the episodes."""
        failed = {}
        for i, episode in episodes.items():
            arrays = episode._asdict()
            self.child.send({"do": "restore", "env": i, "started": arrays.pop("started")}, arrays)
            if reason := self._reply(self.task.fault_policy.env_timeout)["failed"]:
                failed[i] = str(reason)
        return failed

    def _reply(self, timeout: float) -> dict[str, Any]:
        """Return the worker's answer; end a worker whose calls stand still for too long.

        Polls are counted and not seconds, so that a run that was suspended finds no fault with its workers.
        """
        pause = min(POLL_SECONDS, timeout / 4)
        quiet_polls = 0
        before = b""
        while not self.child.answers_within(pause):
            calls = self.task.buffers.progress.call.tobytes()
            quiet_polls = quiet_polls + 1 if calls == before else 0
            before = calls
            if quiet_polls * pause >= timeout:
                self.child.kill()
                raise self._fault(too_long(timeout, self.child))
        return self.child.receive(self._fault)

    def _fault(self, what: str) -> EnvironmentFault:
        """Return the fault of the environment that the worker called last."""
        progress = self.task.buffers.progress
        i = last_called(self.task.indices, progress)
        if i is None:
            return EnvironmentFault(f"{self.task.source.label(self.task.indices[0])}: {what} between two calls")
        seed = seed_for(self.task.plan.seed, Stream.ENV_RESET, i, int(progress.started[i]) - 1)
        step = int(progress.step[i])
        where = describe_call(self.task.source.label(i), seed, step)
        return EnvironmentFault(f"{where}: {what}", {"environment": i, "seed": seed, "step": step})


def last_called(indices: list[int], progress: Progress) -> int | None:
    """Return which of a worker's environments it called last in this batch; None if it has called none."""
    calls = progress.call[indices]
    return indices[int(calls.argmax())] if calls.any() else None
