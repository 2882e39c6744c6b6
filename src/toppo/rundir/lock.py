"""One process per run directory."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from toppo.errors import CANNOT_CREATE, ToppoError


@contextmanager
def exclusive(lock: Path) -> Iterator[None]:
    """Hold the lock, or refuse with the process that has it.  The system frees it when its holder dies."""
    holder = lock.with_name(".holder.json")
    guard = FileLock(lock)
    try:
        guard.acquire(blocking=False)
    except Timeout:
        raise ToppoError(
            f"{lock.parent} has a run in progress{_who(holder)}: wait for it, stop it, or choose another --out",
            CANNOT_CREATE,
        ) from None
    except OSError as error:
        raise ToppoError(f"{lock.parent} cannot be written ({error.strerror})", CANNOT_CREATE) from error
    try:
        with suppress(OSError):  # a note for people; the lock holds without it
            holder.write_text(json.dumps({"pid": os.getpid()}))
        yield
    finally:
        with suppress(OSError):
            holder.unlink(missing_ok=True)
        guard.release()


def _who(holder: Path) -> str:
    try:
        return f", pid {int(json.loads(holder.read_text())['pid'])}"
    except (OSError, ValueError, KeyError, TypeError):
        return ""
