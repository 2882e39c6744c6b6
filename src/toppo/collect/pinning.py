"""The only module that asks and sets which cores a thread may use; ``learn/critic.py`` says who is pinned where.

In all functions thread 0 is the calling one.
"""

import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def available(thread: int = 0) -> list[int]:
    """Return the cores that a thread may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(thread))
    return list(range(os.cpu_count() or 1))


def cores_used_by(workers: int) -> list[int]:
    """Return all cores if there are several and at least as many workers; otherwise none."""
    cores = available()
    return cores if 1 < len(cores) <= workers else []


@contextmanager
def pinned_to(cores: Collection[int], threads: Iterable[int] = (0,)) -> Iterator[None]:
    """Pin these threads, and what they start, while the block runs; do nothing if there are no cores."""
    before = {thread: available(thread) for thread in threads} if cores else {}
    for thread in before:
        pin(cores, thread)
    try:
        yield
    finally:
        for thread, where in before.items():
            pin(where, thread)


def pin(cores: Collection[int], thread: int = 0) -> None:
    """Keep a thread on these cores; do nothing if there are none, or if the system cannot."""
    if cores and hasattr(os, "sched_setaffinity"):
        with suppress(OSError):
            os.sched_setaffinity(thread, cores)


def threads_of_xla() -> list[int]:
    """Return the threads that XLA runs parts of a program in (Linux)."""
    found = []
    for task in Path("/proc/self/task").glob("*"):
        with suppress(OSError):  # another thread may have ended by now
            if (task / "comm").read_text().startswith("tf_XLAEigen"):
                found.append(int(task.name))
    return found


def use_batch_scheduling() -> None:
    """Keep the calling process from preempting another when it wakes, if the system can (Linux)."""
    if hasattr(os, "SCHED_BATCH"):
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
