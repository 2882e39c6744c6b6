"""Where a worker lives: in this process, or in one of its own that may hang, crash or be killed."""

from collections.abc import Mapping
from typing import Any

from toppo.collect.child import POLL_SECONDS, Child, too_long
from toppo.collect.episodes import OpenEpisode
from toppo.collect.faults import FailedReplays, SurvivedFault, Truncations
from toppo.collect.plan import plan_to_json
from toppo.collect.vector_worker import VectorWorker
from toppo.collect.worker import Task, Worker
from toppo.envs.single import describe_call
from toppo.errors import EnvironmentFault
from toppo.rng import Stream, seed_for


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
            calls = self.task.buffers.call.tobytes()
            quiet_polls = quiet_polls + 1 if calls == before else 0
            before = calls
            if quiet_polls * pause >= timeout:
                self.child.kill()
                raise self._fault(too_long(timeout, self.child))
        return self.child.receive(self._fault)

    def _fault(self, what: str) -> EnvironmentFault:
        """Return the fault of the environment that the worker called last."""
        b = self.task.buffers
        i = last_called(self.task)
        if i is None:
            return EnvironmentFault(f"{self.task.source.label(self.task.indices[0])}: {what} between two calls")
        seed = seed_for(self.task.plan.seed, Stream.ENV_RESET, i, int(b.started[i]) - 1)
        step = int(b.step[i])
        where = describe_call(self.task.source.label(i), seed, step)
        return EnvironmentFault(f"{where}: {what}", {"environment": i, "seed": seed, "step": step})


Host = Worker | VectorWorker | ProcessHost
"""``start`` may return before the batch is there; ``finish`` waits for it."""


def open_host(task: Task, memory: int | None) -> Host:
    """Start a process that uses this shared memory, or make a worker in this process if it is None."""
    if memory is not None:
        return ProcessHost(task, memory)
    return VectorWorker(task) if task.source.is_vector else Worker(task)


def last_called(task: Task) -> int | None:
    """Return which of a worker's environments it called last in this batch; None if it has called none."""
    calls = task.buffers.call[task.indices]
    return task.indices[int(calls.argmax())] if calls.any() else None
