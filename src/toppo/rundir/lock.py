"""One process per run directory."""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from toppo.errors import CANNOT_CREATE, ToppoError
from toppo.rundir.files import open_regular

HOLDER = ".holder.json"  # beside the lock
MAX_NOTE_BYTES = 1000


@contextmanager
def exclusive(lock: Path) -> Iterator[None]:
    """Hold the lock, or refuse with the process that has it.  The system frees it when its holder dies."""
    holder = lock.with_name(HOLDER)
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
            holder.write_text(json.dumps({"pid": os.getpid(), "host": socket.gethostname()}))
        yield
    finally:
        with suppress(OSError):
            holder.unlink(missing_ok=True)
        guard.release()


def holder_lives(lock: Path) -> bool | None:
    """Tell whether the process that holds a lock lives; None if it left no note, or is on another machine."""
    try:
        pid, host = _holder(lock.with_name(HOLDER))
        if host != socket.gethostname() or pid < 1:
            return None
        os.kill(pid, 0)  # asks whether there is such a process
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    except (ToppoError, OSError, ValueError, KeyError, TypeError, OverflowError):
        return None
    return True


def _who(holder: Path) -> str:
    try:
        return f", pid {_holder(holder)[0]}"
    except (ToppoError, OSError, ValueError, KeyError, TypeError):
        return ""


def _holder(note: Path) -> tuple[int, str]:
    """Return pid and machine of the process that holds a lock, from an untrusted note."""
    with open_regular(note, MAX_NOTE_BYTES) as file:
        data = json.loads(file.read())
    return int(data["pid"]), str(data.get("host"))
