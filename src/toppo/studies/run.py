"""A study from its definition to its curves."""

from contextlib import closing
from functools import partial
from typing import NamedTuple

from rich.console import Console

from toppo.cli.study_progress import StudyScreen
from toppo.errors import BAD_DATA, CANNOT_CREATE, ToppoError
from toppo.rundir.layout import write_json
from toppo.rundir.lock import exclusive
from toppo.runs.run import Options
from toppo.runs.signals import Interrupted, stop_request
from toppo.studies.executor import Executor, LocalExecutor
from toppo.studies.folder import Folder
from toppo.studies.random_policy import keep_random_returns
from toppo.studies.run_jobs import Plan, StudyStatus, check_counts, run_jobs
from toppo.studies.study import Study, jobs_of, to_json


class StudyOptions(NamedTuple):
    """How a study is carried out; nothing here changes its numbers."""

    jobs: int  # runs side by side on this machine
    retries: int
    options: Options
    ray: str | None = None  # address of a cluster, or "local"


def run_study(study: Study, folder: Folder, how: StudyOptions, console: Console) -> StudyStatus:
    """Carry out a study, and leave its definition, its curves and the random policy's returns in the curves' folder."""
    check_counts(how.jobs, how.retries)
    jobs = jobs_of(study)
    try:
        folder.root.mkdir(parents=True, exist_ok=True)
        folder.curves.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ToppoError(f"{folder.root} cannot be created: {error.strerror}", CANNOT_CREATE) from error
    with exclusive(folder.root / ".lock"):
        write_json(folder.curves / f"study-{study.name}.json", to_json(study) | {"runs": [job.name for job in jobs]})
        standing = _conduct(Plan(jobs, folder, how.options, how.retries), how, study.name, console)
        envs = sorted({job.spec.env for job in jobs})
        keep_random_returns(folder.curves, envs, how.jobs, partial(console.print, markup=False, soft_wrap=True))
    return standing


def refuse_faults(standing: StudyStatus) -> None:
    """End with the runs that were given up, if there are any."""
    if standing.faults:
        name, fault = next(iter(standing.faults.items()))
        raise ToppoError(
            f"{len(standing.faults)} of {len(standing.jobs)} runs failed, the first of them {name} ({fault}); "
            "the same command tries them again",
            BAD_DATA,
        )


def _conduct(plan: Plan, how: StudyOptions, title: str, console: Console) -> StudyStatus:
    # The engine first: Ray puts a handler of its own on SIGTERM.
    with closing(_engine(how)) as engine, stop_request() as request:
        with StudyScreen(title, plan.folder, console) as screen:
            standing = run_jobs(plan, engine, screen, request)
        if request.signal is not None:
            raise Interrupted(request.signal)
    return standing


def _engine(how: StudyOptions) -> Executor:
    if how.ray is None:
        return LocalExecutor(how.jobs)
    from toppo.studies.ray_executor import RayExecutor

    return RayExecutor(how.ray, 1 + how.options.workers)
