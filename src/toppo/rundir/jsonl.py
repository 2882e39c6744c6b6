"""Append-only JSON lines that can be cut back to where a checkpoint was taken."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from toppo.errors import BAD_DATA, ToppoError
from toppo.rundir.files import open_regular

SCHEMA = 1
MAX_LOG_BYTES = 2_000_000_000
MAX_LINE_BYTES = 1_000_000
MAX_BYTES_PER_LOOK = 20_000_000

Row = Mapping[str, Any]  # JSON data


class JsonLines:
    """One log file.  Its first line is a header with the schema version."""

    def __init__(self, path: Path, offset: int | None = None) -> None:
        """Open a new file, or an old one cut back to ``offset`` bytes."""
        self.path = path
        size = path.stat().st_size if path.is_file() else 0
        if offset is not None and size < offset:
            raise ToppoError(f"{path} has {size} bytes, but had {offset} at the checkpoint: it was damaged", BAD_DATA)
        self._file = path.open("ab")
        if offset is None:
            self.append({"schema": SCHEMA})
        else:
            os.truncate(path, offset)

    def append(self, row: Mapping[str, object]) -> None:
        """Write one line; it is in the system's hands when this returns."""
        self._file.write(json.dumps(row, separators=(",", ":"), allow_nan=False).encode() + b"\n")
        self._file.flush()

    def offset(self) -> int:
        """Bytes so far, safe on the disk."""
        os.fsync(self._file.fileno())
        return self.path.stat().st_size

    def close(self) -> None:
        """Close the file; if the disk is full the last lines are lost, which no checkpoint counts."""
        with suppress(OSError):
            self._file.close()


def read_lines(path: Path) -> Iterator[Row]:
    """The rows of a log without its header; lines that are not rows are skipped."""
    return (row for row in rows_and_gaps(path) if row is not None)


def rows_and_gaps(path: Path) -> Iterator[Row | None]:
    """The rows of a log without its header, with None for a line that is not a row; a torn last line is dropped."""
    with open_regular(path, MAX_LOG_BYTES) as file:
        file.readline(MAX_LINE_BYTES)
        while line := file.readline(MAX_LINE_BYTES):
            row = None
            with suppress(ValueError, RecursionError):
                row = json.loads(line)
            if isinstance(row, dict):
                yield row
            elif line.endswith(b"\n"):  # otherwise it is being written at this moment
                yield None


class LogTail:
    """Reads what an untrusted log has gained since the last look."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0
        self._last = b""  # the line before the offset

    def read(self) -> tuple[list[Row], bool]:
        """Return the new rows, and whether they begin with the first row again because the log was cut back."""
        with open_regular(self.path, MAX_LOG_BYTES) as file:
            file.seek(self._offset - len(self._last))
            cut_back = file.read(len(self._last)) != self._last
            if cut_back:
                self._offset = 0
                self._last = b""
            file.seek(self._offset)
            return list(self._rows(file)), cut_back

    def _rows(self, file: BinaryIO) -> Iterator[Row]:
        first = self._offset
        while self._offset - first < MAX_BYTES_PER_LOOK and (line := file.readline(MAX_LINE_BYTES)):
            if not line.endswith(b"\n") and len(line) < MAX_LINE_BYTES:
                return  # it is being written at this moment
            self._offset += len(line)
            self._last = line
            with suppress(ValueError, RecursionError):
                row = json.loads(line)
                if isinstance(row, dict):
                    yield row
