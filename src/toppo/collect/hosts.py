"""Where a worker lives: in this process, or in one of its own that may hang, crash or be killed."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from toppo.collect.child import Child
from toppo.collect.episodes import OpenEpisode
from toppo.collect.faults import FailedReplays, SurvivedFault, Truncations
from toppo.collect.vector_worker import VectorWorker
from toppo.collect.worker import Task, Worker
from toppo.envs.single import describe_call
from toppo.envs.spaces_json import spaces_to_json
from toppo.errors import EnvironmentFault
from toppo.rng import Stream, seed_for


class ProcessHost:
    """A worker in a process of its own."""

    def __init__(self, task: Task, memory: int) -> None:
        """Start the process; the first answer comes when it has its environments."""
        self.task = task
        self.child = Child(memory)
        self.close = self.child.close
        plan = {**task.plan._asdict(), "spaces": spaces_to_json(task.plan.spaces)}
        place = {"indices": task.indices, "cores": task.cores}
        on_nan = task.fault_policy.on_nan
        self.child.send({"address": task.source.address, "plan": plan, "on_nan": on_nan, **place})

    def start(self, truncations: Truncations) -> None:
        """Tell the worker to collect."""
        self.child.send({"do": "collect", "truncations": [(*key, row) for key, row in truncations.items()]})

    def finish(self) -> list[SurvivedFault]:
        """Wait for the worker's answer."""
        return [SurvivedFault(**fault) for fault in self._reply()["survived"]]

    def restore(self, episodes: Mapping[int, OpenEpisode]) -> FailedReplays:
        """Let the worker replay the episodes."""
        failed = {}
        for i, episode in episodes.items():
            arrays = episode._asdict()
            self.child.send({"do": "restore", "env": i, "started": arrays.pop("started")}, arrays)
            for reason in self._reply()["failed"]:
                failed[i] = reason
        return failed

    def _reply(self) -> dict[str, Any]:
        """Return the worker's answer; end a worker whose calls stand still for too long."""
        return self.child.receive(self.fault, self.task.fault_policy.env_timeout, self.task.buffers.call.tobytes)

    def fault(self, what: str) -> EnvironmentFault:
        """Return the fault of the environment that the worker called last."""
        task = self.task
        call = last_call(task)
        label = task.source.label(call.env)
        if not call.episode:
            return EnvironmentFault(f"{label}: {what} between two calls")
        seed = seed_for(task.plan.seed, Stream.ENV_RESET, call.env, call.episode - 1)
        step = int(task.buffers.step[call.env])
        details = {"environment": call.env, "seed": seed, "step": step}
        return EnvironmentFault(f"{describe_call(label, seed, step)}: {what}", details)


Host = Worker | VectorWorker | ProcessHost
"""``start`` may return before the batch is there; ``finish`` waits for it."""


def open_host(task: Task, memory: int | None) -> Host:
    """Start a process that uses this shared memory, or make a worker in this process if it is None."""
    if memory is not None:
        return ProcessHost(task, memory)
    return VectorWorker(task) if task.source.is_vector else Worker(task)


def wait_until_ready(hosts: list[Host]) -> None:
    """Wait until the processes among them have made their environments, however long that takes."""
    for host in hosts:
        if isinstance(host, ProcessHost):
            host.child.receive(host.fault)


class Call(NamedTuple):
    """A call of an environment while a batch is collected."""

    env: int
    episode: int  # from 1; 0 if no environment was called
    row: int


def last_call(task: Task) -> Call:
    """Return the worker's last call of an environment in this batch; if there is none, of its first environment."""
    env = max(task.indices, key=task.buffers.call.__getitem__)
    call = int(task.buffers.call[env])
    return Call(env, int(task.buffers.started[env]) if call else 0, call % task.plan.steps)
