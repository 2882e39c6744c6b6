"""Real processes that start quickly: children of a parent that has imported everything and computed nothing."""

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import toppo.cli.train  # noqa: F401 - imported once, for all children
from toppo.cli import main
from toppo.rundir.checkpoint import newest_checkpoint


class Ended(NamedTuple):
    """How a child ended."""

    code: int  # negative for a signal
    output: str
    cpu: float  # seconds
    peak_mb: float  # resident memory


class Child:
    """A process that does ``work``; its output goes to a file."""

    def __init__(self, work: Callable[[], None], log: Path) -> None:
        """Fork: nothing here has touched JAX's devices yet, so the child is as good as a fresh process."""
        self.log = log
        self._ended = None
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.setpgrp()
            fd = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
            os.dup2(fd, 1)
            os.dup2(fd, 2)
            code = 1
            try:
                work()
                code = 0
            except SystemExit as leave:
                code = leave.code if isinstance(leave.code, int) else 0 if leave.code is None else 1
            except BaseException:
                import traceback

                traceback.print_exc()
            finally:
                sys.stdout.flush()
                os._exit(code)

    def poll(self) -> Ended | None:
        """How it ended, or None while it runs."""
        return self._reap(os.WNOHANG)

    def wait(self, seconds: float = 900) -> Ended:
        """Wait for its end."""
        until = time.monotonic() + seconds
        while (ended := self.poll()) is None:
            if time.monotonic() > until:
                self.signal(signal.SIGKILL)
            time.sleep(0.005)
        return ended

    def signal(self, number: int) -> None:
        """Send it a signal."""
        if self._ended is None:
            os.kill(self.pid, number)

    def _reap(self, flags: int) -> Ended | None:
        if self._ended is None:
            pid, status, usage = os.wait4(self.pid, flags)
            if pid:
                code = os.waitstatus_to_exitcode(status)
                seconds = usage.ru_utime + usage.ru_stime
                self._ended = Ended(code, self.log.read_text(errors="replace"), seconds, usage.ru_maxrss / 1024)
        return self._ended


def command(log: Path, *arguments: object) -> Child:
    """`toppo ...` as a process."""
    return Child(lambda: main([str(a) for a in arguments]), log)


def content(root: Path) -> dict[str, Any]:
    """All that must be the same, however a run came about."""
    checkpoint, damaged = newest_checkpoint(root / "checkpoint")
    assert damaged == [], damaged
    files = {name: (root / name).read_bytes() for name in ("spec.json", "metrics.jsonl", "episodes.jsonl")}
    arrays = {name: (a.dtype.str, a.shape, a.tobytes()) for name, a in checkpoint.arrays.items()}
    status = json.loads((root / "status.json").read_text())
    return {**files, **arrays, "state": checkpoint.facts["state"], "status": status}


def lines(path: Path) -> int:
    """Lines of a file that may not be there yet."""
    try:
        return path.read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0
