"""Callbacks: they watch a training and may stop it, from Python and from the command line alike.

A callback is a function of one argument, the training, that is called after every iteration.  If it returns False,
the training stops.  A callback that holds something open may have ``on_training_start(training)``, which is called
before the first step, and ``on_training_end()``, which is called at the end, whatever happens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from toppo.errors import ToppoError, first_line, in_one_line, refuse_below
from toppo.tracking import Opening, Tracker, as_numbers, open_tracker, require_tracker, tracking_id

if TYPE_CHECKING:
    from toppo.envs import EnvSource
    from toppo.runs.training import Training

Callback = Callable[["Training"], object]


@runtime_checkable
class Starts(Protocol):
    """A callback that wants to know when the training starts."""

    def on_training_start(self, training: Training) -> None:
        """Prepare for the training, or refuse it with a ToppoError."""


@runtime_checkable
class Ends(Protocol):
    """A callback that wants to know when the training has ended."""

    def on_training_end(self) -> None:
        """Close what is open."""


@dataclass(frozen=True)
class Evaluate:
    """Tests the agent every so many steps and at the end, in whole episodes with its most likely actions.

    With ``keep_best``, a directory, the agent of the best test so far is saved there for ``toppo.load``.
    """

    every: int
    episodes: int = 10
    keep_best: str | Path | None = None
    env: EnvSource | None = None  # to play in; None for the kind of environment that the agent learns in

    def __post_init__(self) -> None:
        refuse_below(1, "every", self.every)
        refuse_below(1, "episodes", self.episodes)
        if self.keep_best is not None:  # absolute, as an environment may change the working directory
            object.__setattr__(self, "keep_best", Path(self.keep_best).absolute())

    def on_training_start(self, training: Training) -> None:
        """Refuse an environment that cannot be played in now, and to overwrite anything but a saved agent."""
        training.source_to_play_in(self.env)
        if self.keep_best is not None:
            training.refuse_to_replace(Path(self.keep_best))

    def __call__(self, training: Training) -> None:
        """Test the agent if it is time."""
        if not training.is_due(self.every):
            return
        earlier = [test.mean for test in training.evaluations]
        test = training.evaluate(self.episodes, self.env)
        if self.keep_best is not None:
            best = Path(self.keep_best)
            if not best.exists() or not earlier or test.mean > max(earlier):
                training.save(best)


@dataclass(frozen=True)
class Checkpoint:
    """Saves the agent every so many steps and at the end.

    With ``folder``, every agent is kept, as FOLDER/STEPS for ``toppo.load``.  Without, the run directory gets a
    checkpoint to resume from, of which it keeps the two newest.
    """

    every: int
    folder: str | Path | None = None

    def __post_init__(self) -> None:
        refuse_below(1, "every", self.every)
        if self.folder is not None:
            object.__setattr__(self, "folder", Path(self.folder).absolute())

    def on_training_start(self, training: Training) -> None:
        """Refuse a training that has nowhere to save."""
        if self.folder is None and training.root is None:
            raise ToppoError("Checkpoint has nowhere to save: give it a folder, or give learn a log_dir")

    def __call__(self, training: Training) -> None:
        """Save the agent if it is time."""
        if not training.is_due(self.every):
            return
        if self.folder is None:
            training.checkpoint()
        else:
            training.save(Path(self.folder) / f"{training.num_timesteps:012d}")


@dataclass(frozen=True)
class StopOnReturn:
    """Stops the training as soon as the mean return of a test by ``Evaluate`` is at least the threshold."""

    threshold: float

    def __post_init__(self) -> None:
        if not isinstance(self.threshold, Real) or not isfinite(self.threshold):
            raise ToppoError(f"the return to stop at is {self.threshold!r}, but must be a finite number")

    def __call__(self, training: Training) -> bool:
        """Continue as long as the newest test is below the threshold."""
        test = training.evaluation
        return test is None or test.mean < self.threshold


@dataclass(frozen=True)
class StopOnPlateau:
    """Stops the training after so many tests by ``Evaluate`` in a row that were not better than the best before."""

    patience: int

    def __post_init__(self) -> None:
        refuse_below(1, "patience", self.patience)

    def __call__(self, training: Training) -> bool:
        """Continue as long as one of the newest tests was the best so far."""
        means = [test.mean for test in training.evaluations]
        return training.evaluation is None or len(means) - 1 - means.index(max(means)) < self.patience


class LogTo:
    """Sends the metrics of every iteration and the tests to a tracker: tensorboard, wandb, mlflow or trackio.

    A run directory remembers the tracker's run.  A resumed run continues it, and sends what the tracker lacks.
    """

    def __init__(self, tracker: str, project: str | None = None, name: str | None = None) -> None:
        require_tracker(tracker)
        self.tracker = tracker
        self.project = project
        self.name = name
        self._id = ""
        self._open: Tracker | None = None
        self._last_step = -1

    def __repr__(self) -> str:
        return f"LogTo({self.tracker!r})"

    def on_training_start(self, training: Training) -> None:
        """Open the tracker, and send it the steps of this run that it does not have."""
        if self.tracker != "tensorboard" and (training.root is not None or not self._id):
            self._id = tracking_id(training.root)
        opening = Opening(
            id=self._id,
            project=self.project,
            name=self.name or training.name,
            settings=training.settings(),
            root=training.root,
            steps=training.num_timesteps,
        )
        try:
            self._open = open_tracker(self.tracker, opening)
            self._last_step = max(self._last_step, self._open.last_step)
            if self._last_step < training.num_timesteps:
                for step, values in training.logged():
                    self._send(step, values)
        except ToppoError:
            raise
        except Exception as error:
            raise ToppoError(f"{self.tracker} cannot be used: {first_line(error)}") from error
        if self._open.where:
            training.tell(f"note: {self.tracker}: {self._open.where}")

    def __call__(self, training: Training) -> None:
        """Send the newest values; a tracker that fails does not end the training."""
        try:
            self._send(training.num_timesteps, training.values())
        except Exception as error:
            self.on_training_end()
            training.tell(f"warning: {self.tracker} is left out from now on: {in_one_line(error)}")

    def _send(self, step: int, values: Mapping[str, object]) -> None:
        """Send the values of a step, unless the tracker has them already."""
        if self._open is not None and step > self._last_step:
            self._open.log(as_numbers(values), step)
            self._last_step = step

    def on_training_end(self) -> None:
        """End the session."""
        tracker = self._open
        self._open = None
        if tracker is not None:
            tracker.close()


def in_order(given: Callback | Sequence[Callback] | None) -> list[Callback]:
    """Return the callbacks with the tests first and the trackers last, so that each sees what it needs."""
    callbacks: list[Callback] = list(given) if isinstance(given, Sequence) else [] if given is None else [given]
    for callback in callbacks:
        if not callable(callback) or isinstance(callback, type):
            raise ToppoError(
                f"{callback!r} is not a callback: give a function of one argument, or an object of toppo.callbacks"
            )
    stops = [callback for callback in callbacks if isinstance(callback, StopOnReturn | StopOnPlateau)]
    if stops and not any(isinstance(callback, Evaluate) for callback in callbacks):
        raise ToppoError(
            f"{stops[0]!r} waits for tests, and nothing tests the agent: add Evaluate(every=...), on the command line "
            "--evaluate-every"
        )
    return sorted(callbacks, key=lambda callback: isinstance(callback, LogTo) - isinstance(callback, Evaluate))
