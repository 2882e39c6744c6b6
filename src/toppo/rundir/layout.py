"""Where things lie in a run directory, and how small files are replaced at once."""

import json
import os
from pathlib import Path
from typing import Any

from toppo.errors import BAD_DATA, ToppoError
from toppo.rundir.files import open_regular

MAX_JSON_BYTES = 1_000_000


class Layout:
    """The paths of one run."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.spec = root / "spec.json"  # all that defines the run
        self.versions = root / "versions.json"  # of the packages that ran it
        self.metrics = root / "metrics.jsonl"  # one line per iteration, without times
        self.episodes = root / "episodes.jsonl"  # one line per finished episode, without times
        self.timing = root / "timing.jsonl"  # one line per iteration: seconds and speeds
        self.evaluations = root / "evaluations.jsonl"  # one line per test of the policy during training
        self.faults = root / "faults.jsonl"  # one line per fault of an environment that the run survived
        self.fault = root / "fault.json"  # all that is known of the fault that ended the run
        self.status = root / "status.json"  # running, stopped, finished or failed
        self.checkpoints = root / "checkpoint"  # the two newest
        self.best = root / "best"  # the agent of the best test
        self.tensorboard = root / "tensorboard"  # event files
        self.tracking = root / "tracking.json"  # by which name trackers know the run
        self.lock = root / ".lock"  # held while a process trains here


def write_json(path: Path, data: object) -> None:
    """Replace a JSON file at once."""
    write_bytes(path, json.dumps(data, indent=1, sort_keys=True, allow_nan=False).encode() + b"\n")


def write_bytes(path: Path, data: bytes) -> None:
    """Replace a file at once: readers see the old one or the new one, and no link is written through."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        temporary.unlink(missing_ok=True)  # left by a kill, or an untrusted link that leads elsewhere
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def read_json(path: Path) -> Any:
    """Read an untrusted JSON file."""
    with open_regular(path, MAX_JSON_BYTES) as file:
        text = file.read()
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ToppoError(f"{path} is not valid JSON: {error}", BAD_DATA) from error


def sync_directory(path: Path) -> None:
    """Make renames in a directory survive a power cut."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
