"""Runs as processes on this machine.  Nothing listens on a port."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple, Protocol


class Ended(NamedTuple):
    """A run whose process has ended; ``fault`` is empty if it finished."""

    name: str
    fault: str


class Engine(Protocol):
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


class LocalEngine:
    """So many processes side by side."""

    def __init__(self, jobs: int) -> None:
        """No process yet."""
        self._jobs = jobs
        self._running: dict[str, tuple[subprocess.Popen[bytes], Path]] = {}

    def free(self) -> bool:
        """Is there a place left?"""
        return len(self._running) < self._jobs

    def start(self, name: str, order: dict[str, Any], log: Path) -> None:
        """Start a process."""
        self._running[name] = launch(order, log), log

    def ended(self) -> list[Ended]:
        """Look at every process."""
        gone = [name for name, (process, _) in self._running.items() if process.poll() is not None]
        return [Ended(name, fault_of(*self._running.pop(name))) for name in gone]

    def stop(self) -> None:
        """SIGTERM to every process."""
        for process, _ in self._running.values():
            process.send_signal(signal.SIGTERM)

    def close(self) -> None:
        """SIGKILL to every process that is left."""
        for process, _ in self._running.values():
            process.kill()
            process.wait()
        self._running.clear()


def launch(order: dict[str, Any], log: Path) -> subprocess.Popen[bytes]:
    """The process of a run.  It has a session of its own, so that Ctrl-C reaches it only through its study."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "toppo.studies.carry_out", json.dumps(order)],
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
    return f"{how}: {last_words(log)}"


def last_words(log: Path) -> str:
    """The last line that a process printed."""
    lines = log.read_text(errors="replace").split("\n") if log.is_file() else []
    return next((line.strip() for line in reversed(lines) if line.strip()), "it printed nothing")[:500]
