"""``toppo tune``."""

import json
import os
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from toppo.algos import REGISTRY
from toppo.cli.flags import STEPS, env_kwargs_in, flag, parse, require_at_least
from toppo.cli.tune_progress import TuneDisplay
from toppo.collect.check_apart import check_env_in_subprocess
from toppo.collect.faults import STRICT
from toppo.display.console import Terminal, live_view
from toppo.envs import resolve
from toppo.envs.check import check_env
from toppo.errors import BAD_DATA, ToppoError
from toppo.runs.run import RunOptions
from toppo.runs.signals import Interrupted
from toppo.runs.spec import algorithm
from toppo.tune.page import write_page
from toppo.tune.run_search import TuneOptions, run_search
from toppo.tune.search import Place, Plan, Search, best_of, found_in
from toppo.tune.space import Task, default_space, read_space, space_from_json
from toppo.tune.trials import import_optuna


@dataclass(frozen=True)
class TuneExecutionFlags:
    """How the trials are carried out."""

    jobs: Annotated[int | None, flag("Trials side by side on this machine (default: one per core).", "INT")] = None
    workers: Annotated[int, flag("Processes that step environments, per run; 0: none.")] = 0
    retries: Annotated[int, flag("How often a run that fails is tried again.")] = 1
    ray: Annotated[str | None, flag("Run on Ray: the address of a cluster, or local.", "ADDRESS")] = None


@dataclass(frozen=True, kw_only=True)
class TuneFlags:
    """Search for good settings on ENV; the same command continues a search."""

    env: Annotated[str, flag("Gymnasium id, such as CartPole-v1 or package.module:Env-v0.", "ENV")]
    algo: Annotated[str, flag(f"One of {', '.join(REGISTRY)}.")] = "toppo"
    trials: Annotated[int, flag("Trials in all; more of them continue a search.")] = 50
    total_timesteps: Annotated[int, STEPS, flag("Environment steps of every run.")] = 100_000
    seeds: Annotated[int, flag("Runs of every trial; their mean test return is the objective.")] = 1
    seed: Annotated[int, flag("Seed of the sampler, and of the first run of every trial.")] = 0
    prune: Annotated[bool, flag("End a trial whose learning curve stays below the median of the others.")] = True
    env_kwargs: Annotated[
        tuple[str, ...], flag("Arguments of ENV as NAME=VALUE, with VALUE as JSON or plain text.", "NAME=VALUE")
    ] = ()
    space: Annotated[Path | None, flag("JSON file with ranges (default: the table of the algorithm).", "PATH")] = None
    print_space: Annotated[bool, flag("Print the ranges as JSON, and end.")] = False
    out: Annotated[Path | None, flag("Directory to write (default: runs/tune-ENV-ALGO).", "PATH")] = None
    execution: TuneExecutionFlags = field(default_factory=TuneExecutionFlags)


def tune(arguments: list[str]) -> None:
    """Search good settings."""
    given = parse("tune", TuneFlags, arguments)
    execution = given.execution
    require_at_least(given, trials=1, total_timesteps=1, seeds=1, seed=0)
    require_at_least(execution, jobs=1, workers=0, retries=0)
    algorithm(given.algo)
    if not given.print_space:
        import_optuna()
    plan = _plan(given)
    if given.print_space:
        print(json.dumps(plan.search.space, indent=1))
        return
    name = re.sub(r"[^A-Za-z0-9_.=+-]", "-", f"tune-{given.env}-{given.algo}")
    place = Place(given.out or Path("runs") / name)
    options = TuneOptions(
        trials=given.trials,
        jobs=execution.jobs or os.cpu_count() or 1,
        retries=execution.retries,
        run_options=RunOptions(workers=execution.workers),
        ray=execution.ray,
    )
    _search_with_display(plan, place, options, shlex.join(["toppo", "tune", *arguments]))


def _plan(given: TuneFlags) -> Plan:
    """Check the environment, the algorithm and the space."""
    source = resolve(given.env, env_kwargs_in(given.env_kwargs))
    timeout = STRICT.env_timeout
    spaces, _ = check_env(source) if source.address is None else check_env_in_subprocess(source, timeout)
    task = Task(source, spaces, given.algo, given.total_timesteps)
    data = default_space(task) if given.space is None else read_space(given.space)
    space = space_from_json(data, task)
    for seed in (given.seed, given.seed + given.seeds - 1):
        task.spec(seed, space.fixed)
    search = Search(
        env=source.name,
        env_kwargs=dict(source.kwargs),
        algo=given.algo,
        total_timesteps=given.total_timesteps,
        seeds=given.seeds,
        seed=given.seed,
        prune=given.prune,
        space=data,
    )
    return Plan(search, task, space)


def _search_with_display(plan: Plan, place: Place, options: TuneOptions, command: str) -> None:
    """Search with a live display; print at the end what was found and what to type next."""
    search = plan.search
    title = f"{algorithm(search.algo).title} on {search.env}, {search.total_timesteps:,} steps per run"
    console = Terminal()
    if not console.is_terminal:
        console.say(f"{title}: {options.trials} trials into {place.root}")
    code = 0
    try:
        with live_view(console) as live:
            run_search(plan, place, options, TuneDisplay(title, options.trials, place.runs, console, live))
    except Interrupted as stop:
        code = stop.code
        console.say(f"stopped by {stop}; every run is saved, and the same command continues")
    found = found_in(plan, place)
    best = best_of(found.trials)
    if best is not None:
        write_page(plan, place, found, best, command)
        console.say(
            f"{found.counts()}\n"
            f"  best    trial {best.number}, return {best.value:,.1f}\n"
            f"  page    {place.page}\n"
            f"  next    toppo train --config {place.best}"
        )
    if code:
        raise SystemExit(code)
    if best is None:
        why = next((f"; the first fault: {trial.fault}" for trial in found.trials if trial.fault), "")
        raise ToppoError(f"no trial of {place.root} has finished{why}", BAD_DATA)
