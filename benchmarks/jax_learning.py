"""Does toppo learn on environments written in JAX?

    python -m benchmarks.jax_learning [--only gymnax:CartPole-v1 ...] [--seeds 3]

ToPPO at the settings below, all else at the defaults.  The table goes to docs/results/jax; tasks that are not named
keep their rows.
"""

import argparse
import json
import statistics
from typing import Any, NamedTuple

from benchmarks.page import RESULTS, write_page
from toppo.envs import resolve
from toppo.learn.session import open_session
from toppo.learn.setup import initial_state
from toppo.learn.xla import prepare
from toppo.runs.presets import spec_for
from toppo.runs.run import setup_for


class Task(NamedTuple):
    """A task with its budget, its settings, and the return from which on it counts as solved."""

    steps: int
    solved: float
    settings: dict[str, Any] = {}  # noqa: RUF012 - never changed


TASKS = {
    "gymnax:CartPole-v1": Task(200_000, 475.0),
    "gymnax:Acrobot-v1": Task(500_000, -100.0),
    "gymnax:Pendulum-v1": Task(1_000_000, -200.0),
    "gymnax:MountainCar-v0": Task(1_000_000, -110.0),
    "brax:inverted_pendulum": Task(200_000, 950.0),
}
LAST = 100  # episodes


def main() -> None:
    """Train, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--seeds", type=int, default=3)
    flags = parser.parse_args()
    kept = RESULTS / "jax" / "results.json"
    for name in flags.only:
        found = json.loads(kept.read_text()) if kept.is_file() else {}
        returns = [final_return(name, TASKS[name], seed) for seed in range(flags.seeds)]
        write({**found, name: {**TASKS[name]._asdict(), "returns": returns}})


def final_return(name: str, task: Task, seed: int) -> float:
    """The mean return of the last training episodes."""
    prepare()
    source = resolve(name)
    setup = setup_for(spec_for(name, "toppo", task.steps, seed, **task.settings), source)
    returns: list[float] = []
    with open_session(setup, source) as session:
        for iteration in session.train(initial_state(setup)):
            returns += [episode.episode_return for episode in iteration.episodes]
    return round(statistics.fmean(returns[-LAST:]), 2)


def write(found: dict[str, dict[str, Any]]) -> None:
    """The record and its table."""
    head = [f"ToPPO, the mean return of the last {LAST} training episodes, which explore.", ""]
    head += ["| task | steps | settings beside the defaults | solved from | each seed |", "|---|---:|---|---:|---|"]
    rows = []
    for name in TASKS:
        if name in found:
            row = found[name]
            settings = ", ".join(f"`{key}={value}`" for key, value in row["settings"].items()) or "none"
            seeds = ", ".join(f"{value:g}" for value in row["returns"])
            rows.append(f"| {name} | {row['steps']:,} | {settings} | {row['solved']:g} | {seeds} |")
    write_page("jax", "Learning on environments written in JAX", [*head, *rows], found)


if __name__ == "__main__":
    main()
