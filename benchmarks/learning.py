"""Proof of learning: train a grid of runs, keep their curves, and write the table and the figure.

python benchmarks/learning.py train [--jobs 2]     trains what has no curve yet
python benchmarks/learning.py report               table and figure from the curves
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
FINAL = 100_000  # the final return is the mean over the last so many steps


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
    from toppo.envs import open_environment
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
    tests = play(policy_of(state, setup.spaces), open_environment(spec.env, 0), 10, spec.seed)
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


def load(cell: dict) -> dict:
    """The curve of a cell with its returns as an array, gaps filled by the value before."""
    import numpy as np

    curve = json.loads(curve_path(cell).read_text())
    returns = np.array([np.nan if r is None else r for r in curve["return"]], float)
    for i in range(1, len(returns)):
        if np.isnan(returns[i]):
            returns[i] = returns[i - 1]
    return curve | {"grid": np.array(curve["grid"]), "return": returns}


def final_and_area(curve: dict, budget: int) -> tuple[float, float]:
    """Mean return over the last 100k steps, and over all of the first ``budget`` steps."""
    import numpy as np

    inside = curve["grid"] <= budget
    last = inside & (curve["grid"] > budget - FINAL)
    return float(np.nanmean(curve["return"][last])), float(np.nanmean(curve["return"][inside]))


def report() -> None:
    """Write the tables and the figure."""
    import numpy as np

    from toppo.report.figures import COLOURS, figure, save
    from toppo.report.statistics import Estimate, bootstrap, difference, iqm, mean, pooled

    def show(e: Estimate, runs: int) -> str:
        # An interval from fewer than five runs would only look like one.
        return f"{e.value:.4g} [{e.low:.4g}, {e.high:.4g}]" if runs >= 5 else f"{e.value:.4g}"

    def group(env: str, algo: str, **settings) -> list[dict]:
        wanted = [c for c in cells() if c["env"] == env and c["algo"] == algo and own_settings(c) == settings]
        return [load(c) for c in wanted if finished(c)]

    text = [
        "# Proof of learning",
        "",
        "    python benchmarks/learning.py train && python benchmarks/learning.py report",
        "",
    ]
    text += [
        f"PPO and ToPPO at their defaults, {STEPS:,} steps. Final: mean return of the training episodes that ended in "
        f"the last {FINAL:,} steps. Area: mean return over the whole run. Test: 10 episodes with the mean action at "
        "the end. "
        "Brackets: 95% bootstrap intervals over runs, from five runs on.",
        "",
        "| task | algorithm | runs | final, mean | final, IQM | area, mean | area, IQM | test, mean |",
        "|---|---|---:|---|---|---|---|---|",
    ]
    sheet, axes = figure(1, len(TASKS), width=3.4)
    gaps = []
    for axis, env in zip(axes[0], TASKS, strict=True):
        scores = {}
        for algo in ("toppo", "ppo"):
            curves = group(env, algo)
            if not curves:
                continue
            pairs = np.array([final_and_area(c, STEPS) for c in curves])
            tests = np.array([np.mean(c["test_returns"]) for c in curves])
            scores[algo] = pairs
            cellsof = [
                bootstrap([pairs[:, 0]], pooled(mean)),
                bootstrap([pairs[:, 0]], pooled(iqm)),
                bootstrap([pairs[:, 1]], pooled(mean)),
            ]
            cellsof += [bootstrap([pairs[:, 1]], pooled(iqm)), bootstrap([tests], pooled(mean))]
            text.append(
                f"| {env} | {algo} | {len(curves)} | " + " | ".join(show(e, len(curves)) for e in cellsof) + " |"
            )
            rows = np.stack([c["return"] for c in curves])
            for row in rows:
                axis.plot(curves[0]["grid"], row, color=COLOURS[algo], alpha=0.25, linewidth=0.7)
            axis.plot(
                curves[0]["grid"],
                np.nanmean(rows, 0),
                color=COLOURS[algo],
                linewidth=1.8,
                label=f"{algo} ({len(rows)} runs)",
            )
        if len(scores) == 2:
            differences = [bootstrap([scores["toppo"][:, i], scores["ppo"][:, i]], difference) for i in (0, 1)]
            gaps.append((env, *differences, min(map(len, scores.values()))))
        axis.set_title(env, fontsize=10)
        axis.set_xlabel("environment steps", fontsize=9)
        if scores:
            axis.legend(fontsize=8, frameon=False)
    axes[0, 0].set_ylabel("return of training episodes", fontsize=9)
    save(sheet, RESULTS / "learning.png")
    text += ["", "ToPPO minus PPO, difference of means:", "", "| task | final | area |", "|---|---|---|"]
    text += [f"| {env} | {show(final, n)} | {show(area, n)} |" for env, final, area, n in gaps]
    text += [
        "",
        "![learning curves](learning.png)",
        "",
        f"## Reset at the start of every batch, or continue episodes (ToPPO, first {RESET_STEPS:,} steps)",
        "",
    ]
    text += ["| task | arm | runs | final, mean | area, mean |", "|---|---|---:|---|---|"]
    for env in RESET_TASKS:
        arms = {"reset": group(env, "toppo"), "continue": group(env, "toppo", reset_each_batch=False)}
        values = {k: np.array([final_and_area(c, RESET_STEPS) for c in v]) for k, v in arms.items() if v}
        for name, v in values.items():
            text.append(
                f"| {env} | {name} | {len(v)} | "
                + " | ".join(show(bootstrap([v[:, i]], pooled(mean)), len(v)) for i in (0, 1))
                + " |"
            )
        if len(values) == 2:
            both = [bootstrap([values["reset"][:, i], values["continue"][:, i]], difference) for i in (0, 1)]
            least = min(map(len, values.values()))
            text.append(f"| {env} | reset minus continue | | {show(both[0], least)} | {show(both[1], least)} |")
    (RESULTS / "README.md").write_text("\n".join(text) + "\n")
    print("\n".join(text))


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
        report()


if __name__ == "__main__":
    main()
