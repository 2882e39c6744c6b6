"""Where workers live: in this process, or one process each with shared memory.  The bytes are the same."""

import mmap
import os
import subprocess
import sys
import tempfile
from typing import Protocol

import gymnasium as gym
import numpy as np

from toppo.collect.wire import receive, send
from toppo.collect.worker import Buffers, Plan, Worker, buffers_in, buffers_size
from toppo.envs import EnvSource
from toppo.envs.make import factory_path, known_everywhere
from toppo.errors import EnvironmentFault, ToppoError
from toppo.types import OpenEpisode


class Pool(Protocol):
    """All workers of a run.  ``start`` may return before the batch is there; ``finish`` waits for it."""

    buffers: Buffers

    def start(self, batch: int) -> None:
        """Begin to collect batch number ``batch`` with the weights that lie in the buffers."""

    def finish(self) -> None:
        """Wait until the batch that was started lies in the buffers."""

    def restore(self, episodes: tuple[OpenEpisode, ...]) -> list[bool]:
        """Bring the environments back to where they were; False for one that could not be."""

    def close(self) -> None:
        """End the workers."""


class LocalPool:
    """One worker in this process."""

    def __init__(self, plan: Plan, source: EnvSource) -> None:
        """Make all environments here."""
        self.buffers = buffers_in(plan, bytearray(buffers_size(plan)))
        self._worker = Worker(plan, range(plan.envs), source, self.buffers)
        self._batch: int | None = None

    def start(self, batch: int) -> None:
        """Remember the batch: there is nobody to collect it while this process does something else."""
        self._batch = batch

    def finish(self) -> None:
        """Collect."""
        assert self._batch is not None
        self._worker.collect(self._batch)
        self._batch = None

    def restore(self, episodes: tuple[OpenEpisode, ...]) -> list[bool]:
        """Replay every environment."""
        return [self._worker.restore(i, episode) for i, episode in enumerate(episodes)]

    def close(self) -> None:
        """Close the environments."""
        self._worker.close()


class ProcessPool:
    """Workers in processes of their own; each has a stretch of the environments."""

    def __init__(self, plan: Plan, source: EnvSource, workers: int) -> None:
        """Start the processes and wait until all have their environments."""
        fd = _shared_memory(buffers_size(plan))
        self._memory = mmap.mmap(fd, 0)
        self.buffers = buffers_in(plan, memoryview(self._memory))
        self._owner = {i: i * workers // plan.envs for i in range(plan.envs)}
        self._workers = [_WorkerProcess(fd) for _ in range(workers)]
        os.close(fd)
        where = (
            {"id": source, "factory": None}
            if isinstance(source, str)
            else {"id": None, "factory": factory_path(source)}
        )
        for w, worker in enumerate(self._workers):
            indices = [i for i, owner in self._owner.items() if owner == w]
            worker.send({"plan": plan._asdict(), "indices": indices, **where})
        try:
            self.finish()
        except BaseException:
            self.close()
            raise

    def start(self, batch: int) -> None:
        """Tell every worker to collect."""
        for worker in self._workers:
            worker.send({"do": "collect", "batch": batch})

    def finish(self) -> None:
        """Wait for every worker's answer."""
        for worker in self._workers:
            worker.reply()

    def restore(self, episodes: tuple[OpenEpisode, ...]) -> list[bool]:
        """Let every worker replay its environments."""
        exact = []
        for i, episode in enumerate(episodes):
            worker = self._workers[self._owner[i]]
            message = {"do": "restore", "env": i, "started": episode.started}
            worker.send(message, (episode.actions, episode.rewards, episode.obs))
            exact.append(bool(worker.reply()["exact"]))
        return exact

    def close(self) -> None:
        """Close the pipes, which ends the workers, and wait for them."""
        for worker in self._workers:
            worker.close()


class _WorkerProcess:
    def __init__(self, memory: int) -> None:
        commands, self._commands = os.pipe()
        self._replies, replies = os.pipe()
        # Two threads of BLAS for matrices of 64 x 64 only get into each other's way.
        env = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "toppo.collect.process", str(commands), str(replies), str(memory)],
            pass_fds=(commands, replies, memory),
            stdin=subprocess.DEVNULL,
            env=env | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        )
        os.close(commands)
        os.close(replies)

    def send(self, header: dict[str, object], arrays: tuple[np.ndarray, ...] = ()) -> None:
        try:
            send(self._commands, header, arrays)
        except BrokenPipeError:
            self.reply()

    def reply(self) -> dict[str, object]:
        try:
            answer, _ = receive(self._replies)
        except EOFError:
            raise EnvironmentFault(
                f"a worker process (pid {self._process.pid}) ended with {self._how_it_ended()} while it was collecting"
            ) from None
        if not answer["ok"]:
            raise EnvironmentFault(str(answer["message"]))
        return answer

    def _how_it_ended(self) -> str:
        code = self._process.wait()
        return f"signal {-code}" if code < 0 else f"exit code {code}"

    def close(self) -> None:
        os.close(self._commands)
        os.close(self._replies)
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _shared_memory(size: int) -> int:
    """A file descriptor of nameless memory: it vanishes with its last user, however that ends."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("toppo")
    else:
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    os.truncate(fd, size)
    return fd


def open_pool(plan: Plan, source: EnvSource, workers: int) -> Pool:
    """``workers`` processes, or this process if that is 0 or the environment cannot be made in another."""
    if isinstance(source, gym.Env) and plan.envs > 1:
        raise ToppoError(f"envs is {plan.envs}, but one environment object cannot be copied: give an id or a function")
    elsewhere = known_everywhere(source) if isinstance(source, str) else factory_path(source) is not None
    if workers == 0 or not elsewhere:
        return LocalPool(plan, source)
    return ProcessPool(plan, source, min(workers, plan.envs))
