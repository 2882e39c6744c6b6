"""Trackers: where the numbers of a training can be watched, in addition to its run directory."""

import re
import secrets
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean
from typing import NamedTuple, Protocol

from toppo.errors import BAD_DATA, ToppoError, install_command, suggestion
from toppo.rundir.layout import Layout, read_json, write_json

SCHEMA = 1


class Tracker(Protocol):
    """An open run in a tracker."""

    last_step: int  # the last step that it holds from an earlier session; -1 if there is none
    where: str  # what a person needs to find it, if anything

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Add the values of a step."""

    def close(self) -> None:
        """Send what is not sent yet, and end the session."""


class Opening(NamedTuple):
    """What a tracker is told of the run that it opens."""

    id: str  # the same in every session of a run
    project: str | None
    name: str
    settings: Mapping[str, object]
    root: Path | None  # the run directory
    steps: int  # where the session begins


class Kind(NamedTuple):
    """A kind of tracker: the package that it needs, the extra that brings it, and its class as "module:class"."""

    package: str
    extra: str
    tracker: str


TRACKERS = {
    "tensorboard": Kind("tensorboardX", "", "toppo.tracking.tensorboard:TensorBoard"),
    "wandb": Kind("wandb", "wandb", "toppo.tracking.wandb:WeightsAndBiases"),
    "mlflow": Kind("mlflow", "mlflow", "toppo.tracking.mlflow:MLflow"),
    "trackio": Kind("trackio", "trackio", "toppo.tracking.trackio:Trackio"),
}


def require_tracker(name: str) -> None:
    """Refuse a tracker that toppo does not know or whose package is not installed."""
    if name not in TRACKERS:
        raise ToppoError(f"{name!r} is not a tracker: {suggestion(name, TRACKERS)}")
    kind = TRACKERS[name]
    if find_spec(kind.package) is None:
        raise ToppoError(f"tracking with {name} needs the package {kind.package!r}: {install_command(kind.extra)}")


def open_tracker(name: str, opening: Opening) -> Tracker:
    """Open or continue a run in a tracker, whose package is imported only now."""
    module, kind = TRACKERS[name].tracker.split(":")
    tracker: Tracker = getattr(import_module(module), kind)(opening)
    return tracker


def tracking_id(root: Path | None) -> str:
    """Return the name by which trackers know the run of this directory; a new one is written down."""
    if root is None:
        return secrets.token_hex(8)
    path = Layout(root).tracking
    if not path.is_file():
        write_json(path, {"schema": SCHEMA, "id": secrets.token_hex(8)})
    data = read_json(path)
    found = data.get("id") if isinstance(data, dict) else None
    if not isinstance(found, str) or not re.fullmatch("[0-9a-f]{16}", found):
        raise ToppoError(f"{path} holds no id of 16 hexadecimal digits: remove it to track a new run", BAD_DATA)
    return found


def as_numbers(values: Mapping[str, object]) -> dict[str, float]:
    """Return the values as trackers take them: a list is shown by its mean, an empty one is left out."""
    full = {name: value for name, value in values.items() if not isinstance(value, list) or value}
    means = {name: fmean(value) if isinstance(value, list) else value for name, value in full.items()}
    return {name: float(value) for name, value in means.items() if isinstance(value, int | float)}
