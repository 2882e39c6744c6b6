"""Where the runs of a study are kept, and how far they are."""

from pathlib import Path
from typing import NamedTuple

from toppo.errors import CANNOT_CREATE, ToppoError
from toppo.rundir.layout import Layout, read_json, write_bytes
from toppo.rundir.progress import steps_of
from toppo.runs.run import RunOptions
from toppo.runs.spec import from_json, spec_hash, to_json
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

    def adopt(self, jobs: list[Job], source: Path) -> int:
        """Copy the curves of exactly these runs that other studies have left under ``source``; return their number."""
        missing = {spec_hash(job.spec): job for job in jobs if not self.finished(job)}
        adopted = 0
        for path in sorted(source.rglob("*.json")) if missing else ():
            job = missing.pop(_hash_in(path), None)
            if job is not None:
                write_bytes(self.curve(job), path.read_bytes())
                adopted += 1
        return adopted

    def steps(self, job: Job) -> int:
        """Return the number of steps that the run has done."""
        return steps_of(Layout(self.run(job)).timing)


def _hash_in(path: Path) -> str:
    """Return the hash of the spec in a curve, or nothing for another file."""
    try:
        data = read_json(path)
        return spec_hash(from_json(data["spec"])) if "grid" in data else ""
    except (ToppoError, KeyError, TypeError, OSError):
        return ""


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
