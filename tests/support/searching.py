"""A search of seconds, and an executor that needs no processes."""

from pathlib import Path

import gymnasium as gym
import pytest

from tests.support.probes import Reach
from tests.support.training import shared_programs
from toppo.envs import resolve
from toppo.envs.check import check_env
from toppo.errors import ToppoError
from toppo.learn import loop
from toppo.runs.run import RunOptions
from toppo.runs.signals import StopRequest
from toppo.studies.job_process import run_job
from toppo.tune.run_search import SearchLoop, SearchStatus, TuneOptions
from toppo.tune.search import Place, Plan, Search
from toppo.tune.space import Task, space_from_json
from toppo.tune.trials import Trials

REACH = "ToppoReach-v0"
gym.register(REACH, entry_point=Reach)

SPACE = {
    "n_steps": 64,
    "n_minibatches": 4,
    "n_epochs": 2,
    "hidden": [8],
    "warmup_steps": 64,
    "gamma": 0.9,
    "learning_rate": {"low": 1e-6, "high": 0.1, "log": True},
}


def task(env: str = REACH, algo: str = "ppo", steps: int = 640) -> Task:
    source = resolve(env)
    return Task(source, check_env(source)[0], algo, steps)


def plan(seeds: int = 1, prune: bool = True, space: dict[str, object] = SPACE, **where: object) -> Plan:
    found = task(**where)
    search = Search(
        env=found.source.name,
        env_kwargs={},
        algo=found.algo,
        total_timesteps=found.total_timesteps,
        seeds=seeds,
        seed=0,
        prune=prune,
        space=space,
    )
    return Plan(search, found, space_from_json(space, found))


class InThisProcess:
    """Runs a job to its end when it is started."""

    def __init__(self) -> None:
        self.faults: dict[str, str] = {}
        self.started: list[str] = []

    def free(self) -> bool:
        return not self.faults

    def start(self, name: str, job: object, log: Path) -> None:
        self.started.append(name)
        try:
            run_job(job)
            self.faults[name] = ""
        except ToppoError as error:
            self.faults[name] = str(error)

    def ended(self) -> dict[str, str]:
        faults, self.faults = self.faults, {}
        return faults

    def stop(self, names: object) -> None:
        pass

    def close(self) -> None:
        pass


def search(chosen: Plan, place: Place, trials: int, executor: InThisProcess | None = None) -> list[SearchStatus]:
    """Run a search in this process; every status that it told of."""
    told: list[SearchStatus] = []
    place.runs.root.mkdir(parents=True, exist_ok=True)
    options = TuneOptions(trials=trials, jobs=1, retries=1, run_options=RunOptions(workers=0))
    storage = Trials(place.storage, chosen.space, chosen.search.seed, chosen.search.prune)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "Programs", shared_programs)
        SearchLoop(chosen, place, options, storage, executor or InThisProcess(), told.append).run(StopRequest())
    storage.close()
    return told
