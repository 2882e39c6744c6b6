"""Where things lie in a run directory, and how small files are written so that they are never half there."""

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from toppo.errors import BAD_DATA, ToppoError
from toppo.rundir.files import open_regular

MAX_JSON_BYTES = 1_000_000


class Layout(NamedTuple):
    """The paths of one run."""

    root: Path

    @property
    def spec(self) -> Path:
        """All that defines the run."""
        return self.root / "spec.json"

    @property
    def versions(self) -> Path:
        """Versions of the packages that ran it."""
        return self.root / "versions.json"

    @property
    def metrics(self) -> Path:
        """One line per iteration; nothing in it depends on the clock."""
        return self.root / "metrics.jsonl"

    @property
    def episodes(self) -> Path:
        """One line per finished episode; nothing in it depends on the clock."""
        return self.root / "episodes.jsonl"

    @property
    def timing(self) -> Path:
        """One line per iteration: seconds and speeds."""
        return self.root / "timing.jsonl"

    @property
    def evaluations(self) -> Path:
        """One line per test of the policy during training."""
        return self.root / "evaluations.jsonl"

    @property
    def faults(self) -> Path:
        """One line per fault of an environment that the run survived."""
        return self.root / "faults.jsonl"

    @property
    def fault(self) -> Path:
        """All that is known of the fault that ended the run."""
        return self.root / "fault.json"

    @property
    def status(self) -> Path:
        """Running, stopped, finished or failed."""
        return self.root / "status.json"

    @property
    def checkpoints(self) -> Path:
        """The two newest checkpoints."""
        return self.root / "checkpoint"

    @property
    def tensorboard(self) -> Path:
        """Event files."""
        return self.root / "tensorboard"

    @property
    def lock(self) -> Path:
        """Held while a process trains here."""
        return self.root / ".lock"


def write_json(path: Path, data: Any) -> None:
    """Replace a JSON file as a whole."""
    write_text(path, json.dumps(data, indent=1, sort_keys=True, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Replace a text file as a whole."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, data: bytes) -> None:
    """Replace a file as a whole: readers see the old one or the new one, and no link is written through."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        temporary.unlink(missing_ok=True)  # left by a kill, or laid by a stranger to lead what is written elsewhere
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
    """Read a JSON file that a stranger may have made."""
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
