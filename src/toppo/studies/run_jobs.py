"""Carrying out a study: what is finished is skipped, what is unfinished is resumed, what fails is tried again."""

import time
from collections import Counter, deque
from collections.abc import Callable
from typing import NamedTuple

from toppo.errors import refuse_below
from toppo.runs.run import Options
from toppo.runs.signals import StopRequest
from toppo.studies.executor import Executor
from toppo.studies.folder import Folder
from toppo.studies.study import Job

SECONDS_BETWEEN_LOOKS = 0.2


class StudyStatus(NamedTuple):
    """How a study stands."""

    jobs: list[Job]
    finished: list[str]
    running: list[Job]
    faults: dict[str, str]  # runs that were given up, and why
    event: str  # what has just happened, if anything


class Plan(NamedTuple):
    """What is to be done, and how often a run that fails is tried again."""

    jobs: list[Job]
    folder: Folder
    options: Options
    retries: int


def run_jobs(plan: Plan, engine: Executor, observe: Callable[[StudyStatus], None], request: StopRequest) -> StudyStatus:
    """Bring every run to its end, or to a saved stop if one is asked for."""
    finished = [job.name for job in plan.jobs if plan.folder.finished(job)]
    waiting = deque(job for job in plan.jobs if job.name not in set(finished))
    by_name, running, faults = {job.name: job for job in plan.jobs}, dict[str, Job](), dict[str, str]()
    tries: Counter[str] = Counter()
    stopping = False

    def standing(event: str) -> StudyStatus:
        return StudyStatus(plan.jobs, finished, list(running.values()), faults, event)

    observe(standing(f"{len(plan.jobs)} runs, {len(finished)} finished before"))
    while waiting or running:
        if request.signal is not None and not stopping:
            stopping = True
            waiting.clear()
            engine.stop()
        while waiting and engine.free():
            job = waiting.popleft()
            tries[job.name] += 1
            running[job.name] = job
            engine.start(job.name, plan.folder.order(job, plan.options), plan.folder.log(job))
        for name, fault in engine.ended():
            del running[name]
            if plan.folder.finished(by_name[name]):
                finished.append(name)
                observe(standing(f"{name}: finished"))
            elif stopping:
                observe(standing(f"{name}: stopped"))
            elif tries[name] <= plan.retries:
                waiting.append(by_name[name])
                observe(standing(f"{name}: failed, tried again ({fault})"))
            else:
                faults[name] = fault
                observe(standing(f"{name}: failed, given up ({fault})"))
        observe(standing(""))
        time.sleep(SECONDS_BETWEEN_LOOKS)
    return standing("")


def check_counts(jobs: int, retries: int) -> None:
    """Refuse numbers that make no sense."""
    refuse_below(1, "jobs", jobs)
    refuse_below(0, "retries", retries)
