"""Messages between a run and its worker processes: a JSON header and raw arrays, over pipes.  No pickle."""

import json
import os
import struct
from typing import Any

import numpy as np


def send(fd: int, header: dict[str, Any], arrays: tuple[np.ndarray, ...] = ()) -> None:
    """Write one message."""
    meta = [(str(a.dtype), a.shape) for a in arrays]
    head = json.dumps({**header, "arrays": meta}).encode()
    payload = b"".join([struct.pack("<I", len(head)), head, *(np.ascontiguousarray(a).tobytes() for a in arrays)])
    view = memoryview(payload)
    while view:
        view = view[os.write(fd, view) :]


def receive(fd: int) -> tuple[dict[str, Any], tuple[np.ndarray, ...]]:
    """Read one message; EOFError when the other side has gone."""
    header = json.loads(_read(fd, struct.unpack("<I", _read(fd, 4))[0]))
    arrays = []
    for dtype, shape in header.pop("arrays"):
        count = int(np.prod(shape)) * np.dtype(dtype).itemsize
        arrays.append(np.frombuffer(_read(fd, count), dtype).reshape(shape))
    return header, tuple(arrays)


def _read(fd: int, count: int) -> bytes:
    parts = []
    while count:
        part = os.read(fd, min(count, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
