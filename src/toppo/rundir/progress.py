"""How far a run is, read while another process may be training it.  The directory is untrusted."""

import json
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from toppo.errors import ToppoError
from toppo.rundir.files import open_regular
from toppo.rundir.jsonl import MAX_LOG_BYTES, Row
from toppo.rundir.layout import Layout, read_json
from toppo.rundir.lock import holder_lives

TAIL_BYTES = 16_384  # a line of timing has a few hundred, one of metrics a thousand
SILENT_SECONDS = 600.0  # a run on another machine that has logged nothing for so long has been interrupted
STOPPED_BY = "stopped by "  # opens the message of a run that a callback stopped
STATES = ("running", "stopped", "finished", "failed")


class Progress(NamedTuple):
    """How far a run is."""

    state: str  # one of STATES, "starting", or "interrupted" if its process has gone without a word
    steps: int
    message: str  # why it failed, or what stopped it


def progress_of(root: Path) -> Progress:
    """Return how far a run is, as far as its files tell."""
    layout = Layout(root)
    steps = steps_of(layout.timing)
    try:
        status = read_json(layout.status)
    except ToppoError:
        status = {}
    known = status if isinstance(status, dict) else {}
    state = known.get("state") if known.get("state") in STATES else "starting"
    if state in ("running", "starting") and not _lives(layout):
        state = "interrupted"
    return Progress(state=str(state), steps=steps, message=str(known.get("message") or ""))


def steps_of(timing: Path) -> int:
    """Return the number of steps that a run has done: those of the last line in its log of times."""
    with suppress(ValueError, KeyError, TypeError, OverflowError):
        return int(last_row(timing)["time/total_timesteps"])
    return 0


def last_row(log: Path) -> Row:
    """Return the last complete row of a log; one without entries if there is none."""
    try:
        with open_regular(log, MAX_LOG_BYTES) as file:
            file.seek(max(0, log.stat().st_size - TAIL_BYTES))
            lines = file.read(TAIL_BYTES).splitlines()
    except (ToppoError, FileNotFoundError):
        return {}
    for line in reversed(lines[1:]):  # the first line may be cut, or is the header
        with suppress(ValueError, RecursionError):  # the run is writing this line now
            row = json.loads(line)
            if isinstance(row, dict):
                return row
    return {}


def _lives(layout: Layout) -> bool:
    """Tell whether a process trains here: by its own note, or, if it is on another machine, by what it wrote last."""
    lives = holder_lives(layout.lock)
    if lives is not None:
        return lives
    written = max((p.stat().st_mtime for p in (layout.timing, layout.spec) if p.is_file()), default=0.0)
    return time.time() - written < SILENT_SECONDS
