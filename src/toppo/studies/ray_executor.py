"""Runs as Ray tasks: the same jobs, on the nodes of a cluster that share the study's directory."""

import logging
import os
import signal
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from toppo.errors import ToppoError, first_line, install_command
from toppo.studies.executor import JobData, fault_of, launch


class RayExecutor:
    """Hand runs to Ray, which finds a place for each.

    A run that dies with its worker or node comes back as ended, like one that fails by itself: the study starts it
    again, and it resumes from its last checkpoint.
    """

    def __init__(self, address: str, cpus: int) -> None:
        """Join the cluster at ``address``, or start one on this machine if it is ``local``; a run takes ``cpus``."""
        _refuse_open_cluster(address)
        try:
            import ray
        except ImportError as error:
            raise ToppoError(f"--ray needs the package ray: {install_command('ray')}") from error
        self._ray = ray
        dashboard = False if address == "local" else None
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, include_dashboard=dashboard)
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
        """Tell whether to start another run: one more than there are places, so that a cluster can grow."""
        return len(self._running) <= self._places()

    def start(self, name: str, job: JobData, log: Path) -> None:
        """Start a task."""
        self._running[self._task.remote(job, str(log.resolve()))] = name

    def ended(self) -> dict[str, str]:
        """Return the fault of every run that has ended since the last call; it is empty if the run is finished."""
        if not self._running:
            return {}
        ready, _ = self._ray.wait(list(self._running), num_returns=len(self._running), timeout=0)
        return {self._running.pop(task): self._fault(task) for task in ready}

    def stop(self, names: Iterable[str]) -> None:
        """Interrupt the tasks of these runs as Ctrl-C would, so that they save."""
        chosen = set(names)
        for task, name in self._running.items():
            if name in chosen:
                self._ray.cancel(task)

    def close(self) -> None:
        """Leave the cluster, which ends the tasks of this study."""
        self._ray.shutdown()

    def _places(self) -> int:
        """Count the runs that the present nodes can hold."""
        cpus = [float(node["Resources"].get("CPU", 0.0)) for node in self._nodes() if node["Alive"]]
        return sum(int(n // self._cpus) for n in cpus)

    def _fault(self, task: Any) -> str:
        try:
            return str(self._ray.get(task))
        except self._ray.exceptions.RayError as error:
            return f"{type(error).__name__}: {first_line(error)}"


def _refuse_open_cluster(address: str) -> None:
    """Refuse a cluster without a token; the one that Ray starts for ``local`` has a token by itself."""
    mode = os.environ.get("RAY_AUTH_MODE", "").lower()
    if mode != "token" and (mode or address != "local"):
        raise ToppoError(
            f"RAY_AUTH_MODE is {mode or 'not set'}, so anybody who reaches the cluster can run code on it: "
            "set it to token here and on every node (see docs/studies.md)"
        )


def _run_job(job: JobData, log: str) -> str:
    """Run the same process as on one machine, without Ray in it; return why it failed, if it did."""
    process = launch(job, Path(log))
    try:
        process.wait()
    except KeyboardInterrupt:  # what Ray's cancel does
        process.send_signal(signal.SIGTERM)
        process.wait()
    return fault_of(process, Path(log))
