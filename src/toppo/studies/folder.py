"""Where the runs of a study lie, and how far they are."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from toppo.errors import CANNOT_CREATE, ToppoError
from toppo.rundir.layout import Layout, read_json
from toppo.runs.run import Options
from toppo.runs.spec import Spec, from_json, to_json
from toppo.studies.study import Job

TAIL = 4096  # bytes: a line of timing is a few hundred


class Folder(NamedTuple):
    """A study's directory of runs, and that of its compact curves."""

    root: Path
    curves: Path

    def run(self, job: Job) -> Path:
        """The run directory of a job."""
        return self.root / job.name

    def curve(self, job: Job) -> Path:
        """The compact curve of a job: it is there when the job is finished."""
        return self.curves / f"{job.name}.json"

    def log(self, job: Job) -> Path:
        """What the job's process printed."""
        return self.root / "logs" / f"{job.name}.log"

    def order(self, job: Job, options: Options) -> dict[str, Any]:
        """All that a process needs to carry out the job, as plain data."""
        root, curve = self.run(job).resolve(), self.curve(job).resolve()
        plain = {name: getattr(options, name) for name in ("workers", "checkpoint_every", "evaluate_every")}
        return {"spec": to_json(job.spec), "root": str(root), "curve": str(curve), "options": plain}

    def finished(self, job: Job) -> bool:
        """Is there a curve of exactly this spec?  What belongs to another spec is never overwritten."""
        _refuse_other(self.run(job), job, _spec_in(Layout(self.run(job)).spec))
        curve = _spec_in(self.curve(job), "spec")
        _refuse_other(self.curve(job), job, curve)
        return curve is not None

    def steps(self, job: Job) -> int:
        """Steps that the run has done."""
        path = Layout(self.run(job)).timing
        try:
            with path.open("rb") as file:
                file.seek(max(0, path.stat().st_size - TAIL))
                lines = file.read().splitlines()
        except FileNotFoundError:
            return 0
        for line in reversed(lines[1:]):  # the first may be cut, or is the header
            try:
                return int(json.loads(line)["time/total_timesteps"])
            except (ValueError, KeyError, TypeError):
                continue  # it is being written at this moment
        return 0


def _spec_in(path: Path, key: str | None = None) -> Spec | None:
    if not path.is_file():
        return None
    data = read_json(path)
    return from_json(data.get(key) if key and isinstance(data, dict) else data)


def _refuse_other(path: Path, job: Job, found: Spec | None) -> None:
    if found is not None and found != job.spec:
        raise ToppoError(
            f"{path} holds another run than {job.name} of this study ({_difference(found, job.spec)}): "
            "choose another directory, or move it away",
            CANNOT_CREATE,
        )


def _difference(found: Spec, wanted: Spec) -> str:
    old, new = (vars(s) | vars(s.common) | vars(s.config) for s in (found, wanted))
    names = [n for n in new if n not in ("common", "config") and old.get(n) != new[n]]
    return ", ".join(f"{n} is {old.get(n)}, not {new[n]}" for n in names[:3])
