"""The report: one HTML file that needs nothing else, and the same figures for papers."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from toppo.errors import CANNOT_CREATE, ToppoError
from toppo.plotting import QUICK_RUN, mark_quick_run, save_png_and_pdf, to_svg, write_output
from toppo.report import atari, tables
from toppo.report.compare import Group, aggregates_of, count_runs, groups_of, pairs_of, scores_of
from toppo.report.figures import (
    BANDS,
    aggregates_figure,
    curves_figure,
    finals_figure,
    profile_figure,
    runs_with_curve,
)
from toppo.report.load import Loaded, clean
from toppo.report.tables import Cell, number
from toppo.rundir.files import refuse_to_write

MAX_COMMAND = 1000  # letters


class Part(NamedTuple):
    """A section of the page."""

    id: str
    title: str
    text: str = ""
    figure: Any = None
    caption: str = ""
    columns: tuple[str, ...] = ()
    rows: list[list[Cell]] = []  # noqa: RUF012 - never changed


class About(NamedTuple):
    """What the page says of itself."""

    title: str
    command: str
    band: str = "bootstrap"
    quick_run: str = ""  # why nothing follows from it


def write_report(loaded: Loaded, out: Path, about: About) -> None:
    """Write the page, and every figure as PNG and PDF beside it."""
    if about.band not in BANDS:
        raise ToppoError(f"band is {about.band!r}, but must be one of {', '.join(BANDS)}")
    figures = out.with_name(f"{out.stem}-figures")
    refuse_to_write(out)
    if figures.is_symlink():
        raise ToppoError(f"{figures} is a link: remove it, or choose another --out", CANNOT_CREATE)
    parts = parts_of(loaded, about.band)
    for part in parts:
        if part.figure is not None:
            if about.quick_run:
                mark_quick_run(part.figure, about.quick_run)
            save_png_and_pdf(part.figure, figures, part.id)
    write_output(out, render(loaded, parts, about).encode())


def render(loaded: Loaded, parts: list[Part], about: About) -> str:
    """The page.  All text is escaped; the only markup that passes are our own drawings."""
    pages = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    groups, command = groups_of(loaded), clean(about.command, MAX_COMMAND)
    shown = [
        p._asdict() | {"svg": Markup(to_svg(p.figure, p.id)) if p.figure is not None else "", "again": command}
        for p in parts
    ]
    return pages.get_template("page.html").render(
        title=clean(about.title),
        command=command,
        quick_run=f"{QUICK_RUN}: {about.quick_run}" if about.quick_run else "",
        runs=count_runs(len(loaded.runs)),
        arms=list(dict.fromkeys(g.arm for g in groups)),
        envs=list(dict.fromkeys(g.env for g in groups)),
        summary=tables.summary(groups, pairs_of(groups))
        + tables.across_tasks(aggregates_of(scores_of(groups, loaded.random))),
        problems=loaded.problems,
        parts=shown,
    )


def parts_of(loaded: Loaded, band: str) -> list[Part]:
    """All sections after the summary."""
    groups = groups_of(loaded)
    spread = "95% bootstrap interval of the mean" if band == "bootstrap" else "one standard deviation"
    shade = f"{spread} (dashed: IQM); below five runs, every run" if band == "bootstrap" else spread
    parts = [
        Part(
            "curves",
            "Learning curves",
            figure=curves_figure(groups, band),
            caption=f"Mean return of the training episodes that ended between two points of a grid. Shaded: {shade}.",
        ),
        Part(
            "finals",
            "Final returns",
            "Final: mean return of the training episodes in the last tenth of the steps. Area: mean return over all "
            "steps. Test: 10 episodes with the most likely action at the end. Brackets: 95% stratified bootstrap "
            "intervals over runs, from five runs on; below four runs the IQM is the mean. Bold: the highest mean final "
            "return of the arms with the most steps.",
            finals_figure(groups, band),
            f"Every run a dot, the mean a bar. Band: {spread}.",
            tables.FINAL_COLUMNS,
            tables.finals(groups),
        ),
    ]
    pairs = pairs_of(groups)
    if pairs:
        parts.append(Part("pairs", "Differences", columns=tables.PAIR_COLUMNS, rows=tables.pairs(pairs)))
    return parts + _games(loaded, groups) + _across(loaded, groups) + _rest(groups, band)


def _games(loaded: Loaded, groups: list[Group]) -> list[Part]:
    rows = atari.games(groups, loaded.random)
    if not rows:
        return []
    text = (
        "Score: the final return, of whole atari. Human-normalised: (score - random) / (human - random), by the scores "
        "of random and human play in common use; a random policy was measured here besides."
    )
    over = (
        "Human-normalised scores over the games on which at least one game was finished; below four games the IQM is "
        "the mean."
    )
    return [
        Part("games", "Atari games", text, columns=atari.GAME_COLUMNS, rows=rows),
        Part("games-across", "Across games", over, columns=atari.ACROSS_COLUMNS, rows=atari.across(groups)),
    ]


def _across(loaded: Loaded, groups: list[Group]) -> list[Part]:
    scores = scores_of(groups, loaded.random)
    text = "Score: (final return - random policy) / (mean final return of ppo - random policy)."
    reasons = dict.fromkeys(scores.left_out.values())
    left_out = {why: ", ".join(e for e, w in scores.left_out.items() if w == why) for why in reasons}
    without = "".join(f" Left out: {envs}, {why}." for why, envs in left_out.items())
    if not scores.arms:
        return [Part("aggregates", "Across tasks", f"{text} No task has one.{without}")]
    found = aggregates_of(scores)
    constants = (
        f"{e} {number(scores.zero[e])} and {number(scores.one[e])} after {scores.budget[e]:,} steps"
        for e in scores.zero
    )
    text += f" The two constants: {'; '.join(constants)}."
    if others := sorted({g.arm for g in groups} - set(scores.arms)):
        text += f" Not on all of these tasks, and so left out: {', '.join(others)}."
    text += without
    return [
        Part(
            "aggregates",
            "Across tasks",
            text,
            aggregates_figure(found),
            "IQM: mean of the middle half of all runs of all tasks, of fewer than four runs the mean of all. "
            "Optimality gap: how far runs fall short of 1. "
            "P: probability that a run of toppo beats a run of the other, mean over tasks.",
            tables.AGGREGATE_COLUMNS,
            tables.aggregates(found),
        ),
        Part(
            "profile",
            "Performance profile",
            figure=profile_figure(scores),
            caption="Share of runs above every score, mean over tasks. Shaded, from five runs per task on: 95% "
            "stratified bootstrap interval.",
        ),
    ]


def _rest(groups: list[Group], band: str) -> list[Part]:
    parts = []
    tested = tests_as_curves(groups)
    if drawn := [g for g in tested if runs_with_curve(g)]:
        without = [f"{g.arm} on {g.env} ({_drawn(g)})" for g in tested if len(runs_with_curve(g)) < len(g.runs)]
        parts.append(
            Part(
                "tests",
                "Tests during training",
                figure=curves_figure(drawn, band, y_label="return of test episodes"),
                caption="Mean of 10 episodes with the most likely action, at intervals; as far as all runs were tested."
                + (f" Not all runs were tested: {', '.join(without)}." if without else ""),
            )
        )
    remembering = [g for g in groups if _moves(g)]
    if remembering:
        parts.append(
            Part(
                "memory",
                "Batches in M",
                figure=curves_figure(remembering, band, "memory/size", "|M|"),
                caption="The newest batch included.",
            )
        )
    times = tables.times(groups)
    text = "Median over iterations, mean over runs; whatever else the machine did at the time is in it."
    kept = text if times else "Not kept in compact curves: a report of the run directories shows them."
    parts.append(Part("times", "Run times", kept, columns=tables.TIME_COLUMNS, rows=times))
    parts.append(Part("settings", "Settings", columns=tables.SETTING_COLUMNS, rows=tables.settings(groups)))
    parts.append(Part("versions", "Versions", columns=("package", "version"), rows=tables.versions(groups)))
    return parts


def tests_as_curves(groups: list[Group]) -> list[Group]:
    """Groups whose returns are those of the tests, at the steps of the tests."""
    return [
        g._replace(runs=[r._replace(grid=r.evaluations[:, 0], returns=r.evaluations[:, 1]) for r in g.runs])
        for g in groups
    ]


def _drawn(group: Group) -> str:
    return f"{len(runs_with_curve(group))} of {len(group.runs)}"


def _moves(group: Group) -> bool:
    return any(np.nanmax(r.series.get("memory/size", np.zeros(0)), initial=0) > 1 for r in group.runs)
