"""All workers of a run.  However many there are and wherever they live, the bytes are the same."""

import mmap
import os
import tempfile
from typing import NamedTuple

import numpy as np

from toppo.collect.actor import ActorFactory
from toppo.collect.episodes import OpenEpisode
from toppo.collect.faults import STRICT, FailedReplays, FaultPolicy, SurvivedFault, Truncations
from toppo.collect.hosts import Host, ProcessHost, last_called, open_host
from toppo.collect.pinning import cores_used_by
from toppo.collect.plan import Plan, RawBatch, batch_noise, buffers_in, buffers_size
from toppo.collect.worker import Task
from toppo.envs import EnvSource, Source, resolve
from toppo.errors import EnvironmentFault, NotFinite, ToppoError


class Call(NamedTuple):
    """A call of an environment while a batch is collected."""

    env: int
    episode: int
    row: int


class Pool:
    """Workers, each with some of the environments; a worker whose environment failed can be replaced.

    ``start`` may return before the batch is there; ``finish`` waits for it.
    """

    def __init__(
        self, plan: Plan, source: Source, workers: int, fault_policy: FaultPolicy, actor_factory: ActorFactory | None
    ) -> None:
        """Open ``workers`` processes, or work in this process if that is 0."""
        size = buffers_size(plan)
        self._memory = _shared_memory(size) if workers else None
        block = bytearray(size) if self._memory is None else memoryview(mmap.mmap(self._memory, 0))
        self.buffers = buffers_in(plan, block)
        self._plan = plan
        self._noise_of = -1  # the batch that the noise in the buffers is for
        cores = [[core] for core in cores_used_by(workers)] or [[]]
        self._tasks = [
            Task(
                plan=plan,
                indices=indices,
                source=source,
                buffers=self.buffers,
                fault_policy=fault_policy,
                actor_factory=actor_factory,
                cores=cores[w % len(cores)],
            )
            for w, indices in enumerate(_split(plan.n_envs, max(1, workers)))
        ]
        self._restarts_left = [0 if source.is_object else fault_policy.env_restarts] * plan.n_envs
        self._failed: set[Call] = set()  # in this batch
        self._truncations: Truncations = {}  # of this batch
        self._episodes: tuple[OpenEpisode, ...] = ()
        self._hosts: list[Host] = []
        try:
            for task in self._tasks:
                self._hosts.append(open_host(task, self._memory))
            self._wait_until_ready(self._hosts)
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
        call = self._last_call(w)
        if call and call in self._failed:
            self._truncations[call.env, call.episode] = call.row
            sentence = f"{fault}; the episode was ended before it"
            return SurvivedFault(env=call.env, row=call.row, sentence=sentence, exact=False)
        env = call.env if call else self._tasks[w].indices[0]
        if not self._restarts_left[env]:
            raise fault
        self._restarts_left[env] -= 1
        if call:
            self._failed.add(call)
        sentence = f"{fault}; the environment was replaced and the batch collected again"
        return SurvivedFault(env=env, row=call.row if call else 0, sentence=sentence, exact=True)

    def _replace(self, w: int) -> bool:
        """Let a new worker collect the batch in place of one that failed; False if a replay led elsewhere."""
        task = self._tasks[w]
        self._hosts[w].close()
        self.buffers.call[task.indices] = 0
        self._hosts[w] = host = open_host(task, self._memory)
        self._wait_until_ready([host])
        episodes = {i: self._episodes[i] for i in task.indices}
        given_up = {i for i, e in episodes.items() if self._truncations.get((i, e.started)) == 0}
        failed = host.restore({i: e.without_steps() if i in given_up else e for i, e in episodes.items()})
        host.start(self._truncations)
        return not failed

    def _last_call(self, w: int) -> Call | None:
        """Return the worker's last call of an environment in this batch, if there was one."""
        env = last_called(self._tasks[w])
        if env is None:
            return None
        return Call(env, int(self.buffers.started[env]), int(self.buffers.call[env]) % self._plan.steps)

    def _wait_until_ready(self, hosts: list[Host]) -> None:
        for host in hosts:
            if isinstance(host, ProcessHost):
                host.wait_until_ready()


def _split(n_envs: int, workers: int) -> list[list[int]]:
    """Split the environments into one consecutive stretch for each worker."""
    owners = [i * workers // n_envs for i in range(n_envs)]
    return [[i for i in range(n_envs) if owners[i] == w] for w in range(workers)]


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
    if source.is_object and not source.is_vector and plan.n_envs > 1:
        raise ToppoError(
            f"n_envs is {plan.n_envs}, but one environment object cannot be copied: give an id or a function"
        )
    if source.is_object and source.is_vector:
        _refuse_for_vectors(fault_policy)
    apart = actor_factory is None and source.address is not None
    return Pool(plan, source, min(workers, plan.n_envs) if apart else 0, fault_policy, actor_factory)


def _refuse_for_vectors(fault_policy: FaultPolicy) -> None:
    """Refuse settings that no vector environment can serve."""
    instead = "give the function that makes one environment instead"
    if fault_policy.on_nan == "truncate":
        raise ToppoError(
            "on_nan is 'truncate', but the environments of a vector environment step together, so that none can take "
            f"a row again with another episode: {instead}"
        )
    if fault_policy.env_restarts:
        raise ToppoError(
            f"env_restarts is {fault_policy.env_restarts}, but a vector environment is an object that cannot be made "
            f"again: {instead}"
        )
