"""Weights & Biases."""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import wandb

from toppo.rundir.files import WANDB
from toppo.rundir.layout import read_json, write_json
from toppo.tracking import Opening

COMPLETE = "toppo.json"  # beside the file of an offline session that was closed


class WeightsAndBiases:
    """A run of W&B.

    Online, the server says which steps it has.  Offline, each session is a file of its own.  A killed process leaves
    a file that lacks its end, so the next session removes it and sends its steps again.
    """

    def __init__(self, opening: Opening) -> None:
        """Start or continue a run; ``WANDB_MODE=offline`` and the other variables of W&B hold."""
        _forget_service_of_others()
        sent = -1 if opening.root is None else _without_torn_sessions(opening.root / WANDB, opening.id)
        self._run = wandb.init(
            project=opening.project or os.environ.get("WANDB_PROJECT") or "toppo",
            name=opening.name,
            id=opening.id,
            config=json.loads(json.dumps(opening.settings)),
            dir=opening.root or os.environ.get("WANDB_DIR") or Path.cwd(),  # W&B remembers that of the first run
            resume="allow",
            reinit="create_new",  # a run that the user has open stays the user's
            settings=wandb.Settings(silent=True, console="off", symlink=False),
        )
        self._session = Path(self._run.dir).parent
        self.last_step = sent if self._run.offline else self._run.starting_step - 1
        self._last = self.last_step
        self.where = f"offline, send it with wandb sync {self._session}" if self._run.offline else self._run.url or ""

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Add the values of a step."""
        self._run.log(dict(values), step=step)
        self._last = step

    def close(self) -> None:
        """Wait until everything is on the disk or with the server."""
        self._run.finish()
        if self._run.offline and self._session.is_dir():
            write_json(self._session / COMPLETE, {"last_step": self._last})


def _forget_service_of_others() -> None:
    """Let W&B start a service for this process, unless it has: another's keeps our run open if we are killed."""
    if f"-{os.getpid()}-" not in os.environ.get("WANDB_SERVICE", ""):
        os.environ.pop("WANDB_SERVICE", None)


def _without_torn_sessions(folder: Path, run_id: str) -> int:
    """Remove the offline sessions that were not closed; return the last step of those that were."""
    last = -1
    for session in folder.glob(f"offline-run-*-{run_id}"):
        if (session / COMPLETE).is_file():
            last = max(last, int(read_json(session / COMPLETE)["last_step"]))
        else:
            shutil.rmtree(session)
    return last
