"""The logs of a run: one line per iteration, episode, test and fault."""

from collections.abc import Mapping
from contextlib import suppress

from toppo.collect.faults import SurvivedFault
from toppo.errors import Fault
from toppo.learn.loop import Iteration
from toppo.rundir.jsonl import JsonLines
from toppo.rundir.layout import Layout, write_json
from toppo.runs.evaluate import Evaluation

MAX_FAULTS = 1000  # in the file; an environment that fails at every step must not fill the disk
Offsets = dict[str, int]


class Logs:
    """The open logs of a run."""

    def __init__(self, layout: Layout, offsets: Offsets) -> None:
        """Open new logs, or old ones cut back to where a checkpoint was taken."""
        layout.fault.unlink(missing_ok=True)
        if not offsets:
            for path in (layout.metrics, layout.episodes, layout.timing, layout.faults):
                path.unlink(missing_ok=True)
        self._layout = layout
        self._files: dict[str, JsonLines] = {}
        for name, path in {"metrics": layout.metrics, "episodes": layout.episodes, "timing": layout.timing}.items():
            self._files[name] = JsonLines(path, offsets.get(name))
        if "evaluations" in offsets:
            self._files["evaluations"] = JsonLines(layout.evaluations, offsets["evaluations"])
        else:
            layout.evaluations.unlink(missing_ok=True)
        self._n_faults = 0

    def write(self, iteration: Iteration, timing: Mapping[str, float]) -> None:
        """Write what an iteration left."""
        for fault in iteration.faults:
            self._write_survived(fault, iteration.state.steps)
        self._files["metrics"].append(iteration.metrics)
        for e in iteration.episodes:
            row = {"step": e.step, "env": e.env, "return": e.episode_return, "length": e.length}
            self._files["episodes"].append(row)
        self._files["timing"].append(timing)

    def write_evaluation(self, test: Evaluation) -> None:
        """Write the returns of a test, and how many of its episodes were cut off; the first test opens the file."""
        if "evaluations" not in self._files:
            self._files["evaluations"] = JsonLines(self._layout.evaluations)
        row = {"step": test.step, "return": test.mean, "returns": test.returns}
        self._files["evaluations"].append({**row, "cut": test.cut} if test.cut else row)

    def _write_survived(self, fault: SurvivedFault, steps: int) -> None:
        """Write a fault.  This log is not cut back when a run is resumed: it tells of processes, not of the run."""
        self._n_faults += 1
        if "faults" not in self._files:
            size = self._layout.faults.stat().st_size if self._layout.faults.is_file() else None
            self._files["faults"] = JsonLines(self._layout.faults, size)
        if self._n_faults <= MAX_FAULTS:
            row = {"step": steps, "env": fault.env, "fault": fault.sentence, "exact": fault.exact}
            self._files["faults"].append(row)

    def write_fatal(self, fault: Fault) -> None:
        """Write all that is known of the fault that ended the run."""
        with suppress(OSError):
            write_json(self._layout.fault, {"schema": 1, "fault": str(fault), **fault.details})

    def offsets(self) -> Offsets:
        """How long the logs are that a resumed run cuts back, safe on the disk."""
        return {name: file.offset() for name, file in self._files.items() if name != "faults"}

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()
