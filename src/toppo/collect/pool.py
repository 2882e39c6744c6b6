"""All workers of a run.  However many there are and wherever they live, the bytes are the same."""

import mmap
import os
import tempfile

import numpy as np

from toppo.collect.actor import ActorFactory
from toppo.collect.episodes import OpenEpisode
from toppo.collect.faults import STRICT, FailedReplays, FaultPolicy, SurvivedFault, Truncations
from toppo.collect.hosts import Call, Host, ProcessHost, last_call, open_host, wait_until_ready
from toppo.collect.pinning import cores_used_by
from toppo.collect.plan import Plan, RawBatch, batch_noise, buffers_in, buffers_size
from toppo.collect.vector_worker import VectorWorker
from toppo.collect.worker import Task
from toppo.envs import EnvSource, Source, resolve
from toppo.errors import EnvironmentFault, NotFinite, ToppoError


class Pool:
    """Workers, each with some of the environments; a worker whose environment failed can be replaced.

    ``start`` may return before the batch is there; ``finish`` waits for it.
    """

    def __init__(self, tasks: list[Task], memory: int | None) -> None:
        """Open a worker for each task: in processes that share this memory, or in this process if it is None."""
        first = tasks[0]
        self.buffers = first.buffers
        self._plan = first.plan
        self._tasks = tasks
        self._memory = memory
        self._noise_of = -1  # the batch that the noise in the buffers is for
        self._batch = 0
        restarts = 0 if first.source.is_object else first.fault_policy.env_restarts
        self._restarts_left = [restarts] * first.plan.n_envs
        self._failed: set[Call] = set()  # in this batch
        self._truncations: Truncations = {}  # of this batch
        self._episodes: tuple[OpenEpisode, ...] = ()  # before this batch
        self._hosts: list[Host] = []
        try:
            for task in tasks:
                self._hosts.append(open_host(task, memory))
            wait_until_ready(self._hosts)
        except BaseException:
            self.close()
            raise

    def draw_noise(self, batch: int) -> None:
        """Draw the noise of a batch; ``start`` does so if nobody has found time for it between two batches."""
        if self._noise_of != batch:
            self.buffers.noise[:] = batch_noise(self._plan, batch)
            self._noise_of = batch

    def start(self, batch: int, episodes: tuple[OpenEpisode, ...]) -> None:
        """Begin to collect batch number ``batch`` with the weights in the buffers; ``episodes`` are open before it."""
        self.draw_noise(batch)
        self._batch = batch
        self._episodes = episodes
        self._failed = set()
        self._truncations = {}
        self.buffers.call[:] = 0
        for host in reversed(self._hosts):  # the first one last: it may take this thread's core
            host.start({})

    def finish(self) -> list[SurvivedFault]:
        """Wait until the batch that was started lies in the buffers; return the faults that it survived."""
        return [fault for w in range(len(self._hosts)) for fault in self._finish(w)]

    def _finish(self, w: int) -> list[SurvivedFault]:
        survived: list[SurvivedFault] = []
        while True:
            try:
                if survived and not self._replace(w):
                    survived[-1] = survived[-1]._replace(exact=False)
                return survived + self._hosts[w].finish()
            except EnvironmentFault as fault:
                survived.append(self._survive(w, fault))

    def progress(self) -> tuple[int, int | None]:
        """Return the number of the newest batch, and about how many of its steps are done."""
        steps = 0
        for host, task in zip(self._hosts, self._tasks, strict=False):
            if isinstance(host, VectorWorker):
                steps += host.row * len(task.indices)
            else:
                steps += int((self.buffers.call[task.indices] % self._plan.steps).sum())
        return self._batch, steps

    def restore(self, episodes: tuple[OpenEpisode, ...]) -> FailedReplays:
        """Bring the environments back to where they were, except those that are returned."""
        failed: FailedReplays = {}
        for host, task in zip(self._hosts, self._tasks, strict=True):
            failed |= host.restore({i: episodes[i] for i in task.indices})
        return failed

    def batch(self) -> RawBatch[np.ndarray]:
        """Return the batch in the buffers, not copied."""
        raw = self.buffers.batch()
        local = [host for host in self._hosts if not isinstance(host, ProcessHost)]
        finals = [host.finals[key] for host in local for key in sorted(host.finals)]
        if not finals:
            return raw
        # Padded to a power of two, so that few shapes have to be compiled.
        padding = finals[-1:] * ((1 << (len(finals) - 1).bit_length()) - len(finals))
        return raw._replace(next_obs=np.concatenate([raw.next_obs, np.stack([*finals, *padding])]))

    def pids(self) -> list[int]:
        """Return the worker processes; none if all environments are in this one."""
        return [host.child.pid for host in self._hosts if isinstance(host, ProcessHost)]

    def close(self) -> None:
        """End the workers."""
        for host in self._hosts:
            host.close()
        self._hosts = []
        if self._memory is not None:
            os.close(self._memory)
            self._memory = None

    def _survive(self, w: int, fault: EnvironmentFault) -> SurvivedFault:
        """Return what the run does about the fault, or raise it.

        At first the same actions are taken again from the same states: if the fault was of the moment, nothing is
        different.  If the same call fails again, the environment fails there, and its episode is ended before it.
        """
        if isinstance(fault, NotFinite):
            raise fault
        call = last_call(self._tasks[w])
        fails_again = call in self._failed
        if fails_again:
            self._truncations[call.env, call.episode] = call.row
            outcome = "the episode was ended before it"
        else:
            if not self._restarts_left[call.env]:
                raise fault
            self._restarts_left[call.env] -= 1
            if call.episode:
                self._failed.add(call)
            outcome = "the environment was replaced and the batch collected again"
        return SurvivedFault(env=call.env, row=call.row, sentence=f"{fault}; {outcome}", exact=not fails_again)

    def _replace(self, w: int) -> bool:
        """Let a new worker collect the batch in place of one that failed; False if a replay led elsewhere."""
        task = self._tasks[w]
        self._hosts[w].close()
        self.buffers.call[task.indices] = 0
        host = open_host(task, self._memory)
        self._hosts[w] = host
        wait_until_ready([host])
        episodes = {i: self._episodes[i] for i in task.indices}
        given_up = {i for i, e in episodes.items() if self._truncations.get((i, e.started)) == 0}
        failed = host.restore({i: e.without_steps() if i in given_up else e for i, e in episodes.items()})
        host.start(self._truncations)
        return not failed


