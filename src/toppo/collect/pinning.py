"""The processor's cores: which of them this process may use, and who stays on which.

Where a run takes all of them, it has at any moment one thing to do for each.  Linux often puts two of them on one core
and finds out 4 ms later, at its next tick; an update takes 15.
"""

import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def available(thread: int = 0) -> list[int]:
    """The cores that a thread may use, 0 being the calling one."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(thread))
    return list(range(os.cpu_count() or 1))


def cores_used_by(workers: int) -> list[int]:
    """All cores, if there are several and no fewer workers; otherwise none."""
    cores = available()
    return cores if 1 < len(cores) <= workers else []


@contextmanager
def pinned_to(cores: Collection[int], threads: Iterable[int] = (0,)) -> Iterator[None]:
    """These threads, 0 being the calling one, and what they start on these cores; anywhere if there are none."""
    before = {thread: available(thread) for thread in threads} if cores else {}
    for thread in before:
        pin(cores, thread)
    try:
        yield
    finally:
        for thread, where in before.items():
            pin(where, thread)


def pin(cores: Collection[int], thread: int = 0) -> None:
    """Keep a thread, 0 being the calling one, on these cores; on any if there are none, or if the system cannot."""
    if cores and hasattr(os, "sched_setaffinity"):
        with suppress(OSError):
            os.sched_setaffinity(thread, cores)


def threads_of_xla() -> list[int]:
    """The threads to which XLA gives parts of a program, and at times the rest of it (Linux)."""
    found = []
    for task in Path("/proc/self/task").glob("*"):
        with suppress(OSError):  # a thread of somebody else's may have ended by now
            if (task / "comm").read_text().startswith("tf_XLAEigen"):
                found.append(int(task.name))
    return found


def use_batch_scheduling() -> None:
    """Let the calling process take nobody's core at the moment it is woken, if the system can (Linux)."""
    if hasattr(os, "SCHED_BATCH"):
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
