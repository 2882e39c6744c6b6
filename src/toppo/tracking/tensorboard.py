"""TensorBoard event files."""

import time
from collections.abc import Mapping
from pathlib import Path

from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto import event_pb2, summary_pb2

from toppo.rundir.layout import Layout
from toppo.tracking import Opening


class TensorBoard:
    """One event file per session.

    Events are written in this thread: the library's own writer has a thread, and waits for ever if a full disk ends it.
    """

    where = ""

    def __init__(self, opening: Opening) -> None:
        """Open a new event file; what an older one says beyond the step where the session begins is void."""
        folder = _folder(opening)
        # An event is on its way to the disk before its iteration is saved: older files lack nothing.
        self.last_step = opening.steps if folder.is_dir() and any(folder.iterdir()) else -1
        folder.mkdir(parents=True, exist_ok=True)
        self._writer = EventsWriter(str(folder / "events"), filename_suffix=f".{opening.steps}")
        # A reader drops what older files hold from the step of a START on; the point where we begin is valid.
        self._write(opening.steps + 1, session_log=event_pb2.SessionLog(status=event_pb2.SessionLog.START))

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Write the values of a step."""
        rows = [summary_pb2.Summary.Value(tag=name, simple_value=number) for name, number in values.items()]
        self._write(step, summary=summary_pb2.Summary(value=rows))

    def _write(self, step: int, **content: object) -> None:
        self._writer.write_event(event_pb2.Event(wall_time=time.time(), step=step, **content))
        self._writer.flush()

    def close(self) -> None:
        """Close the file."""
        self._writer.close()


def _folder(opening: Opening) -> Path:
    """The run's own folder; without a run directory, one under the project's name."""
    if opening.root is not None:
        return Layout(opening.root).tensorboard
    return Path(opening.project or "tensorboard") / opening.name
