"""Figures for people: labelled, readable, the same style everywhere."""

import io
import re
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from toppo.errors import IO_ERROR, ToppoError
from toppo.report.compare import Aggregate, Group, Scores, filled, of_runs
from toppo.report.load import Run, run_from_directory
from toppo.report.statistics import (
    MIN_FOR_INTERVAL,
    MIN_FOR_IQM,
    band,
    bootstrap,
    iqm,
    mean,
    performance_profile,
    pooled,
    profile_band,
)
from toppo.rundir.files import refuse_to_write
from toppo.rundir.layout import write_bytes

COLOURS = {
    "toppo": "#0b7fb0",
    "ppo": "#d1603d",
    "geppo": "#6a994e",
    "trpo": "#8a6bbf",
    "otrpo": "#b08900",
    "oppo": "#7f8ea3",
    "disc": "#bc4b8a",
}
MORE_COLOURS = ("#e08214", "#1b9e9e", "#5e81c4", "#c05a7a", "#8c9a2b", "#a0705a", "#6d6ab8", "#3f9b62")
INK = "#1b1f24"  # on a page it becomes the colour of the text
REHEARSAL = "rehearsal, no conclusion"
BANDS = ("bootstrap", "std")
MIN_SCORE, MAX_SCORE = -1.0, 5.0  # of a profile: one run far off would press all others together


