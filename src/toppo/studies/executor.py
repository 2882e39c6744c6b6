"""Runs as processes on this machine.  Nothing listens on a port."""

import json
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from toppo.collect.pinning import available, pinned_to


class Ended(NamedTuple):
    """A run whose process has ended; ``fault`` is empty if it finished."""

    name: str
    fault: str


class Executor(Protocol):
    """What carries out runs.  It knows orders by name, and nothing of studies."""

    def free(self) -> bool:
        """May another run be handed in?"""

    def start(self, name: str, order: dict[str, Any], log: Path) -> None:
        """Hand in a run."""

    def ended(self) -> list[Ended]:
        """Runs that have ended since the last look."""

    def stop(self) -> None:
        """Ask all runs to save and leave."""

    def close(self) -> None:
        """End what is still there, at once."""


class Run(NamedTuple):
    """A process, where it prints, and its cores."""

    process: subprocess.Popen[bytes]
    log: Path
    cores: set[int]


class LocalExecutor:
    """So many processes side by side, each on cores of its own: threads that share them wait for each other."""

    def __init__(self, jobs: int) -> None:
        """No process yet."""
        self._places = shares(available(), jobs)
        self._running: dict[str, Run] = {}

    def free(self) -> bool:
        """Is there a place left?"""
        return bool(self._places)

    def start(self, name: str, order: dict[str, Any], log: Path) -> None:
        """Start a process."""
        cores = self._places.pop()
        with pinned_to(cores):
            self._running[name] = Run(launch(order, log), log, cores)

    def ended(self) -> list[Ended]:
        """Look at every process."""
        gone = {name: run for name, run in self._running.items() if run.process.poll() is not None}
        for name, run in gone.items():
            del self._running[name]
            self._places.append(run.cores)
        return [Ended(name, fault_of(run.process, run.log)) for name, run in gone.items()]

    def stop(self) -> None:
        """SIGTERM to every process."""
        for run in self._running.values():
            run.process.send_signal(signal.SIGTERM)

    def close(self) -> None:
        """SIGKILL to every process that is left."""
        for run in self._running.values():
            run.process.kill()
            run.process.wait()
        self._running.clear()


def shares(cores: list[int], jobs: int) -> list[set[int]]:
    """The cores of each of so many runs: as equal as can be, and shared only if there are fewer cores than runs."""
    bounds = [i * len(cores) // jobs for i in range(jobs + 1)]
    return [set(cores[a : max(b, a + 1)]) for a, b in pairwise(bounds)]


def launch(order: dict[str, Any], log: Path) -> subprocess.Popen[bytes]:
    """The process of a run.  It has a session of its own, so that Ctrl-C reaches it only through its study."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "toppo.studies.job_process", json.dumps(order)],
            stdin=subprocess.PIPE,  # it closes when this process dies, and then the run ends too
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def fault_of(process: subprocess.Popen[bytes], log: Path) -> str:
    """Why a process that has ended did not finish its run; empty if it did."""
    assert process.stdin is not None
    process.stdin.close()
    code = process.returncode
    if code == 0:
        return ""
    how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    return f"{how}: {last_log_line(log)}"


def last_log_line(log: Path) -> str:
    """The last line that a process printed."""
    lines = log.read_text(errors="replace").split("\n") if log.is_file() else []
    return next((line.strip() for line in reversed(lines) if line.strip()), "it printed nothing")[:500]
