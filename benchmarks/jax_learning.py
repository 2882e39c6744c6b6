"""Does toppo learn on environments written in JAX?

    python -m benchmarks.jax_learning [--only gymnax:CartPole-v1 ...] [--seeds 3]

ToPPO at the default preset.  The table goes to docs/results/jax; tasks that are not named keep their rows, so each row
says which versions it was made with, and which defaults have changed since.
"""

import argparse
import json
import statistics
import sys
from importlib import metadata
from typing import Any, NamedTuple

from benchmarks.page import RESULTS, write_page
from toppo.envs import resolve
from toppo.jaxenvs import library_of
from toppo.learn.session import open_session
from toppo.learn.setup import initial_state
from toppo.learn.xla import prepare
from toppo.runs.presets import spec_for
from toppo.runs.run import setup_for
from toppo.runs.spec import to_json


class Task(NamedTuple):
    """A task with its budget, and the return from which on it counts as solved."""

    steps: int
    solved: float


TASKS = {
    "gymnax:CartPole-v1": Task(200_000, 475.0),
    "gymnax:Acrobot-v1": Task(500_000, -100.0),
    "gymnax:Pendulum-v1": Task(1_000_000, -200.0),
    "gymnax:MountainCar-v0": Task(1_000_000, -110.0),
    "brax:inverted_pendulum": Task(200_000, 950.0),
    "playground:CartpoleBalance": Task(1_000_000, 900.0),
}
LAST = 100  # episodes


def main() -> None:
    """Train, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--seeds", type=int, default=3)
    flags = parser.parse_args()
    sys.argv[1:] = ["--only", "TASK", "--seeds", "SEEDS"]  # rows come from several calls
    kept = RESULTS / "jax" / "results.json"
    for name in flags.only:
        task = TASKS[name]
        returns = [final_return(name, task, seed) for seed in range(flags.seeds)]
        found = json.loads(kept.read_text()) if kept.is_file() else {}
        spec = spec_for(name, "toppo", task.steps, 0)
        row = {"solved": task.solved, "returns": returns, "versions": versions(name), "spec": to_json(spec)}
        write({**found, name: row})


def versions(name: str) -> dict[str, str]:
    """Versions of the packages that step the environment."""
    library = library_of(name)
    packages = ["jax", library, *(["mujoco-mjx"] if library == "playground" else [])]
    return {package: metadata.version(package) for package in packages}


def final_return(name: str, task: Task, seed: int) -> float:
    """The mean return of the last training episodes."""
    prepare()
    source = resolve(name)
    setup = setup_for(spec_for(name, "toppo", task.steps, seed), source)
    returns: list[float] = []
    with open_session(setup, source) as session:
        for iteration in session.train(initial_state(setup)):
            returns += [episode.episode_return for episode in iteration.episodes]
    return round(statistics.fmean(returns[-LAST:]), 2)


def changed(spec: dict[str, Any]) -> str:
    """The settings in which a row differs from the default preset of today."""
    now = json.loads(json.dumps(to_json(spec_for(spec["env"], spec["algo"], spec["total_timesteps"], spec["seed"]))))
    differing = [k for part in ("common", "config") for k, v in now[part].items() if spec[part].get(k) != v]
    return ", ".join(f"`{name}`" for name in differing) or "none"


def write(found: dict[str, dict[str, Any]]) -> None:
    """The record and its table."""
    head = ["ToPPO at the default preset. Rows come from several calls, each with as many returns as there were SEEDS."]
    head += [f"Returns are means of the last {LAST} training episodes, which explore.", ""]
    head += ["| task | steps | solved from | return of each seed | versions | defaults changed since |"]
    head += ["|---|---:|---:|---|---|---|"]
    rows = []
    for name in TASKS:
        if name in found:
            row = found[name]
            seeds = ", ".join(f"{value:g}" for value in row["returns"])
            made = ", ".join(f"{package} {version}" for package, version in row["versions"].items())
            cells = (
                name,
                f"{row['spec']['total_timesteps']:,}",
                f"{row['solved']:g}",
                seeds,
                made,
                changed(row["spec"]),
            )
            rows.append(f"| {' | '.join(cells)} |")
    write_page("jax", "Learning on environments written in JAX", [*head, *rows], found)


if __name__ == "__main__":
    main()