def _shared_memory(size: int) -> int:
    """Return a file descriptor of nameless memory: it vanishes with its last user, however that ends."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("toppo")
    else:
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    os.truncate(fd, size)
    return fd


def open_pool(
    plan: Plan,
    env: EnvSource | Source,
    workers: int,
    fault_policy: FaultPolicy = STRICT,
    actor_factory: ActorFactory | None = None,
) -> Pool:
    """Open ``workers`` processes; use this one if that is 0 or the environment cannot be made in another.

    A policy with an ``actor_factory`` of its own acts in this process, for all environments at once.
    """
    source = resolve(env)
    _refuse_for_objects(source, plan, fault_policy)
    workers = min(workers, plan.n_envs) if actor_factory is None and source.address is not None else 0
    size = buffers_size(plan)
    memory = _shared_memory(size) if workers else None
    buffers = buffers_in(plan, bytearray(size) if memory is None else memoryview(mmap.mmap(memory, 0)))
    cores = [[core] for core in cores_used_by(workers)] or [[]]
    tasks = [
        Task(
            plan=plan,
            indices=indices.tolist(),
            source=source,
            buffers=buffers,
            fault_policy=fault_policy,
            actor_factory=actor_factory,
            cores=cores[w % len(cores)],
        )
        for w, indices in enumerate(np.array_split(range(plan.n_envs), max(1, workers)))
    ]
    return Pool(tasks, memory)


def _refuse_for_objects(source: Source, plan: Plan, fault_policy: FaultPolicy) -> None:
    """Refuse what an environment that exists already cannot serve."""
    vector = source.is_object and source.is_vector
    restarts = fault_policy.env_restarts
    instead = "give the function that makes one environment instead"
    if source.is_object and not vector and plan.n_envs > 1:
        raise ToppoError(f"n_envs is {plan.n_envs}, but one environment object cannot be copied: {instead}")
    if vector and fault_policy.on_nan == "truncate":
        raise ToppoError(f"on_nan is 'truncate', but the environments of a vector environment step together: {instead}")
    if vector and restarts:
        raise ToppoError(f"env_restarts is {restarts}, but a vector environment object cannot be made again: {instead}")
