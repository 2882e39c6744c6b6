"""A study from its definition to its curves."""

from contextlib import closing
from functools import partial
from typing import NamedTuple

from rich.console import Console

from toppo.errors import BAD_DATA, CANNOT_CREATE, ToppoError
from toppo.interrupt import Interrupted, stop_request
from toppo.rundir.layout import write_json
from toppo.rundir.lock import exclusive
from toppo.runs import Options
from toppo.studies.conduct import Plan, Standing, check_counts, conduct
from toppo.studies.folder import Folder
from toppo.studies.local import Engine, LocalEngine
from toppo.studies.random_policy import keep_random_returns
from toppo.studies.screen import StudyScreen
from toppo.studies.study import Study, jobs_of, to_json


class How(NamedTuple):
    """How a study is carried out; nothing here changes its numbers."""

    jobs: int  # runs side by side on this machine
    retries: int
    options: Options
    ray: str | None = None  # address of a cluster, or "local"


def run_study(study: Study, folder: Folder, how: How, console: Console) -> Standing:
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


def refuse_faults(standing: Standing) -> None:
    """End with the runs that were given up, if there are any."""
    if standing.faults:
        name, fault = next(iter(standing.faults.items()))
        raise ToppoError(
            f"{len(standing.faults)} of {len(standing.jobs)} runs failed, the first of them {name} ({fault}); "
            "the same command tries them again",
            BAD_DATA,
        )


def _conduct(plan: Plan, how: How, title: str, console: Console) -> Standing:
    # The engine first: Ray puts a handler of its own on SIGTERM.
    with closing(_engine(how)) as engine, stop_request() as request:
        with StudyScreen(title, plan.folder, console) as screen:
            standing = conduct(plan, engine, screen, request)
        if request.signal is not None:
            raise Interrupted(request.signal)
    return standing


def _engine(how: How) -> Engine:
    if how.ray is None:
        return LocalEngine(how.jobs)
    from toppo.studies.cluster import RayEngine

    return RayEngine(how.ray, 1 + how.options.workers)
