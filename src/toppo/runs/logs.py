"""The logs of a run: one line per iteration, episode, test and fault."""

from collections.abc import Sequence
from contextlib import suppress

from toppo.collect.faults import SurvivedFault
from toppo.errors import Fault
from toppo.learn.loop import Iteration
from toppo.rundir.jsonl import JsonLines
from toppo.rundir.layout import Layout, write_json
from toppo.rundir.tensorboard import Scalars
from toppo.runs.evaluate import EpisodeResult

MAX_FAULTS = 1000  # in the file; an environment that fails at every step must not fill the disk
Offsets = dict[str, int]


class Logs:
    """The open logs of a run."""

    def __init__(self, layout: Layout, offsets: Offsets, steps: int, *, tensorboard: bool, evaluations: bool) -> None:
        """Open new logs, or old ones cut back to where a checkpoint was taken."""
        paths = {"metrics": layout.metrics, "episodes": layout.episodes, "timing": layout.timing}
        if evaluations or "evaluations" in offsets:
            paths["evaluations"] = layout.evaluations
        layout.fault.unlink(missing_ok=True)
        if not offsets:
            for path in (*paths.values(), layout.faults):
                path.unlink(missing_ok=True)
        self._layout = layout
        self._files = {name: JsonLines(path, offsets.get(name)) for name, path in paths.items()}
        self._n_faults = 0
        self._scalars = Scalars(layout.tensorboard, steps) if tensorboard else None

    def write(self, iteration: Iteration, fps: float) -> None:
        """Write what an iteration left."""
        steps = iteration.state.steps
        for fault in iteration.faults:
            self._write_survived(fault, steps)
        self._files["metrics"].append(iteration.metrics)
        for e in iteration.episodes:
            row = {"step": e.step, "env": e.env, "return": e.episode_return, "length": e.length}
            self._files["episodes"].append(row)
        seconds = {f"time/{name}": round(s, 6) for name, s in iteration.seconds.items()}
        timing = {"time/total_timesteps": steps, "time/fps": round(fps, 1), **seconds}
        self._files["timing"].append(timing)
        if self._scalars:
            self._scalars.add({**iteration.metrics, **timing}, steps)

    def write_evaluation(self, steps: int, results: Sequence[EpisodeResult]) -> None:
        """Write the returns of test episodes, and how many of them were cut off."""
        returns = [result.episode_return for result in results]
        mean = sum(returns) / len(returns)
        cut = sum(not result.ended for result in results)
        row = {"step": steps, "return": mean, "returns": returns}
        self._files["evaluations"].append({**row, "cut": cut} if cut else row)
        if self._scalars:
            self._scalars.add({"eval/mean_reward": mean}, steps)

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
        if self._scalars:
            with suppress(OSError):
                self._scalars.close()
