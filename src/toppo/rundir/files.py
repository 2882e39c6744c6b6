"""Opening untrusted files of a run directory."""

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from toppo.errors import BAD_DATA, CANNOT_CREATE, NO_INPUT, ToppoError

MAX_ENTRIES = 10_000
WANDB = "wandb"  # directory of W&B in a run directory


def open_regular(path: Path, max_bytes: int) -> BinaryIO:
    """Open a file for reading; refuse links, pipes, devices and files above ``max_bytes``."""
    try:
        # Without O_NONBLOCK opening a pipe would wait for a writer.
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        raise ToppoError(f"{path} does not exist: is this a run directory?", NO_INPUT) from None
    except OSError as error:
        why = "it is a link" if error.errno == errno.ELOOP else error.strerror
        raise ToppoError(f"{path} cannot be read ({why})", BAD_DATA) from error
    found = os.fstat(fd)
    if stat.S_ISREG(found.st_mode) and found.st_size <= max_bytes:
        return os.fdopen(fd, "rb")
    os.close(fd)
    if not stat.S_ISREG(found.st_mode):
        raise ToppoError(f"{path} is not a regular file", BAD_DATA)
    raise ToppoError(f"{path} has {found.st_size} bytes, but at most {max_bytes} are read", BAD_DATA)


def refuse_to_write(path: Path) -> None:
    """Refuse to replace anything but a regular file."""
    if os.path.lexists(path) and not stat.S_ISREG(os.lstat(path).st_mode):
        raise ToppoError(f"{path} is not a regular file: remove it, or choose another --out", CANNOT_CREATE)


def refuse_strange_entries(root: Path) -> None:
    """Refuse a run directory that holds more than files and directories: a run would write through a link.

    What lies in WANDB is not looked at: W&B makes links there, and toppo writes only into what W&B has just made.
    """
    entries = (os.path.join(folder, name) for folder, names in _walk(root) for name in names)
    for number, path in enumerate(entries):
        mode = os.lstat(path).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise ToppoError(f"{path} is neither a file nor a directory: remove it", BAD_DATA)
        if number >= MAX_ENTRIES:
            raise ToppoError(f"{root} holds more than {MAX_ENTRIES} files: this is not a run directory", BAD_DATA)


def _walk(root: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield every directory below ``root`` but W&B's, with the names in it."""
    for folder, names, files in os.walk(root):
        yield folder, [*names, *files]
        if Path(folder) == root:
            names[:] = [name for name in names if name != WANDB]
