"""What a training writes into its run directory."""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np

from toppo.errors import BAD_DATA, IO_ERROR, Fault, ToppoError
from toppo.learn.loop import Iteration
from toppo.rundir.checkpoint import Facts, add_checkpoint
from toppo.rundir.jsonl import Row, read_lines
from toppo.rundir.layout import Layout, write_json
from toppo.runs.evaluate import Evaluation
from toppo.runs.logs import Logs, Offsets

STATUS_SCHEMA = 1


@contextmanager
def writing(root: Path) -> Iterator[None]:
    """Turn a write that the system refuses into a sentence; the checkpoints before it are intact."""
    try:
        yield
    except OSError as error:
        raise ToppoError(
            f"{root} cannot be written ({error.strerror}); its last checkpoint is intact: fix that, then continue with "
            f"`toppo resume {root}`",
            IO_ERROR,
        ) from error


class RunDirectory:
    """The logs, the checkpoints and the status of a run in its directory."""

    def __init__(self, layout: Layout, checkpoint_every: int) -> None:
        self.layout = layout
        self.checkpoint_every = checkpoint_every
        self.offsets: Offsets = {}  # lengths of the logs at the checkpoint that the training continues from
        self._saved_steps = -1

    @contextmanager
    def open_logs(self) -> Iterator[None]:
        """Open new logs, or old ones cut back to where the checkpoint was taken."""
        with writing(self.layout.root):
            self._logs = Logs(self.layout, self.offsets)
        with closing(self._logs):
            yield

    def evaluations(self) -> list[Evaluation]:
        """Return the tests of the run so far."""
        path = self.layout.evaluations
        try:
            return [evaluation_of(row) for row in read_lines(path)] if path.is_file() else []
        except (KeyError, TypeError, ValueError) as error:
            raise ToppoError(f"{path} holds a line that is not a test: {error}", BAD_DATA) from error

    def rows(self) -> Iterator[tuple[int, Row]]:
        """Yield every step of the logs with its metrics, its timing and its test."""
        timing = {row["time/total_timesteps"]: row for row in read_lines(self.layout.timing)}
        tests = {test.step: test.values() for test in self.evaluations()}
        for row in read_lines(self.layout.metrics):
            step = row["time/total_timesteps"]
            yield step, {**row, **timing.get(step, {}), **tests.get(step, {})}

    def write(self, iteration: Iteration, timing: Mapping[str, float]) -> None:
        """Write what an iteration left."""
        with writing(self.layout.root):
            self._logs.write(iteration, timing)

    def write_evaluation(self, test: Evaluation) -> None:
        """Write a test."""
        with writing(self.layout.root):
            self._logs.write_evaluation(test)

    def write_fatal(self, fault: Fault) -> None:
        """Write all that is known of the fault that ended the run."""
        self._logs.write_fatal(fault)

    def write_status(self, status: Mapping[str, object]) -> None:
        """Replace the status."""
        with writing(self.layout.root):
            write_json(self.layout.status, {"schema": STATUS_SCHEMA, **status})

    def save(self, steps: int, arrays: Mapping[str, np.ndarray], facts: Facts) -> None:
        """Write a checkpoint, unless there is one of this step since the training began."""
        if steps == self._saved_steps:
            return
        with writing(self.layout.root):
            add_checkpoint(self.layout.checkpoints, steps, arrays, {**facts, "offsets": self._logs.offsets()})
        self._saved_steps = steps


def evaluation_of(row: Row) -> Evaluation:
    """Return the test that an untrusted row of evaluations.jsonl describes."""
    returns = [float(value) for value in row["returns"]]
    return Evaluation(step=int(row["step"]), mean=float(row["return"]), returns=returns, cut=int(row.get("cut", 0)))
