"""Runs as Ray tasks: the same orders, on the nodes of a cluster that share the study's directory."""

import logging
import os
import signal
from pathlib import Path
from typing import Any

from toppo.errors import ToppoError
from toppo.studies.local import Ended, fault_of, launch


class RayEngine:
    """Hands every run to Ray, which finds it a place.

    Ray retries what died with its worker or node, and such a run resumes from its last checkpoint; a run that failed
    by itself comes back as ended.
    """

    def __init__(self, address: str, retries: int, cpus: int) -> None:
        """Join the cluster at ``address``, or begin one on this machine if it is ``local``."""
        if os.environ.get("RAY_AUTH_MODE", "").lower() == "disabled":
            raise ToppoError(
                "RAY_AUTH_MODE is disabled, so that anybody who reaches the cluster may run code on it: "
                "unset it, or set it to token"
            )
        try:
            import ray
        except ImportError as error:
            raise ToppoError("--ray needs the package ray: pip install 'toppo[ray]'") from error
        self._ray = ray
        where: dict[str, Any] = {"include_dashboard": False} if address == "local" else {}
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **where)
        except (ConnectionError, RuntimeError, ValueError) as error:
            first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise ToppoError(f"no Ray cluster answers at {address!r}: {first}") from error
        self._task = ray.remote(num_cpus=cpus, max_retries=retries)(_carry_out)
        self._running: dict[Any, str] = {}

    def free(self) -> bool:
        """Ray keeps the queue."""
        return True

    def start(self, name: str, order: dict[str, Any], log: Path) -> None:
        """Hand in a task."""
        self._running[self._task.remote(order, str(log.resolve()))] = name

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

    def _fault(self, task: Any) -> str:
        try:
            return str(self._ray.get(task))
        except self._ray.exceptions.RayError as error:
            return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"


def _carry_out(order: dict[str, Any], log: str) -> str:
    """The same process as on one machine, so that nothing of Ray is in it; why it failed, if it did."""
    process = launch(order, Path(log))
    try:
        process.wait()
    except KeyboardInterrupt:  # what Ray's cancel does
        process.send_signal(signal.SIGTERM)
        process.wait()
    return fault_of(process, Path(log))
