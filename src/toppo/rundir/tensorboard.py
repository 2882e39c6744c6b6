"""TensorBoard event files."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np


class Scalars:
    """One event file of numbers; a list is shown by its mean.

    Events are written in this thread: the library's own writer has a thread, and waits for ever if a full disk ends it.
    """

    def __init__(self, folder: Path, steps: int) -> None:
        """Open a new event file; what an older one says beyond ``steps`` is void."""
        from tensorboardX.event_file_writer import EventsWriter
        from tensorboardX.proto import event_pb2, summary_pb2

        self._event = event_pb2.Event
        self._summary = summary_pb2.Summary
        folder.mkdir(parents=True, exist_ok=True)
        self._writer = EventsWriter(str(folder / "events"), filename_suffix=f".{steps}")
        # A reader drops what older files hold from the step of a START on; the point at ``steps`` itself is valid.
        self._write(steps + 1, session_log=event_pb2.SessionLog(status=event_pb2.SessionLog.START))

    def add(self, values: Mapping[str, float | Sequence[float]], steps: int) -> None:
        """Write the values of one iteration."""
        numbers = {name: float(np.mean(value)) for name, value in values.items() if value != []}
        rows = [self._summary.Value(tag=name, simple_value=number) for name, number in numbers.items()]
        self._write(steps, summary=self._summary(value=rows))

    def _write(self, steps: int, **content: object) -> None:
        self._writer.write_event(self._event(wall_time=time.time(), step=steps, **content))
        self._writer.flush()

    def close(self) -> None:
        """Close the file."""
        self._writer.close()
