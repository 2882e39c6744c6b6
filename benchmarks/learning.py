"""Proof of learning: train a grid of runs and keep their curves.

python benchmarks/learning.py train [--jobs 2]     trains what has no curve yet
python benchmarks/learning.py report               the same as python benchmarks/results.py
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

RESULTS = Path(__file__).resolve().parent.parent / "docs" / "results" / "learning"
TASKS = ("HalfCheetah-v5", "Hopper-v5", "Swimmer-v5", "Walker2d-v5", "Reacher-v5")
RESET_TASKS = ("HalfCheetah-v5", "Hopper-v5", "Swimmer-v5")
STEPS, RESET_STEPS, SEEDS = 1_000_000, 500_000, 5
FAMILY, FAMILY_SEEDS = ("geppo", "trpo", "otrpo", "oppo", "disc"), 3


def cells() -> list[dict]:
    """Every run of the proof, most wanted first."""
    grid = [
        {"env": env, "algo": algo, "seed": seed, "steps": STEPS}
        for seed in range(SEEDS)
        for env in TASKS
        for algo in ("toppo", "ppo")
    ]
    # Without annealing a run of 500k steps is the first half of a run of 1M, so only this arm is trained again.
    grid += [
        {"env": env, "algo": "toppo", "seed": seed, "steps": RESET_STEPS, "reset_each_batch": False}
        for seed in range(SEEDS)
        for env in RESET_TASKS
    ]
    grid += [
        {"env": env, "algo": algo, "seed": seed, "steps": STEPS}
        for seed in range(FAMILY_SEEDS)
        for env in TASKS
        for algo in FAMILY
    ]
    return grid


def own_settings(cell: dict) -> dict:
    """What a cell changes of the defaults."""
    return {k: v for k, v in cell.items() if k not in ("env", "algo", "seed", "steps")}


def curve_path(cell: dict) -> Path:
    """Where the curve of a cell lies."""
    extra = "".join(f"-{k}={v}" for k, v in own_settings(cell).items())
    return RESULTS / f"{cell['algo']}{extra}-{cell['env']}-{cell['seed']}.json"


def spec_of(cell: dict):
    """The spec of a cell."""
    from toppo.presets import spec_for

    return spec_for(cell["env"], cell["algo"], cell["steps"], cell["seed"], **own_settings(cell))


def finished(cell: dict) -> bool:
    """Is there a curve of exactly this spec?"""
    from toppo.spec import from_json

    path = curve_path(cell)
    return path.exists() and from_json(json.loads(path.read_text())["spec"]) == spec_of(cell)


def run_cell(cell: dict) -> None:
    """Train one cell and write its curve."""
    from toppo.collect.pool import open_pool
    from toppo.device import prepare
    from toppo.envs import open_player
    from toppo.evaluate import play, policy_of
    from toppo.rundir.curve import compact
    from toppo.rundir.versions import versions
    from toppo.runs import setup_for
    from toppo.setup import initial_state, plan
    from toppo.spec import spec_hash, to_json
    from toppo.train import train

    prepare()
    spec = spec_of(cell)
    setup = setup_for(spec, spec.env)
    pool = open_pool(plan(setup), spec.env, 1)
    state = initial_state(setup)
    episodes, metrics = [], []
    for iteration in train(setup, state, pool):
        state = iteration.state
        metrics.append(iteration.metrics)
        episodes += [{"step": e.step, "return": e.ret} for e in iteration.episodes]
    pool.close()
    tests = play(policy_of(state, setup), open_player(spec.env), 10, spec.seed)
    curve = compact(to_json(spec), versions(), episodes, metrics)
    curve |= {"spec_hash": spec_hash(spec), "test_returns": [round(r, 3) for r, _ in tests]}
    RESULTS.mkdir(parents=True, exist_ok=True)
    curve_path(cell).write_text(json.dumps(curve, separators=(",", ":")) + "\n")


def train_all(jobs: int) -> None:
    """Train every cell that has no curve, ``jobs`` at a time, each in a process of its own."""
    todo = [c for c in cells() if not finished(c)]
    print(f"{len(todo)} of {len(cells())} cells to train", flush=True)
    running: list[tuple[subprocess.Popen, dict, float]] = []
    while todo or running:
        while todo and len(running) < jobs:
            cell = todo.pop(0)
            command = [sys.executable, __file__, "cell", json.dumps(cell)]
            running.append((subprocess.Popen(command), cell, time.time()))
        for entry in list(running):
            process, cell, start = entry
            if process.poll() is not None:
                running.remove(entry)
                print(f"{curve_path(cell).name}: code {process.returncode}, {time.time() - start:.0f} s", flush=True)
        time.sleep(0.5)


def main() -> None:
    """Parse and go."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["train", "report", "cell"])
    parser.add_argument("cell", nargs="?")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    if arguments.what == "cell":
        run_cell(json.loads(arguments.cell))
    elif arguments.what == "train":
        train_all(arguments.jobs)
    else:
        from results import main as write_results

        write_results()


if __name__ == "__main__":
    main()