def figure(rows: int, columns: int, width: float = 4.2, height: float = 3.1) -> tuple[Any, Any]:
    """A figure and its axes [rows, columns] in the house style; needs no display."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    sheet = Figure(figsize=(width * columns, height * rows), layout="constrained")
    FigureCanvasAgg(sheet)
    axes = sheet.subplots(rows, columns, squeeze=False)
    for axis in axes.flat:
        axis.spines[["top", "right"]].set_visible(False)
        for part in axis.spines.values():
            part.set_color(INK)
        axis.grid(alpha=0.25, linewidth=0.6)
        axis.tick_params(which="both", labelsize=8, colors=INK)
    return sheet, axes


def panels(count: int, width: float = 4.2, height: float = 3.1) -> tuple[Any, list[Any]]:
    """A figure with so many axes, at most three in a row."""
    columns = 2 if count == 4 else min(count, 3)
    sheet, axes = figure(-(-count // columns), columns, width, height)
    for axis in axes.flat[count:]:
        axis.remove()
    return sheet, list(axes.flat[:count])


def save(sheet: Any, out: Path) -> None:
    """Write the figure; the ending of the name decides the format."""
    import matplotlib

    fixed = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}}  # no clock in a picture
    picture = io.BytesIO()
    try:
        if not out.suffix:
            raise ValueError("its name does not end in .png, .pdf or .svg")
        with matplotlib.rc_context({"svg.hashsalt": "toppo"}):
            sheet.savefig(picture, format=out.suffix[1:], dpi=150, metadata=fixed.get(out.suffix))
    except ValueError as error:
        raise ToppoError(f"{out} cannot be written: {error}", IO_ERROR) from error
    write_output(out, picture.getvalue())


def write_output(out: Path, data: bytes) -> None:
    """Write a page or a picture where the user wants it, or a sentence."""
    refuse_to_write(out)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(out, data)
    except OSError as error:
        raise ToppoError(f"{out} cannot be written: {error.strerror}", IO_ERROR) from error


def save_both(sheet: Any, folder: Path, name: str) -> None:
    """Write the figure for a screen and for a paper: PNG and PDF."""
    for ending in (".png", ".pdf"):
        save(sheet, folder / f"{name}{ending}")


def svg(sheet: Any, name: str) -> str:
    """The figure as an element of a page: text stays text, ink takes the colour of the page, ids are its own."""
    import matplotlib

    text = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        sheet.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    body = text.getvalue()
    body = body[body.index("<svg") :].replace(INK, "currentColor").replace("#000000", "currentColor")
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(r' d="[^"]*"', _hundredths, body)
    body = re.sub(r'\bid="', f'id="{name}-', body)
    return re.sub(r'(url\(#|href="#)', rf"\g<1>{name}-", body)


def _hundredths(path: re.Match[str]) -> str:
    # finer than a screen shows, and a quarter of the page saved
    return re.sub(r"(\.\d\d)\d+", r"\1", path[0]).replace(" \n", "\n")


def label(axis: Any, text: str, **where: Any) -> None:
    """A title that is never read as a formula."""
    axis.set_title(text, fontsize=10, color=INK, parse_math=False, **where)


def legend(where: Any, **how: Any) -> None:
    """A legend in the house style, of an axis or of a whole sheet."""
    for text in where.legend(fontsize=8, frameon=False, labelcolor=INK, **how).get_texts():
        text.set_parse_math(False)


def colours_of(arms: Sequence[str]) -> dict[str, str]:
    """A colour for every arm: the algorithms keep theirs."""
    others = [a for a in dict.fromkeys(arms) if a not in COLOURS]
    return COLOURS | {a: MORE_COLOURS[i % len(MORE_COLOURS)] for i, a in enumerate(others)}


def values_of(run: Run, series: str) -> np.ndarray:
    """The series of that name, without a name the returns; gaps take the value before them."""
    return filled(run.series.get(series, np.full(len(run.grid), np.nan)) if series else run.returns)


def with_curve(group: Group, series: str = "") -> list[Run]:
    """The runs of an arm that have something to be drawn."""
    return [r for r in group.runs if not np.isnan(values_of(r, series)).all()]


def draw_curves(axis: Any, groups: list[Group], colours: dict[str, str], shading: str, series: str = "") -> None:
    """Curves of the arms on one environment: the mean; from five runs on its interval, below that every run."""
    from matplotlib.ticker import EngFormatter

    for group in groups:
        runs = with_curve(group, series)
        x = min((r.grid for r in runs), key=lambda grid: grid[-1], default=np.zeros(0))  # as far as all have come
        rows = np.array([np.interp(x, r.grid, values_of(r, series)) for r in runs])
        known = ~np.isnan(rows).any(axis=0)
        x, rows, colour = x[known], rows[:, known], colours[group.arm]
        if not len(x):
            continue
        axis.plot(x, mean(rows.T), color=colour, linewidth=1.7, label=group.arm)
        if shading == "std" and len(rows) > 1:
            middle, spread = rows.mean(axis=0), rows.std(axis=0)
            axis.fill_between(x, middle - spread, middle + spread, color=colour, alpha=0.18, linewidth=0)
        elif len(rows) >= MIN_FOR_INTERVAL:
            axis.fill_between(x, *band(rows, mean), color=colour, alpha=0.18, linewidth=0)
            axis.plot(x, iqm(rows.T), color=colour, linewidth=1.0, linestyle="--")
        elif len(rows) > 1:
            for row in rows:
                axis.plot(x, row, color=colour, alpha=0.35, linewidth=0.7)
    axis.xaxis.set_major_formatter(EngFormatter(sep=""))  # 200k, 1M
    axis.set_xlabel("environment steps", fontsize=9, color=INK)


def curves_figure(groups: list[Group], shading: str = "bootstrap", series: str = "", name: str = "") -> Any:
    """Learning curves, one panel per environment, and one legend that covers none of them."""
    envs, colours = list(dict.fromkeys(g.env for g in groups)), colours_of([g.arm for g in groups])
    sheet, axes = panels(len(envs))
    for axis, env in zip(axes, envs, strict=True):
        draw_curves(axis, [g for g in groups if g.env == env], colours, shading, series)
        label(axis, env)
    lines = {arm: line for axis in axes for line, arm in zip(*axis.get_legend_handles_labels(), strict=True)}
    counts = {arm: [len(with_curve(g, series)) for g in groups if g.arm == arm] for arm in lines}
    names = [f"{arm} ({of_runs(*counts[arm])})" for arm in lines]
    columns = round(sheet.get_figwidth() / 2.1)
    sheet.set_figheight(sheet.get_figheight() + 0.2 * -(-len(names) // columns))
    if names:
        legend(sheet, handles=list(lines.values()), labels=names, loc="outside lower center", ncols=columns)
    axes[0].set_ylabel(name or "return of training episodes", fontsize=9, color=INK)
    return sheet


def finals_figure(groups: list[Group], shading: str = "bootstrap") -> Any:
    """Final returns, one panel per environment: every run a dot, the mean a bar, around it what a curve has too."""
    envs, colours = list(dict.fromkeys(g.env for g in groups)), colours_of([g.arm for g in groups])
    most = max(sum(g.env == env for g in groups) for env in envs)
    sheet, axes = panels(len(envs), height=1.1 + 0.3 * most)
    for axis, env in zip(axes, envs, strict=True):
        here = [g for g in groups if g.env == env]
        for place, group in enumerate(here):
            final, colour = group.final(), colours[group.arm]
            axis.scatter(final, np.full(len(final), place), color=colour, s=14, alpha=0.6, linewidth=0)
            axis.scatter([final.mean()], [place], color=colour, marker="|", s=220, linewidth=2.2)
            if shading == "std":
                limits = (final.mean() - final.std(), final.mean() + final.std())
            else:
                limits = bootstrap([final], pooled(mean))[1:3]
            if len(final) > 1 and limits[0] is not None:
                axis.plot(limits, [place, place], color=colour, linewidth=4, alpha=0.35)
        budget = max(g.budget for g in here)
        fewer = {g.arm: f"\nafter {g.budget:,} steps" for g in here if g.budget < budget}
        names = [f"{g.arm} ({len(g.runs)}){fewer.get(g.arm, '')}" for g in here]
        axis.set_yticks(range(len(here)), names, fontsize=8, color=INK, parse_math=False)
        axis.set_ylim(len(here) - 0.5, -0.5)
        label(axis, env)
        axis.locator_params(axis="x", nbins=5)
        axis.set_xlabel("final return (runs in brackets)", fontsize=9, color=INK)
    return sheet


def profile_figure(scores: Scores) -> Any:
    """Share of runs above a score, for every score; from five runs per task on its interval."""
    pool = np.concatenate([s for strata in scores.arms.values() for s in strata])
    low, high = max(MIN_SCORE, min(0.0, pool.min())), min(MAX_SCORE, max(1.2, pool.max()))
    levels, colours = np.linspace(low, high, 201), colours_of(list(scores.arms))
    sheet, axes = figure(1, 1, width=6.0, height=3.6)
    for arm, strata in scores.arms.items():
        runs = of_runs(sum(map(len, strata)))
        axes[0, 0].plot(levels, performance_profile(strata, levels), color=colours[arm], label=f"{arm} ({runs})")
        if min(map(len, strata)) >= MIN_FOR_INTERVAL:
            axes[0, 0].fill_between(levels, *profile_band(strata, levels), color=colours[arm], alpha=0.18, linewidth=0)
    axes[0, 0].set_xlabel("score: 0 is a random policy, 1 the mean final return of ppo", fontsize=9, color=INK)
    axes[0, 0].set_ylabel("share of runs above it", fontsize=9, color=INK)
    beyond = {f"below {low:g}": int(np.sum(pool < low)), f"above {high:g}": int(np.sum(pool > high))}
    if any(beyond.values()):
        label(axes[0, 0], "not shown: " + ", ".join(f"{of_runs(n)} {where}" for where, n in beyond.items() if n))
    legend(axes[0, 0])
    return sheet


def aggregates_figure(found: list[Aggregate]) -> Any:
    """IQM, optimality gap and probability of improvement of every arm."""
    few = any(sum(a.runs) < MIN_FOR_IQM for a in found)
    middle = f"IQM (below {MIN_FOR_IQM} runs: mean)" if few else "IQM"
    colours, parts = colours_of([a.arm for a in found]), (middle, "optimality gap", "P(toppo is better)")
    sheet, axes = figure(1, 3, width=3.6, height=1.2 + 0.3 * len(found))
    for axis, name, pick in zip(axes[0], parts, ("iqm", "gap", "improvement"), strict=True):
        for place, aggregate in enumerate(found):
            estimate, colour = getattr(aggregate, pick), colours[aggregate.arm]
            if estimate is None:
                continue
            axis.scatter([estimate.value], [place], color=colour, marker="|", s=200, linewidth=2.2)
            if estimate.low is not None:
                axis.plot([estimate.low, estimate.high], [place, place], color=colour, linewidth=4, alpha=0.4)
        names = [f"{a.arm} ({of_runs(*a.runs)} per task)" for a in found]
        axis.set_yticks(range(len(found)), names, fontsize=8, color=INK, parse_math=False)
        axis.set_ylim(len(found) - 0.5, -0.5)
        label(axis, name)
    axes[0, 2].axvline(0.5, color=INK, alpha=0.4, linewidth=0.8)
    return sheet


def rehearse(sheet: Any, why: str) -> None:
    """Say on the figure that nothing follows from it, and why."""
    letters = int(15 * sheet.get_figwidth())  # that fit into a line
    sheet.suptitle(textwrap.fill(f"{REHEARSAL}: {why}", letters), fontsize=9, color="#b03030")


def learning_curves(runs: Sequence[Path], out: Path) -> None:
    """Learning curves of run directories into a picture."""
    found = [run_from_directory(root) for root in runs]
    keys = sorted({(r.env, r.algo) for r in found})
    groups = [
        Group(algo, env, [r._replace(arm=algo) for r in found if (r.env, r.algo) == (env, algo)]) for env, algo in keys
    ]
    save(curves_figure(groups), out)
