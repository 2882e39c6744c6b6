"""The pictures of the guides, from what docs/results holds.

python docs/site/figures.py docs/img
"""

import json
import sys
from pathlib import Path
from statistics import mean, median

import numpy as np

from toppo.plotting import COLOURS, INK, panels, save, set_labels, set_rows, set_title
from toppo.report.compare import mean_return
from toppo.report.curves import Run
from toppo.report.load import FINAL_SHARE, load

RESULTS = Path(__file__).parents[1] / "results"
ARMS = ["toppo", "ppo", "geppo"]
TASKS = ["HalfCheetah-v5", "Hopper-v5", "Swimmer-v5"]
MILLION = 1_000_000
SPEEDS = {
    "toppo PPO, 1 env": "toppo PPO, one environment",
    "toppo ToPPO, 1 env": "toppo ToPPO, one environment",
    "Stable-Baselines3, 1 env": "Stable-Baselines3 PPO, one environment",
}


def seeds(out: Path) -> None:
    """Draw the final return of every run, by algorithm: how much seeds differ."""
    runs = [run for run in load(RESULTS / "learning").runs if run.arm in ARMS and run.budget == MILLION]
    figure, axes = panels(len(TASKS), height=2.2)
    for axis, task in zip(axes, TASKS, strict=True):
        for row, arm in enumerate(ARMS):
            finals = [_final(run) for run in runs if (run.env, run.arm) == (task, arm)]
            axis.plot(finals, np.full(len(finals), row), "o", color=COLOURS[arm], alpha=0.7, markersize=6)
            axis.plot([mean(finals)] * 2, [row - 0.3, row + 0.3], color=INK, linewidth=1.5)
        set_rows(axis, ARMS)
        set_title(axis, task)
        set_labels(axis, "final return, one dot per seed")
    save(figure, out / "seeds.png")


def _final(run: Run) -> float:
    return mean_return(run, MILLION * (1 - FINAL_SHARE), MILLION)


def speed(out: Path) -> None:
    """Draw the steps per second of toppo and Stable-Baselines3 with one environment each, updates included."""
    measured = json.loads((RESULTS / "throughput-sb3" / "results.json").read_text())["tasks"]["HalfCheetah-v5"]
    figure, [axis] = panels(1, width=7, height=1.8)
    rates = [median(measured[name]) for name in SPEEDS]
    axis.barh(range(len(rates)), rates, color=[COLOURS["ppo"], COLOURS["toppo"], COLOURS["oppo"]])
    for row, rate in enumerate(rates):
        axis.text(rate, row, f" {rate:,.0f}", va="center", fontsize=8, color=INK)
    axis.set_xlim(0, 1.15 * max(rates))
    set_rows(axis, list(SPEEDS.values()))
    set_labels(axis, "HalfCheetah-v5, steps per second on two cores, updates included")
    save(figure, out / "speed.png")


def draw(out: Path) -> None:
    """Draw all pictures."""
    seeds(out)
    speed(out)


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
