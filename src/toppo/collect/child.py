"""A process of this package at the other end of two pipes; it may hang, crash or be killed."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from toppo.collect.wire import receive, send
from toppo.envs import EnvSource
from toppo.envs.source import factory_path, known_everywhere
from toppo.envs.world import is_vector
from toppo.errors import BAD_DATA, EnvironmentFault, NotFinite, ToppoError


class Child:
    """``toppo.collect.worker_process``, which makes environments and calls them."""

    def __init__(self, *shared: int) -> None:
        """Start the process; ``shared`` are file descriptors that it gets besides its pipes."""
        commands, self._commands = os.pipe()
        self._replies, replies = os.pipe()
        # Two threads of BLAS for matrices of 64 x 64 only get into each other's way.
        env = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            # -P: not from the directory that it happens to be started in, but from where this process imports.
            [sys.executable, "-P", "-m", "toppo.collect.worker_process", *map(str, (commands, replies, *shared))],
            pass_fds=(commands, replies, *shared),
            stdin=subprocess.DEVNULL,
            env=env | {"PYTHONPATH": os.pathsep.join(p or os.getcwd() for p in sys.path)},
        )
        os.close(commands)
        os.close(replies)
        self.pid = self._process.pid

    def send(self, header: dict[str, object], arrays: tuple[np.ndarray, ...] = ()) -> None:
        """Send a message."""
        try:
            send(self._commands, header, arrays)
        except BrokenPipeError:
            return  # it has died; waiting for its answer tells how

    def answers_within(self, seconds: float | None) -> bool:
        """Is there an answer, or the news of its death, within so many seconds?"""
        return bool(select.select([self._replies], [], [], seconds)[0])

    def receive(self, fault: Callable[[str], EnvironmentFault]) -> dict[str, Any]:
        """Its answer, or what went wrong there; ``fault`` makes one from how the process ended."""
        try:
            answer, _ = receive(self._replies)
        except EOFError:
            raise fault(f"its worker process (pid {self.pid}) {self._how_it_ended()}") from None
        if answer["ok"]:
            return answer
        if answer["code"] != BAD_DATA:
            raise ToppoError(answer["message"], answer["code"])
        raise (NotFinite if answer["not_finite"] else EnvironmentFault)(answer["message"], answer["details"])

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Close the pipes, which ends it, and wait for that."""
        os.close(self._commands)
        os.close(self._replies)
        try:
            self._process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            self.kill()

    def _how_it_ended(self) -> str:
        code = self._process.wait()
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


def can_live_elsewhere(source: EnvSource) -> bool:
    """Can another process make such an environment?"""
    elsewhere = known_everywhere(source) if isinstance(source, str) else factory_path(source) is not None
    return elsewhere and not is_vector(source)


def address(source: EnvSource) -> dict[str, object]:
    """What another process needs to make the environment."""
    return {"id": source} if isinstance(source, str) else {"factory": factory_path(source)}


def too_long(timeout: float, child: Child) -> str:
    """The end of a process whose environment does not return."""
    ended = f"its worker process (pid {child.pid}) was ended"
    return f"the call did not return within {timeout:g} s (--env-timeout), and {ended}"
