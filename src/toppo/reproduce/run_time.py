"""Run times: milliseconds per thousand steps of every algorithm, by part, in one run on one machine.

Environments are stepped in this process, before everything else.  The critic trains beside the policy unless the policy
may stop early; ``value`` is the time that the loop still waits for it.
"""

import json
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import numpy as np
from matplotlib.figure import Figure

from toppo.algos import REGISTRY
from toppo.learn.session import open_session
from toppo.learn.setup import initial_state
from toppo.plotting import add_legend, save_png_and_pdf, set_labels, subplots, write_output
from toppo.runs.presets import spec_for
from toppo.runs.run import setup_for

ENV = "HalfCheetah-v5"
COMPILING = 8  # iterations: every number of batches occurs among them, except for DISC, whose memory still grows
COLOURS = {"collect": "#c9d6df", "label": "#9fb8ad", "update": "#0b6e99", "select": "#b08900", "value": "#d1603d"}


def measure_run_times(algos: Iterable[str], env: str, iterations: int, seed: int = 0) -> dict[str, dict[str, float]]:
    """Return the medians of every algorithm by part: milliseconds per thousand steps.

    The algorithms take turns, an iteration of each, so that a slow minute of the machine slows them all.
    """
    specs = [spec_for(env, algo, 10**9, seed, "paper") for algo in algos]
    with ExitStack() as stack:
        sessions = [stack.enter_context(open_session(setup_for(spec, env), env)) for spec in specs]
        loops = [session.train(initial_state(session.setup)) for session in sessions]
        rounds = [[next(loop).seconds for loop in loops] for _ in range(COMPILING + iterations)][COMPILING:]
    return {
        spec.algo: {part: 1e6 / spec.config.n_steps * median(laps[i][part] for laps in rounds) for part in COLOURS}
        for i, spec in enumerate(specs)
    }


def make_figure(scale: str, out: Path, echo: Callable[[str], None]) -> None:
    """Measure the run times of all algorithms and draw them."""
    iterations = 20 if scale == "quick" else 200
    measured = f"one run of each, seed 0, {iterations} iterations"
    times = measure_run_times(REGISTRY, ENV, iterations)
    echo(f"medians of {measured}")
    for algo, parts in times.items():
        shares = ", ".join(f"{part} {ms:.1f}" for part, ms in parts.items())
        echo(f"{algo:<6} {sum(parts.values()):7.1f} ms per 1000 steps: {shares}")
    data = {"scale": scale, "measured": measured, "milliseconds_per_1000_steps": times}
    write_output(out / "run-time.json", json.dumps(data, indent=1).encode() + b"\n")
    quick_run = "20 iterations instead of 200; they do not fill the memory of DISC" if scale == "quick" else ""
    save_png_and_pdf(draw(times, measured), out, "run-time", quick_run)


def draw(times: dict[str, dict[str, float]], measured: str) -> Figure:
    """Draw a bar for every algorithm, with a colour for every part."""
    figure, axes = subplots(1, 1, width=6.5, height=3.4)
    axis = axes[0, 0]
    left = np.zeros(len(times))
    for part, colour in COLOURS.items():
        width = np.array([parts[part] for parts in times.values()])
        axis.barh([REGISTRY[algo].title for algo in times], width, left=left, color=colour, label=part)
        left += width
    axis.invert_yaxis()
    set_labels(axis, f"milliseconds per 1000 environment steps ({ENV}, one process)\nmedians of {measured}")
    add_legend(axis, ncols=len(COLOURS), loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return figure
