"""A process of this package at the other end of two pipes, and the messages between it and the run.

A message is a JSON header and raw arrays, without pickle.  The process may hang, crash or be killed.
"""

import json
import os
import select
import signal
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from toppo.errors import BAD_DATA, EnvironmentFault, NotFinite, ToppoError

POLL_SECONDS = 0.25  # between two checks of a process that does not answer

Arrays = Mapping[str, np.ndarray]
NO_ARRAYS: Arrays = {}


def send(
    fd: int, header: Mapping[str, object], arrays: Arrays = NO_ARRAYS, before_write: Callable[[], None] = lambda: None
) -> None:
    """Write one message; ``before_write`` may wait, and raise."""
    meta = {name: (str(a.dtype), a.shape) for name, a in arrays.items()}
    head = json.dumps({**header, "arrays": meta}).encode()
    view = memoryview(b"".join([struct.pack("<I", len(head)), head, *(a.tobytes() for a in arrays.values())]))
    while view:
        before_write()
        view = view[os.write(fd, view[: select.PIPE_BUF]) :]  # a pipe that is ready takes so many bytes at once


def receive(fd: int, before_read: Callable[[], None] = lambda: None) -> tuple[dict[str, Any], Arrays]:
    """Read one message; raise EOFError when the other side has gone.  ``before_read`` may wait, and raise as well."""

    def read(count: int) -> bytes:
        parts = []
        while count:
            before_read()
            part = os.read(fd, min(count, 1 << 20))
            if not part:
                raise EOFError
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    header = json.loads(read(struct.unpack("<I", read(4))[0]))
    arrays = {}
    for name, (dtype, shape) in header.pop("arrays").items():
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        arrays[name] = np.frombuffer(read(size), dtype).reshape(shape)
    return header, arrays


class Child:
    """Runs ``toppo.collect.worker_process``, which makes environments and calls them."""

    def __init__(self, *shared: int) -> None:
        """Start the process; ``shared`` are file descriptors that it gets in addition to its pipes."""
        commands, self._commands = os.pipe()
        self._replies, replies = os.pipe()
        path = os.pathsep.join(p or os.getcwd() for p in sys.path)
        self._process = subprocess.Popen(
            # -P: not from the directory that it happens to be started in, but from where this process imports.
            [sys.executable, "-P", "-m", "toppo.collect.worker_process", *map(str, (commands, replies, *shared))],
            pass_fds=(commands, replies, *shared),
            stdin=subprocess.DEVNULL,
            # Two threads of BLAS for matrices of 64 x 64 only hinder each other.
            env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )
        os.close(commands)
        os.close(replies)
        self.pid = self._process.pid

    def send(self, header: Mapping[str, object], arrays: Arrays = NO_ARRAYS) -> None:
        """Send a message."""
        with suppress(BrokenPipeError, EOFError):  # it has died; waiting for its answer tells how
            send(self._commands, header, arrays, lambda: self._wait_for([], [self._commands]))

    def receive(
        self,
        fault: Callable[[str], EnvironmentFault],
        timeout: float = float("inf"),
        progress: Callable[[], object] = lambda: None,
    ) -> dict[str, Any]:
        """Return its answer, or raise what went wrong there; ``fault`` makes that of how the process ended.

        A process without an answer, whose ``progress`` is the same for ``timeout`` seconds, is ended.  Polls are
        counted and not seconds, so that a run that was suspended finds no fault with its workers.
        """
        pause = min(POLL_SECONDS, timeout / 4)
        quiet_polls = 0
        before = progress()
        worker = f"its worker process (pid {self.pid})"
        while not select.select([self._replies], [], [], pause)[0] and self._process.poll() is None:
            now = progress()
            quiet_polls = quiet_polls + 1 if now == before else 0
            before = now
            if quiet_polls * pause >= timeout:
                self._process.kill()
                self._process.wait()
                raise fault(f"the call did not return within {timeout:g} s (--env-timeout), and {worker} was ended")
        try:
            answer, _ = receive(self._replies, lambda: self._wait_for([self._replies], []))
        except EOFError:
            code = self._process.wait()
            how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
            raise fault(f"{worker} {how}") from None
        if answer["ok"]:
            return answer
        if answer["code"] != BAD_DATA:
            raise ToppoError(answer["message"], answer["code"])
        raise (NotFinite if answer["not_finite"] else EnvironmentFault)(answer["message"], answer["details"])

    def _wait_for(self, readable: list[int], writable: list[int]) -> None:
        """Wait until a pipe is ready; raise EOFError if the process has died.

        The end of a pipe does not always tell that: a child of the process may keep it open.
        """
        while not any(select.select(readable, writable, [], POLL_SECONDS)):
            if self._process.poll() is not None and not any(select.select(readable, writable, [], 0)):
                raise EOFError

    def close(self) -> None:
        """Close the pipes, which ends it, and wait for that."""
        os.close(self._commands)
        os.close(self._replies)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=2)
        self._process.kill()
        self._process.wait()
