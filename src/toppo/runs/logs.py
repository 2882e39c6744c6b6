"""What a run writes while it goes on: one line per iteration, episode and fault."""

from contextlib import suppress

from toppo.collect.faults import SurvivedFault
from toppo.errors import Fault
from toppo.learn.loop import Iteration
from toppo.rundir.jsonl import JsonLines
from toppo.rundir.layout import Layout, write_json
from toppo.rundir.tensorboard import Scalars

MAX_FAULTS = 1000  # in the file; an environment that fails at every step must not fill the disk
Offsets = dict[str, int]


class Records:
    """The open logs of a run."""

    def __init__(self, layout: Layout, offsets: Offsets | None, steps: int, tensorboard: bool, tests: bool) -> None:
        """Open new logs, or old ones cut back to where a checkpoint was taken."""
        paths = {"metrics": layout.metrics, "episodes": layout.episodes, "timing": layout.timing}
        if tests or (offsets and "evaluations" in offsets):
            paths["evaluations"] = layout.evaluations
        layout.fault.unlink(missing_ok=True)
        if offsets is None:
            for path in (*paths.values(), layout.faults):
                path.unlink(missing_ok=True)
        self.layout, self._count = layout, 0
        self._faults: JsonLines | None = None
        self._files = {name: JsonLines(path, offsets.get(name) if offsets else None) for name, path in paths.items()}
        self._scalars = Scalars(layout.tensorboard, steps) if tensorboard else None

    def write(self, iteration: Iteration, fps: float) -> None:
        """Write what an iteration left."""
        steps = iteration.state.steps
        for notice in iteration.faults:
            self._survived(notice, steps)
        self._files["metrics"].append(iteration.metrics)
        for e in iteration.episodes:
            self._files["episodes"].append({"step": e.step, "env": e.env, "return": e.ret, "length": e.length})
        seconds = {f"time/{name}": round(s, 6) for name, s in iteration.seconds.items()}
        timing = {"time/total_timesteps": steps, "time/fps": round(fps, 1), **seconds}
        self._files["timing"].append(timing)
        if self._scalars:
            self._scalars.add({**iteration.metrics, **timing}, steps)

    def write_tests(self, steps: int, returns: list[float], cut: int) -> None:
        """Write the returns of test episodes, and how many of these did not come to their end."""
        row = {"step": steps, "return": sum(returns) / len(returns), "returns": returns} | ({"cut": cut} if cut else {})
        self._files["evaluations"].append(row)
        if self._scalars:
            self._scalars.add({"eval/mean_reward": row["return"]}, steps)

    def _survived(self, notice: SurvivedFault, steps: int) -> None:
        """The history of faults is not cut back when a run is resumed: it tells of processes, not of the run."""
        self._count += 1
        if self._faults is None:
            size = self.layout.faults.stat().st_size if self.layout.faults.is_file() else None
            self._faults = JsonLines(self.layout.faults, size)
        if self._count <= MAX_FAULTS:
            self._faults.append({"step": steps, "env": notice.env, "fault": notice.sentence, "exact": notice.exact})

    def fatal(self, fault: Fault) -> None:
        """Keep all that is known of the fault that ended the run."""
        with suppress(OSError):
            write_json(self.layout.fault, {"schema": 1, "fault": str(fault), **fault.details})

    def offsets(self) -> Offsets:
        """How long the logs are, safe on the disk."""
        return {name: file.offset() for name, file in self._files.items()}

    def close(self) -> None:
        """Close the files."""
        for file in [*self._files.values(), *([self._faults] if self._faults else [])]:
            file.close()
        if self._scalars:
            with suppress(OSError):
                self._scalars.close()
