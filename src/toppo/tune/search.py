"""What a search is, where it is kept, and what its runs came to."""

import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from toppo.errors import CANNOT_CREATE, ToppoError
from toppo.rundir.jsonl import read_lines
from toppo.rundir.layout import Layout, read_json, write_json
from toppo.runs.spec import to_json
from toppo.studies.folder import Folder
from toppo.studies.study import Job
from toppo.tune.space import Space, Task
from toppo.tune.trials import PARTS, Trial, Trials, naming_storage

SCHEMA = 1
# What a process leaves that is killed before it writes the definition.
BEFORE_THE_DEFINITION = {".lock", ".holder.json", ".tune.json.tmp", "trials"}


class Search(NamedTuple):
    """All that defines a search: with one job, the same search and versions give the same trials."""

    env: str
    env_kwargs: dict[str, Any]  # JSON data
    algo: str
    total_timesteps: int  # of every run
    seeds: int  # runs of a trial
    seed: int  # of the sampler, and of the first run of every trial
    prune: bool
    space: dict[str, Any]  # JSON data


class Plan(NamedTuple):
    """A search whose environment is known and whose space is checked."""

    search: Search
    task: Task
    space: Space


class Found(NamedTuple):
    """What a search has found so far."""

    trials: list[Trial]
    importances: dict[str, float]  # by setting; none as long as too few trials are finished

    def counts(self) -> str:
        """Say how many trials there are in each state."""
        states = Counter(trial.state for trial in self.trials)
        return f"{len(self.trials)} trials: " + ", ".join(f"{n} {state}" for state, n in states.most_common())


class Place:
    """The paths of a search."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.definition = root / "tune.json"
        self.storage = root / "study.db"  # the Optuna study
        self.best = root / "best.json"  # the spec of the best trial
        self.page = root / "tune.html"
        self.runs = Folder(root / "trials", root / "curves")


def refuse_other_content(place: Place, search: Search) -> None:
    """Refuse a directory that holds something other than this search."""
    if place.definition.is_file():
        old = read_json(place.definition)
        found = old if isinstance(old, dict) else {}
        new = definition_of(search)
        names = [name for name in new if found.get(name) != new[name]]
        if names:
            different = ", ".join(n if n == "space" else f"{n} is {found.get(n)}, not {new[n]}" for n in names[:3])
            raise ToppoError(f"{place.root} holds another search ({different}): choose another --out", CANNOT_CREATE)
    elif place.root.exists() and (
        not place.root.is_dir() or {p.name for p in place.root.iterdir()} - BEFORE_THE_DEFINITION
    ):
        raise ToppoError(f"{place.root} exists already and holds no search: choose another --out", CANNOT_CREATE)


def definition_of(search: Search) -> dict[str, Any]:
    """Return the search as JSON data."""
    return {"schema": SCHEMA, **search._asdict()}


def found_in(plan: Plan, place: Place) -> Found:
    """Read what a search has found."""
    search = plan.search
    with (
        naming_storage(place.storage),
        closing(Trials(place.storage, plan.space, search.seed, search.prune)) as trials,
    ):
        return Found(trials.all(), trials.importances())


def job_name(trial: Trial, seed: int) -> str:
    """Return the name of a run's files."""
    return f"trial-{trial.number:04d}-{seed}"


def seeds_of(search: Search) -> range:
    """Return the seeds of the runs of every trial."""
    return range(search.seed, search.seed + search.seeds)


def job_of(plan: Plan, trial: Trial, seed: int) -> Job:
    """Return a run of a trial, or raise why its settings do not go together."""
    name = job_name(trial, seed)
    return Job(name, name, plan.task.spec(seed, plan.space.settings(trial.drawn)))


def curve_points(folder: Folder, job: Job, first: int) -> Iterator[tuple[int, float]]:
    """Yield the mean return of the training episodes in every part of the run's steps that is over, from ``first``.

    A part in which no episode ended has no point.
    """
    budget = job.spec.total_timesteps
    over = min(PARTS, folder.steps(job) * PARTS // budget)
    if over < first:
        return
    returns: dict[int, list[float]] = {}
    for row in read_lines(Layout(folder.run(job)).episodes):
        returns.setdefault(-(-int(row["step"]) * PARTS // budget), []).append(float(row["return"]))
    for part in range(first, over + 1):
        if part in returns:
            yield part, fmean(returns[part])


def objective(folder: Folder, jobs: list[Job]) -> float | None:
    """Return the mean over runs of the mean return of test episodes, or None if a run has none.

    Atari games are scored by their training episodes in the last tenth of the steps.
    """
    means = []
    for job in jobs:
        curve = read_json(folder.curve(job))
        returns = curve["test_returns"] or [x for x in curve["return"][-len(curve["return"]) // 10 :] if x is not None]
        if not returns:
            return None
        means.append(fmean(returns))
    return fmean(means)


def best_of(trials: list[Trial]) -> Trial | None:
    """Return the finished trial with the highest objective, the first of several."""
    finished = [trial for trial in trials if trial.value is not None]
    return max(finished, key=lambda trial: (trial.value or 0.0, -trial.number), default=None)


def keep_best(plan: Plan, place: Place, ended: list[Trial]) -> None:
    """Write the settings of the best trial, and delete the checkpoints of the others: they are large."""
    best = best_of(ended)
    if best is not None:
        write_json(place.best, to_json(job_of(plan, best, plan.search.seed).spec))
    for trial in ended:
        if trial is not best:
            for seed in seeds_of(plan.search):
                run = Layout(place.runs.root / job_name(trial, seed))
                shutil.rmtree(run.checkpoints, ignore_errors=True)
