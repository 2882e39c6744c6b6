"""Run a study: skip finished runs, resume unfinished ones, try failed ones again."""

import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from toppo.errors import BAD_DATA, CANNOT_CREATE, NO_INPUT, ToppoError, refuse_below
from toppo.rundir.layout import write_json
from toppo.rundir.lock import exclusive
from toppo.runs.run import RunOptions
from toppo.runs.signals import Interrupted, StopRequest, stop_request
from toppo.studies.executor import LocalExecutor
from toppo.studies.folder import Folder
from toppo.studies.random_policy import keep_random_returns
from toppo.studies.ray_executor import RayExecutor
from toppo.studies.study import Job, Study, jobs_of, to_json

SECONDS_BETWEEN_POLLS = 0.2


class StudyOptions(NamedTuple):
    """How a study is run; nothing here changes its numbers."""

    jobs: int  # runs side by side on this machine
    retries: int
    run_options: RunOptions
    ray: str | None = None  # address of a cluster, or "local"
    reuse: Path | None = None  # a directory with curves of other studies


class StudyStatus(NamedTuple):
    """How far a study is."""

    jobs: list[Job]
    finished: list[str]
    running: list[Job]
    faults: dict[str, str]  # by name of the run: why it was given up
    event: str = ""  # what has just happened, if anything


Executor = LocalExecutor | RayExecutor
StudyObserver = Callable[[StudyStatus], None]


def run_study(study: Study, folder: Folder, options: StudyOptions, observe: StudyObserver) -> StudyStatus:
    """Run a study; leave its definition, its curves and the random policy's returns in the folder of curves."""
    refuse_below(1, "jobs", options.jobs)
    refuse_below(0, "retries", options.retries)
    jobs = jobs_of(study)
    if options.reuse is not None and not options.reuse.is_dir():
        raise ToppoError(f"{options.reuse} is not a directory: name one with curves of other studies", NO_INPUT)
    try:
        folder.root.mkdir(parents=True, exist_ok=True)
        folder.curves.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ToppoError(f"{folder.root} cannot be created: {error.strerror}", CANNOT_CREATE) from error
    with exclusive(folder.root / ".lock"):
        write_json(folder.curves / f"study-{study.name}.json", to_json(study) | {"runs": [job.name for job in jobs]})
        adopted = folder.adopt(jobs, options.reuse) if options.reuse is not None else 0
        if adopted:
            event = f"{adopted} runs are in {options.reuse} already, and their curves are copied"
            observe(StudyStatus(jobs=jobs, finished=[], running=[], faults={}, event=event))
        executor: Executor = LocalExecutor(options.jobs)
        if options.ray is not None:
            executor = RayExecutor(options.ray, 1 + options.run_options.workers)
        # The executor comes first: Ray installs its own handler for SIGTERM.
        with closing(executor), stop_request() as request:
            status = run_jobs(jobs, folder, options, executor, observe, request)
            if request.signal is not None:
                raise Interrupted(request.signal)
        envs = sorted({job.spec.env for job in jobs})
        keep_random_returns(folder.curves, envs, options.jobs, lambda event: observe(status._replace(event=event)))
    return status


def run_jobs(
    jobs: list[Job],
    folder: Folder,
    options: StudyOptions,
    executor: Executor,
    observe: StudyObserver,
    request: StopRequest,
) -> StudyStatus:
    """Bring every run to its end, or save and stop all of them if ``request`` asks for it."""
    by_name = {job.name: job for job in jobs}
    finished = [job.name for job in jobs if folder.finished(job)]
    waiting = deque(job for job in jobs if job.name not in set(finished))
    running: dict[str, Job] = {}
    faults: dict[str, str] = {}
    tries: Counter[str] = Counter()
    stopping = False

    def tell(event: str = "") -> StudyStatus:
        status = StudyStatus(jobs=jobs, finished=finished, running=list(running.values()), faults=faults, event=event)
        observe(status)
        return status

    tell(f"{len(jobs)} runs, {len(finished)} finished before")
    while waiting or running:
        if request.signal is not None and not stopping:
            stopping = True
            waiting.clear()
            executor.stop(running)
        while waiting and executor.free():
            job = waiting.popleft()
            tries[job.name] += 1
            running[job.name] = job
            executor.start(job.name, folder.job_data(job, options.run_options), folder.log(job))
        for name, fault in executor.ended().items():
            del running[name]
            if folder.finished(by_name[name]):
                finished.append(name)
                tell(f"{name}: finished")
            elif stopping:
                tell(f"{name}: stopped")
            elif tries[name] <= options.retries:
                waiting.append(by_name[name])
                tell(f"{name}: failed, tried again ({fault})")
            else:
                faults[name] = fault
                tell(f"{name}: failed, given up ({fault})")
        tell()
        time.sleep(SECONDS_BETWEEN_POLLS)
    return tell()


def refuse_faults(status: StudyStatus) -> None:
    """Raise a sentence if runs were given up."""
    if status.faults:
        name, fault = next(iter(status.faults.items()))
        raise ToppoError(
            f"{len(status.faults)} of {len(status.jobs)} runs failed, the first of them {name} ({fault}): "
            "the same command tries them again",
            BAD_DATA,
        )
