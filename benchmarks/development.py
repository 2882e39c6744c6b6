"""Train development cells, and add them to the log of docs/results/strength.

python -m benchmarks.development WHAT --algo toppo --envs Hopper-v5 --seeds 100 101 --steps 500000 --settings alpha=0.1

WHAT says in a few words what is tried.  Development seeds are 100 to 104; other seeds are for verdicts.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.page import RESULTS
from toppo.cli.flags import env_kwargs_in
from toppo.envs import resolve
from toppo.learn.session import open_session
from toppo.learn.setup import initial_state
from toppo.learn.xla import prepare
from toppo.runs.presets import spec_for
from toppo.runs.run import setup_for
from toppo.studies.job_process import test_returns

CELLS = RESULTS / "strength" / "cells.json"
DEVELOPMENT_SEEDS = range(100, 105)
POINTS = 20  # of a curve
PARTS = 10  # of a run, over which other numbers are averaged


def cell(what: str, algo: str, env: str, seed: int, steps: int, settings: dict[str, Any]) -> dict[str, Any]:
    """Train one run at the default preset with some settings changed, and return what the log keeps of it."""
    source = resolve(env)
    spec = spec_for(source, algo, steps, seed, **settings)
    setup = setup_for(spec, source)
    state = initial_state(setup)
    episodes = []
    metrics = []
    with open_session(setup, source, 0) as session:
        for iteration in session.train(state):
            state = iteration.state
            episodes += iteration.episodes
            metrics.append(iteration.metrics)
    place = [min(POINTS - 1, (e.step - 1) * POINTS // steps) for e in episodes]
    returns = [[e.episode_return for e, p in zip(episodes, place, strict=True) if p == i] for i in range(POINTS)]
    return {
        "what": what,
        "algo": algo,
        "env": env,
        "seed": seed,
        "steps": steps,
        "settings": settings,
        "return": [rounded(np.mean(found)) if found else None for found in returns],
        "tests": [[steps, rounded(np.mean(test_returns(spec, state)))]],
        "std": means([found["train/std"] for found in metrics]),
        "kl": means([found["train/approx_kl"] for found in metrics]),
        "memory": means([found["memory/size"] for found in metrics]),
    }


def means(values: list[Any]) -> list[float]:
    """Return the means of equal parts of a run."""
    return [rounded(np.mean(part)) for part in np.array_split(np.asarray(values, float), min(PARTS, len(values)))]


def rounded(value: Any) -> float:
    """Round to five significant digits."""
    return float(f"{float(value):.5g}")


def settings_of(words: list[str]) -> dict[str, Any]:
    """Read NAME=VALUE as the command line reads --env-kwargs: JSON or text; lists are tuples."""
    return {name: tuples(value) for name, value in env_kwargs_in(words).items()}


def tuples(value: Any) -> Any:
    """Return a value with tuples for its lists."""
    return tuple(map(tuples, value)) if isinstance(value, list) else value


def add(cells: Path, found: dict[str, Any]) -> None:
    """Add a cell to the log, a line for each."""
    log = [*(json.loads(cells.read_text()) if cells.exists() else []), found]
    cells.write_text("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in log) + "\n]\n")


def main() -> None:
    """Train the cells of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what")
    parser.add_argument("--algo", default="toppo")
    parser.add_argument("--envs", nargs="+", required=True)
    parser.add_argument("--seeds", nargs="+", type=int, choices=DEVELOPMENT_SEEDS, default=[100, 101])
    parser.add_argument("--steps", type=int, default=500_000)
    parser.add_argument("--settings", nargs="*", default=[], metavar="NAME=VALUE")
    parser.add_argument("--cells", type=Path, default=CELLS)
    given = parser.parse_args()
    prepare()
    for env in given.envs:
        for seed in given.seeds:
            found = cell(given.what, given.algo, env, seed, given.steps, settings_of(given.settings))
            add(given.cells, found)
            print(f"{env} {seed}: tests {found['tests'][-1][1]:,}, end {found['return'][-1]}", flush=True)


if __name__ == "__main__":
    main()
