"""Where the runs of a study are kept, and how far they are."""

from pathlib import Path
from typing import NamedTuple

from toppo.errors import CANNOT_CREATE, ToppoError
from toppo.rundir.layout import Layout, read_json
from toppo.rundir.progress import steps_of
from toppo.runs.run import RunOptions
from toppo.runs.spec import from_json, to_json
from toppo.studies.executor import JobData
from toppo.studies.study import Job


class Folder(NamedTuple):
    """A study's directory of runs, and the directory of its compact curves."""

    root: Path
    curves: Path

    def run(self, job: Job) -> Path:
        """Return the run directory of a job."""
        return self.root / job.name

    def curve(self, job: Job) -> Path:
        """Return the path of a job's compact curve, which exists once the job is finished."""
        return self.curves / f"{job.name}.json"

    def log(self, job: Job) -> Path:
        """Return the path of what the job's process printed."""
        return self.root / "logs" / f"{job.name}.log"

    def job_data(self, job: Job, options: RunOptions) -> JobData:
        """Return the job as plain data, for a process of its own."""
        return JobData(
            spec=to_json(job.spec),
            root=str(self.run(job).resolve()),
            curve=str(self.curve(job).resolve()),
            workers=options.workers,
            checkpoint_every=options.checkpoint_every,
            evaluate_every=options.evaluate_every,
        )

    def finished(self, job: Job) -> bool:
        """Tell whether there is a curve of exactly this spec; refuse files of another spec, which must not be lost."""
        _holds(job, self.run(job), Layout(self.run(job)).spec)
        return _holds(job, self.curve(job), self.curve(job), "spec")

    def steps(self, job: Job) -> int:
        """Return the number of steps that the run has done."""
        return steps_of(Layout(self.run(job)).timing)


def _holds(job: Job, place: Path, file: Path, key: str = "") -> bool:
    """Tell whether there is a file with the spec of this job; refuse ``place`` if the spec is another."""
    if not file.is_file():
        return False
    data = read_json(file)
    found = from_json(data.get(key) if key and isinstance(data, dict) else data)
    if found != job.spec:
        old, new = (vars(s) | vars(s.common) | vars(s.config) for s in (found, job.spec))
        names = [n for n in new if n not in ("common", "config") and old.get(n) != new[n]]
        different = ", ".join(f"{n} is {old.get(n)}, not {new[n]}" for n in names[:3])
        sentence = f"{place} holds another run than {job.name} of this study ({different})"
        raise ToppoError(f"{sentence}: choose another directory or move it", CANNOT_CREATE)
    return True
