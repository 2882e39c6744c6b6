"""Runs as Ray tasks: the same jobs, on the nodes of a cluster that share the study's directory."""

import logging
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from toppo.errors import ToppoError, first_line
from toppo.studies.executor import Ended, JobData, fault_of, launch


class RayExecutor:
    """Hands runs to Ray, which finds each a place.

    A run that died with its worker or node comes back as ended, like one that failed by itself: the study counts both
    and hands it in again, and it resumes from its last checkpoint.
    """

    def __init__(self, address: str, cpus: int) -> None:
        """Join the cluster at ``address``, or begin one on this machine if it is ``local``; a run takes ``cpus``."""
        _refuse_open_cluster(address)
        try:
            import ray
        except ImportError as error:
            raise ToppoError("--ray needs the package ray: pip install 'toppo[ray]'") from error
        self._ray = ray
        where: dict[str, Any] = {"include_dashboard": False} if address == "local" else {}
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **where)
        except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            raise ToppoError(f"no Ray cluster answers at {address!r}: {first_line(error)}") from error
        self._task = ray.remote(num_cpus=cpus, max_retries=0)(_run_job)
        self._cpus = cpus
        self._nodes: Callable[[], list[dict[str, Any]]] = ray.nodes
        self._running: dict[Any, str] = {}
        if not self._places():
            raise ToppoError(
                f"a run takes {cpus} processors (--workers and one more), and no node of the cluster has so many: "
                "lower --workers or add a larger node"
            )

    def free(self) -> bool:
        """Is there a place left?  One run more than there are, so that a cluster that grows on demand sees it."""
        return len(self._running) <= self._places()

    def start(self, name: str, job: JobData, log: Path) -> None:
        """Hand in a task."""
        self._running[self._task.remote(job, str(log.resolve()))] = name

    def ended(self) -> list[Ended]:
        """Tasks that have ended since the last look."""
        if not self._running:
            return []
        ready, _ = self._ray.wait(list(self._running), num_returns=len(self._running), timeout=0)
        return [Ended(self._running.pop(task), self._fault(task)) for task in ready]

    def stop(self) -> None:
        """Ray interrupts the tasks as Ctrl-C would, and they save."""
        for task in self._running:
            self._ray.cancel(task)

    def close(self) -> None:
        """Leave the cluster; what this study still has there ends with it."""
        self._ray.shutdown()

    def _places(self) -> int:
        """How many runs the nodes can hold that are there now."""
        alive = [node["Resources"].get("CPU", 0.0) for node in self._nodes() if node["Alive"]]
        return sum(int(cpus // self._cpus) for cpus in alive)

    def _fault(self, task: Any) -> str:
        try:
            return str(self._ray.get(task))
        except self._ray.exceptions.RayError as error:
            return f"{type(error).__name__}: {first_line(error)}"


def _refuse_open_cluster(address: str) -> None:
    """A cluster that Ray begins for us asks for a token by itself; any other only where all its nodes are told to."""
    mode = os.environ.get("RAY_AUTH_MODE", "").lower()
    if mode != "token" and (mode or address != "local"):
        raise ToppoError(
            f"RAY_AUTH_MODE is {mode or 'not set'}, so that anybody who reaches the cluster may run code on it: "
            "set it to token here and on every node (docs/studies.md says how)"
        )


def _run_job(job: JobData, log: str) -> str:
    """The same process as on one machine, so that nothing of Ray is in it; why it failed, if it did."""
    process = launch(job, Path(log))
    try:
        process.wait()
    except KeyboardInterrupt:  # what Ray's cancel does
        process.send_signal(signal.SIGTERM)
        process.wait()
    return fault_of(process, Path(log))
