"""Opening files of a run directory that a stranger may have made."""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from toppo.errors import BAD_DATA, CANNOT_CREATE, NO_INPUT, ToppoError

MAX_ENTRIES = 10_000


def open_regular(path: Path, most_bytes: int) -> BinaryIO:
    """Open a file for reading; links, pipes, devices and files above ``most_bytes`` are refused."""
    try:
        # Without O_NONBLOCK the opening of a pipe would wait for somebody to write into it.
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        raise ToppoError(f"{path} does not exist: is this a run directory?", NO_INPUT) from None
    except OSError as error:
        why = "it is a link" if error.errno == errno.ELOOP else error.strerror
        raise ToppoError(f"{path} cannot be read ({why})", BAD_DATA) from error
    file, facts = os.fdopen(fd, "rb"), os.fstat(fd)
    if stat.S_ISREG(facts.st_mode) and facts.st_size <= most_bytes:
        return file
    file.close()
    if not stat.S_ISREG(facts.st_mode):
        raise ToppoError(f"{path} is not a regular file", BAD_DATA)
    raise ToppoError(f"{path} has {facts.st_size} bytes, but at most {most_bytes} are read", BAD_DATA)


def refuse_to_write(path: Path) -> None:
    """Refuse to write where there is anything but a regular file, or nothing yet."""
    if os.path.lexists(path) and not stat.S_ISREG(os.lstat(path).st_mode):
        raise ToppoError(f"{path} is not a regular file: remove it, or choose another --out", CANNOT_CREATE)


def refuse_strange_entries(root: Path) -> None:
    """Refuse a run directory with anything but files and directories: a link would lead what a run writes elsewhere."""
    entries = (os.path.join(folder, name) for folder, names, files in os.walk(root) for name in (*names, *files))
    for number, path in enumerate(entries):
        mode = os.lstat(path).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise ToppoError(f"{path} is neither a file nor a directory: remove it", BAD_DATA)
        if number >= MAX_ENTRIES:
            raise ToppoError(f"{root} holds more than {MAX_ENTRIES} files: this is no run directory", BAD_DATA)
