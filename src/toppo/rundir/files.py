"""Opening untrusted files of a run directory."""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from toppo.errors import BAD_DATA, CANNOT_CREATE, NO_INPUT, ToppoError

MAX_ENTRIES = 10_000
WANDB = "wandb"  # directory of W&B in a run directory
LINK_OF_WANDB = f"{WANDB}/*/logs/debug-core.log"  # to the log of its service, to which nobody writes through the link


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
    """Refuse a run directory that holds more than files and directories: a run would write through a link."""
    entries = (Path(folder, name) for folder, names, files in os.walk(root) for name in (*names, *files))
    for number, path in enumerate(entries):
        mode = path.lstat().st_mode
        expected = stat.S_ISREG(mode) or stat.S_ISDIR(mode)
        if not expected and not (stat.S_ISLNK(mode) and path.relative_to(root).match(LINK_OF_WANDB)):
            raise ToppoError(f"{path} is neither a file nor a directory: remove it", BAD_DATA)
        if number >= MAX_ENTRIES:
            raise ToppoError(f"{root} holds more than {MAX_ENTRIES} files: this is not a run directory", BAD_DATA)
