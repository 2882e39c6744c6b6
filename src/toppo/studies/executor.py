"""Runs as processes on this machine.  Nothing listens on a port."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, TypedDict

from toppo.collect.pinning import available, pinned_to


class JobData(TypedDict):
    """All that a process needs to bring one run to its end, as JSON."""

    spec: dict[str, object]
    root: str  # absolute, like ``curve``: an environment may change the working directory
    curve: str
    workers: int
    checkpoint_every: int
    evaluate_every: int


class RunningProcess(NamedTuple):
    """A process, its log and its cores."""

    process: subprocess.Popen[bytes]
    log: Path
    cores: set[int]


class LocalExecutor:
    """A fixed number of processes side by side, each on its own cores: threads that share cores wait for each other."""

    def __init__(self, jobs: int) -> None:
        self._places = cores_per_job(available(), jobs)
        self._running: dict[str, RunningProcess] = {}

    def free(self) -> bool:
        """Tell whether another run may start."""
        return bool(self._places)

    def start(self, name: str, job: JobData, log: Path) -> None:
        """Start a run in a process on cores of its own."""
        cores = self._places.pop()
        with pinned_to(cores):
            self._running[name] = RunningProcess(launch(job, log), log, cores)

    def ended(self) -> dict[str, str]:
        """Return the fault of every run that has ended since the last call; it is empty if the run is finished."""
        gone = {name: run for name, run in self._running.items() if run.process.poll() is not None}
        for name, run in gone.items():
            del self._running[name]
            self._places.append(run.cores)
        return {name: fault_of(run.process, run.log) for name, run in gone.items()}

    def stop(self, names: Iterable[str]) -> None:
        """Send SIGTERM to the processes of these runs, so that they save and leave."""
        for name in names:
            self._running[name].process.send_signal(signal.SIGTERM)

    def close(self) -> None:
        """Send SIGKILL to every process that is left."""
        for run in self._running.values():
            run.process.kill()
            run.process.wait()
        self._running.clear()


def cores_per_job(cores: list[int], jobs: int) -> list[set[int]]:
    """Divide the cores as equally as possible; jobs share a core only if there are fewer cores than jobs."""
    bounds = [i * len(cores) // jobs for i in range(jobs + 1)]
    return [set(cores[a : max(b, a + 1)]) for a, b in pairwise(bounds)]


def launch(job: JobData, log: Path) -> subprocess.Popen[bytes]:
    """Start the process of a run in its own session, so that Ctrl-C reaches it only through its study."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "toppo.studies.job_process", json.dumps(job)],
            stdin=subprocess.PIPE,  # it closes when this process dies, and then the run ends too
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def fault_of(process: subprocess.Popen[bytes], log: Path) -> str:
    """Return why an ended process did not finish its run, or an empty string if it did."""
    assert process.stdin is not None
    process.stdin.close()
    code = process.returncode
    if code == 0:
        return ""
    end = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    lines = log.read_text(errors="replace").split("\n") if log.is_file() else []
    last_log_line = next((line.strip() for line in reversed(lines) if line.strip()), "it printed nothing")
    return f"{end}: {last_log_line[:500]}"
