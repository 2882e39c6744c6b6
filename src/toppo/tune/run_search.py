"""Run a search: continue open trials, draw further ones, prune those that fall behind."""

import time
from collections import deque
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import NamedTuple

from toppo.errors import CANNOT_CREATE, ToppoError
from toppo.rundir.layout import write_json
from toppo.rundir.lock import exclusive
from toppo.runs.run import RunOptions
from toppo.runs.signals import Interrupted, StopRequest, stop_request
from toppo.studies.executor import LocalExecutor
from toppo.studies.ray_executor import RayExecutor
from toppo.studies.run_jobs import SECONDS_BETWEEN_POLLS, Executor
from toppo.studies.study import Job
from toppo.tune.search import (
    Place,
    Plan,
    curve_points,
    definition_of,
    job_of,
    keep_best,
    objective,
    refuse_other_content,
    seeds_of,
)
from toppo.tune.trials import PARTS, Trial, Trials, naming_storage


class TuneOptions(NamedTuple):
    """How a search is carried out."""

    trials: int
    jobs: int  # trials side by side on this machine
    retries: int  # of a run that fails
    run_options: RunOptions
    ray: str | None = None  # address of a cluster, or "local"


class SearchStatus(NamedTuple):
    """How far a search is."""

    ended: list[Trial]
    running: list[Job]
    event: str = ""  # what has just happened, if anything


@dataclass
class OpenTrial:
    """A trial whose runs train one after another."""

    trial: Trial
    jobs: list[Job]
    index: int = 0  # of the run that trains now
    next_part: int = 1  # of this run's learning curve
    tries: int = 0  # of this run
    pruned: bool = False

    @property
    def job(self) -> Job:
        """The run that trains now."""
        return self.jobs[self.index]


Observe = Callable[[SearchStatus], None]


def run_search(plan: Plan, place: Place, options: TuneOptions, observe: Observe) -> None:
    """Run trials until there are as many as asked for; the same search continues where it was stopped or killed."""
    refuse_other_content(place, plan.search)
    try:
        place.runs.root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ToppoError(f"{place.root} cannot be created: {error.strerror}", CANNOT_CREATE) from error
    with exclusive(place.root / ".lock"), naming_storage(place.storage):
        write_json(place.definition, definition_of(plan.search))
        executor: Executor = LocalExecutor(options.jobs)
        if options.ray is not None:
            executor = RayExecutor(options.ray, 1 + options.run_options.workers)
        search = plan.search
        # The executor comes before the signals: Ray installs its own handler for SIGTERM.
        with (
            closing(Trials(place.storage, plan.space, search.seed, search.prune)) as trials,
            closing(executor),
            stop_request() as request,
        ):
            SearchLoop(plan, place, options, trials, executor, observe).run(request)
            if request.signal is not None:
                raise Interrupted(request.signal)


@dataclass
class SearchLoop:
    """A search in this process."""

    plan: Plan
    place: Place
    options: TuneOptions
    trials: Trials
    executor: Executor
    observe: Observe

    def __post_init__(self) -> None:
        """Read which trials ended, and which are open since a stop or a kill."""
        known = self.trials.all()
        self.ended = [trial for trial in known if trial.state != "running"]
        self.waiting = deque(trial for trial in known if trial.state == "running")
        self.drawn = len(known)
        self.open: dict[str, OpenTrial] = {}  # by name of the run that trains now
        self.stopping = False

    def run(self, request: StopRequest) -> None:
        """Bring the trials to their end, or save and stop their runs if ``request`` asks for it."""
        self._tell(f"{self.options.trials} trials, {len(self.ended)} ended before")
        keep_best(self.plan, self.place, self.ended)
        while self.open or self._may_start():
            if request.signal is not None and not self.stopping:
                self.stopping = True
                self.executor.stop(list(self.open))
            while self._may_start() and self.executor.free():
                self._start()
            for name, fault in self.executor.ended().items():
                self._run_ended(self.open.pop(name), fault)
            for current in self.open.values():
                if not current.pruned and self._falls_behind(current):
                    current.pruned = True
                    self.executor.stop([current.job.name])
            self._tell()
            time.sleep(SECONDS_BETWEEN_POLLS)

    def _may_start(self) -> bool:
        return not self.stopping and bool(self.waiting or self.drawn < self.options.trials)

    def _start(self) -> None:
        """Continue the first open trial, or draw one."""
        if self.waiting:
            trial = self.waiting.popleft()
        else:
            trial = self.trials.draw()
            self.drawn += 1
        try:
            jobs = [job_of(self.plan, trial, seed) for seed in seeds_of(self.plan.search)]
        except ToppoError as error:  # values that do not go together
            self._end(trial, fault=str(error))
            return
        if trial.curve and self.trials.is_below_median(trial):  # a kill came between the point and its consequence
            self._end(trial)
            return
        self._continue(OpenTrial(trial, jobs))

    def _continue(self, current: OpenTrial) -> None:
        """Start the first run of a trial that is not finished yet, or end the trial after the last."""
        folder = self.place.runs
        while folder.finished(current.job):
            if self._falls_behind(current):
                self._end(current.trial)
                return
            if current.index + 1 == len(current.jobs):
                value = objective(folder, current.jobs)
                self._end(current.trial, value, "" if value is not None else "no episode ended")
                return
            current.index += 1
            current.next_part = 1
            current.tries = 0
        if not self.stopping:
            job = current.job
            current.tries += 1
            self.open[job.name] = current
            self.executor.start(job.name, folder.job_data(job, self.options.run_options), folder.log(job))

    def _run_ended(self, current: OpenTrial, fault: str) -> None:
        name = current.job.name
        if current.pruned:
            self._end(current.trial)
        elif self.stopping or self.place.runs.finished(current.job):
            self._continue(current)
        elif current.tries <= self.options.retries:
            self._tell(f"{name}: failed, tried again ({fault})")
            self._continue(current)
        else:
            self._end(current.trial, fault=f"{name}: {fault}")

    def _falls_behind(self, current: OpenTrial) -> bool:
        """Store the new points of a run's learning curve; tell whether one of them is reason to prune its trial."""
        for part, mean_return in curve_points(self.place.runs, current.job, current.next_part):
            current.next_part = part + 1
            whole = current.index * PARTS + part
            if whole not in current.trial.curve:
                self.trials.report(current.trial, whole, mean_return)
                if self.trials.is_below_median(current.trial):
                    return True
        return False

    def _end(self, trial: Trial, value: float | None = None, fault: str = "") -> None:
        """Store the end of a trial: its objective, its fault, or neither if it is pruned."""
        if fault:
            self.trials.fail(trial, fault)
            event = f"failed ({fault})"
        elif value is None:
            self.trials.prune(trial)
            event = "pruned"
        else:
            self.trials.finish(trial, value)
            event = f"finished, {value:.6g}"
        self.ended = [ended for ended in self.trials.all() if ended.state != "running"]
        keep_best(self.plan, self.place, self.ended)
        self._tell(f"trial {trial.number}: {event}")

    def _tell(self, event: str = "") -> None:
        self.observe(SearchStatus(self.ended, [current.job for current in self.open.values()], event))
