"""All workers of a run.  However many there are and wherever they live, the bytes are the same."""

import mmap
import os
import tempfile

import numpy as np

from toppo.collect.actor import ActorFactory
from toppo.collect.episodes import OpenEpisode
from toppo.collect.faults import STRICT, Ends, FailedReplays, FaultPolicy, SurvivedFault
from toppo.collect.hosts import Host, LocalHost, ProcessHost, Task, last_called
from toppo.collect.pinning import cores_used_by
from toppo.collect.plan import Buffers, Plan, RawBatch, batch_noise, buffers_in, buffers_size
from toppo.envs import EnvSource, Source, resolve
from toppo.errors import EnvironmentFault, NotFinite, ToppoError

Place = tuple[int, int, int]  # environment, episode, row of the batch


class Pool:
    """Workers with a stretch of the environments each; a worker whose environment failed can be replaced.

    ``start`` may return before the batch is there; ``finish`` waits for it.
    """

    def __init__(
        self, plan: Plan, source: Source, workers: int, tolerance: FaultPolicy, actor_factory: ActorFactory | None
    ) -> None:
        """Open ``workers`` processes, or work in this process if that is 0."""
        size = buffers_size(plan)
        self._memory = _shared_memory(size) if workers else None
        block = bytearray(size) if self._memory is None else memoryview(mmap.mmap(self._memory, 0))
        self.buffers: Buffers = buffers_in(plan, block)
        self._plan, self._drawn, count = plan, -1, max(1, workers)
        owners = [i * count // plan.n_envs for i in range(plan.n_envs)]
        stretches = [[i for i in range(plan.n_envs) if owners[i] == w] for w in range(count)]
        homes = [[core] for core in cores_used_by(workers)] or [[]]
        self._tasks = [
            Task(plan, stretch, source, self.buffers, tolerance, actor_factory, homes[w % len(homes)])
            for w, stretch in enumerate(stretches)
        ]
        replaceable = not source.is_object
        self._restarts = [tolerance.env_restarts if replaceable else 0] * plan.n_envs
        self._failed: set[Place] = set()
        self._ends: list[Ends] = []
        self._episodes: tuple[OpenEpisode, ...] = ()
        self._hosts: list[Host] = []
        try:
            self._hosts += [self._open(task) for task in self._tasks]
            for host in self._hosts:
                self._await(host)
        except BaseException:
            self.close()
            raise

    def draw_noise(self, batch: int) -> None:
        """Draw the noise of a batch; ``start`` does so if nobody has found time for it between two batches."""
        if self._drawn != batch:
            self.buffers.noise[:], self._drawn = batch_noise(self._plan, batch), batch

    def start(self, batch: int, episodes: tuple[OpenEpisode, ...]) -> None:
        """Begin to collect batch number ``batch`` with the weights in the buffers; ``episodes`` are open before it."""
        self.draw_noise(batch)
        self._batch, self._episodes, self._failed = batch, episodes, set()
        self._ends = [{} for _ in self._hosts]
        self.buffers.progress.call[:] = 0
        for host in reversed(self._hosts):  # the first one last: it may take this thread's core
            host.start(batch, {})

    def finish(self) -> list[SurvivedFault]:
        """Wait until the batch that was started lies in the buffers; returns the faults that it survived."""
        return [notice for w in range(len(self._hosts)) for notice in self._finish(w)]

    def _finish(self, w: int) -> list[SurvivedFault]:
        survived: list[SurvivedFault] = []
        replace = False
        while True:
            try:
                if replace and not self._replace(w):
                    survived[-1] = survived[-1]._replace(exact=False)
                return survived + self._hosts[w].finish()
            except EnvironmentFault as fault:
                survived.append(self._judge(w, fault))
                replace = True

    def restore(self, episodes: tuple[OpenEpisode, ...]) -> FailedReplays:
        """Bring the environments back to where they were, except those that are returned."""
        lost: FailedReplays = {}
        for host, task in zip(self._hosts, self._tasks, strict=True):
            lost |= host.restore({i: episodes[i] for i in task.indices})
        return lost

    def batch(self) -> RawBatch[np.ndarray]:
        """Return the batch in the buffers, not copied."""
        raw = self.buffers.batch()
        finals = [row for host in self._hosts if isinstance(host, LocalHost) for row in host.finals]
        if not finals:
            return raw
        # Padded to a power of two, so that few shapes have to be compiled.
        padding = finals[-1:] * ((1 << (len(finals) - 1).bit_length()) - len(finals))
        return raw._replace(next_obs=np.concatenate([raw.next_obs, np.stack([*finals, *padding])]))

    def pids(self) -> list[int]:
        """The worker processes; none if all environments are in this one."""
        return [host.child.pid for host in self._hosts if isinstance(host, ProcessHost)]

    def close(self) -> None:
        """End the workers."""
        for host in self._hosts:
            host.close()
        self._hosts = []
        if self._memory is not None:
            os.close(self._memory)
            self._memory = None

    def _judge(self, w: int, fault: EnvironmentFault) -> SurvivedFault:
        """Can the run bear this fault?  Then what it will do about it, otherwise the fault.

        At first the same actions are taken again from the same states: if the fault was of the moment, nothing is
        different.  If the same call fails again, the environment fails there, and its episode is ended before it.
        """
        i, place = self._place(self._tasks[w])
        again = place is not None and place in self._failed
        if isinstance(fault, NotFinite) or not (again or self._restarts[i]):
            raise fault
        if again and place is not None:
            self._ends[w][place[:2]] = place[2]
            return SurvivedFault(i, place[2], f"{fault}; the episode was ended before it", exact=False)
        self._restarts[i] -= 1
        if place is not None:
            self._failed.add(place)
        row = place[2] if place else 0
        return SurvivedFault(i, row, f"{fault}; the environment was replaced and the batch collected again", exact=True)

    def _replace(self, w: int) -> bool:
        """A new worker in place of one that failed, at work on the batch; False if a replay led elsewhere."""
        task, ends = self._tasks[w], self._ends[w]
        self._hosts[w].close()
        self.buffers.progress.call[task.indices] = 0
        self._hosts[w] = host = self._open(task)
        self._await(host)
        episodes = {i: self._episodes[i] for i in task.indices}
        given_up = {i for i, e in episodes.items() if ends.get((i, e.started)) == 0}
        lost = host.restore({i: e._replace(actions=e.actions[:0]) if i in given_up else e for i, e in episodes.items()})
        host.start(self._batch, ends)
        return not lost

    def _place(self, task: Task) -> tuple[int, Place | None]:
        """The environment that was called last and where it was, if any was called."""
        i, progress = last_called(task.indices, task.buffers), task.buffers.progress
        if i is None:
            return task.indices[0], None
        return i, (i, int(progress.started[i]), int(progress.call[i]) % self._plan.steps)

    def _open(self, task: Task) -> Host:
        return LocalHost(task) if self._memory is None else ProcessHost(task, self._memory)

    def _await(self, host: Host) -> None:
        if isinstance(host, ProcessHost):
            host.ready()


def _shared_memory(size: int) -> int:
    """A file descriptor of nameless memory: it vanishes with its last user, however that ends."""
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
    tolerance: FaultPolicy = STRICT,
    actor_factory: ActorFactory | None = None,
) -> Pool:
    """``workers`` processes, or this process if that is 0 or the environment cannot be made in another.

    A policy that has an ``actor_factory`` of its own acts in this process, for all environments at once.
    """
    source = resolve(env)
    if source.is_object and not source.is_vector and plan.n_envs > 1:
        raise ToppoError(
            f"n_envs is {plan.n_envs}, but one environment object cannot be copied: give an id or a function"
        )
    if source.is_object and source.is_vector:
        _refuse_for_vectors(tolerance)
    apart = actor_factory is None and source.address is not None
    return Pool(plan, source, min(workers, plan.n_envs) if apart else 0, tolerance, actor_factory)


def _refuse_for_vectors(tolerance: FaultPolicy) -> None:
    """What cannot be had where all environments are one object."""
    instead = "give the function that makes one environment instead"
    if tolerance.on_nan == "truncate":
        raise ToppoError(
            "on_nan is 'truncate', but the environments of a vector environment step together, so that none can take "
            f"a row again with another episode: {instead}"
        )
    if tolerance.env_restarts:
        raise ToppoError(
            f"env_restarts is {tolerance.env_restarts}, but a vector environment is an object that cannot be made "
            f"anew: {instead}"
        )
