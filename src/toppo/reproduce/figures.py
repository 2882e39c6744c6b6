"""What `toppo reproduce` makes: data as JSON, a picture, and a few sentences."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from toppo.algos import REGISTRY
from toppo.errors import BAD_DATA, ToppoError
from toppo.plotting import COLOURS, mark_quick_run, save_png_and_pdf, subplots, write_output
from toppo.report.text import counted
from toppo.reproduce.run_time import PARTS, measure_run_times
from toppo.reproduce.two_action import two_action_values
from toppo.reproduce.v_ratio import Measurement, measure_during_training
from toppo.rundir.layout import read_json

Echo = Callable[[str], None]
ROW: dict[str, type] = {"env": str, "algo": str, "seed": int} | Measurement.__annotations__


class Figure(NamedTuple):
    """A figure of the paper: what it shows, and the function that makes it for a scale."""

    text: str
    make: Callable[[str, Path, Echo], None]


def v_ratio(scale: str, out: Path, echo: Echo) -> None:
    """The V ratio during training, and the two-action example."""
    quick = scale == "quick"
    steps, every, states, rollouts, seeds = (100_000, 20_000, 12, 4, 1) if quick else (10**6, 50_000, 64, 8, 10)
    tasks = ("HalfCheetah-v5", "Hopper-v5", "Swimmer-v5")
    rows = measured_before(out / "v-ratio.json", scale)
    done = {(r["env"], r["algo"], r["seed"]) for r in rows}
    for env in tasks:
        for algo in ("geppo", "toppo"):
            for seed in range(seeds):
                if (env, algo, seed) in done:
                    continue
                found = measure_during_training(algo, env, steps, every, states, rollouts, seed)
                rows += [{"env": env, "algo": algo, "seed": seed, **m._asdict()} for m in found]
                write(out, "v-ratio", {"scale": scale, "rows": rows})
                middle, noise = (np.median([getattr(m, name) for m in found]) for name in ("ratio", "noise"))
                echo(f"{env}, {algo}, seed {seed}: median V ratio {middle:.3f}, of which sampling noise {noise:.3f}")
    sheet, axes = subplots(1, 4, width=3.6)
    for axis, env in zip(axes[0], tasks, strict=False):
        for algo in ("geppo", "toppo"):
            mine = [r for r in rows if r["env"] == env and r["algo"] == algo]
            if not mine:  # no old batch was ever kept
                continue
            speaks_of = "V-trace, pi_k" if algo == "geppo" else "GAE, mu"
            for name, style, label in (("ratio", "-", f"{REGISTRY[algo].title}: {speaks_of}"), ("noise", ":", None)):
                axis.plot(*over_seeds(mine, name), style, color=COLOURS[algo], label=label, linewidth=1.6)
        axis.set_title(f"{env} ({counted('run', seeds)})", fontsize=10)
        axis.set_xlabel("environment steps", fontsize=9)
        axis.set_yscale("log")
    axes[0, 0].set_ylabel("sum |V - V_hat| / sum |V|\n(dotted: sampling noise)", fontsize=8)
    axes[0, 0].legend(fontsize=8, frameon=False)
    draw_two_action(axes[0, 3])
    if quick:
        mark_quick_run(sheet, f"{steps:,} steps instead of 1,000,000, {seeds} of 10 seeds")
    save_png_and_pdf(sheet, out, "v-ratio")


def over_seeds(rows: list[dict[str, Any]], name: str) -> tuple[np.ndarray, np.ndarray]:
    """Steps, and the mean of a measurement over all seeds there: a look that came late is read off between looks."""
    seeds = [[r for r in rows if r["seed"] == seed] for seed in sorted({r["seed"] for r in rows})]
    steps = [np.array([r["step"] for r in mine]) for mine in seeds]
    grid = np.unique(np.concatenate(steps))
    grid = grid[(grid >= max(s[0] for s in steps)) & (grid <= min(s[-1] for s in steps))]  # where all seeds have looked
    lines = [np.interp(grid, s, [r[name] for r in mine]) for s, mine in zip(steps, seeds, strict=True)]
    return grid, np.asarray(np.mean(lines, axis=0))


def draw_two_action(axis: Any) -> None:
    """Values of pi, of mu and of V-trace's fixed point against phi."""
    phi = np.linspace(0.001, 0.5, 200)
    values = two_action_values(phi)
    for name, line, colour in (("V of pi", values.pi, "#333333"), ("V of mu", values.mu, "#999999")):
        axis.plot(phi, line, color=colour, label=name)
    axis.plot(phi, values.vtrace, color=COLOURS["geppo"], label="V-trace's fixed point")
    axis.set_title("two actions, mu = (φ, 1-φ), pi = (1-φ, φ)", fontsize=9)
    axis.set_xlabel("φ", fontsize=9)
    axis.set_ylabel("value (1 - γ)", fontsize=9)
    axis.legend(fontsize=8, frameon=False)


def run_time(scale: str, out: Path, echo: Echo) -> None:
    """Milliseconds per thousand environment steps, by part, for all algorithms."""
    iterations = 20 if scale == "quick" else 200
    measured = f"one run of each, seed 0, {iterations} iterations"
    times = measure_run_times(list(REGISTRY), "HalfCheetah-v5", iterations)
    echo(f"medians of {measured}")
    for t in times:
        echo(f"{t.algo:<6} {t.total:7.1f} ms per 1000 steps: " + ", ".join(f"{k} {v:.1f}" for k, v in t.parts.items()))
    parts = {t.algo: t.parts for t in times}
    write(out, "run-time", {"scale": scale, "measured": measured, "milliseconds_per_1000_steps": parts})
    sheet, axes = subplots(1, 1, width=6.5, height=3.4)
    axis, left = axes[0, 0], np.zeros(len(times))
    for part, shade in zip(PARTS, ("#c9d6df", "#9fb8ad", "#0b6e99", "#b08900", "#d1603d"), strict=True):
        width = np.array([t.parts[part] for t in times])
        axis.barh([REGISTRY[t.algo].title for t in times], width, left=left, color=shade, label=part)
        left = left + width
    axis.invert_yaxis()
    axis.set_xlabel(
        f"milliseconds per 1000 environment steps (HalfCheetah-v5, one process)\nmedians of {measured}", fontsize=9
    )
    axis.legend(fontsize=8, frameon=False, ncols=len(PARTS), loc="lower center", bbox_to_anchor=(0.5, 1.0))
    if scale == "quick":
        mark_quick_run(sheet, "20 iterations instead of 200, in which the memory of DISC does not fill")
    save_png_and_pdf(sheet, out, "run-time")


def measured_before(path: Path, scale: str) -> list[dict[str, Any]]:
    """The rows of runs that were finished before this was stopped."""
    if not path.exists():
        return []
    data = read_json(path)
    try:
        rows = data["rows"] if data["scale"] == scale else []
        return [{name: kind(row[name]) for name, kind in ROW.items()} for row in rows]
    except (KeyError, TypeError, ValueError) as error:
        raise ToppoError(
            f"{path} is not what this figure writes: move it away, or choose another --out", BAD_DATA
        ) from error


def write(out: Path, name: str, data: Any) -> None:
    """Keep the data beside the picture."""
    write_output(out / f"{name}.json", json.dumps(data, indent=1).encode() + b"\n")


FIGURES = {
    "v-ratio": Figure("values estimated by V-trace (GePPO) and by GAE (ToPPO) against Monte-Carlo returns", v_ratio),
    "run-time": Figure("time per 1000 steps of every algorithm, by part, in one run of each", run_time),
}
