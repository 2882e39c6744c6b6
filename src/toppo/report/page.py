"""The report: one HTML file that needs nothing else, and the same figures for papers."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from toppo.errors import IO_ERROR, ToppoError
from toppo.report import games, tables
from toppo.report.compare import Group, aggregates_of, groups_of, pairs_of, scores_of
from toppo.report.figures import (
    BANDS,
    REHEARSAL,
    aggregates_figure,
    curves_figure,
    finals_figure,
    profile_figure,
    rehearse,
    save_both,
    svg,
)
from toppo.report.load import Loaded, clean, load
from toppo.report.tables import Cell


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
    rehearsal: str = ""  # why nothing follows from it


def write_report(root: Path, out: Path, about: About) -> list[str]:
    """Write the page, and every figure as PNG and PDF beside it; what to know about the data is returned."""
    if about.band not in BANDS:
        raise ToppoError(f"band is {about.band!r}, but must be one of {', '.join(BANDS)}")
    loaded = load(root)
    parts = parts_of(loaded, about.band)
    for part in parts:
        if part.figure is not None:
            if about.rehearsal:
                rehearse(part.figure, about.rehearsal)
            save_both(part.figure, out.with_name(f"{out.stem}-figures"), part.id)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(render(loaded, parts, about), encoding="utf-8")
    except OSError as error:
        raise ToppoError(f"{out} cannot be written: {error.strerror}", IO_ERROR) from error
    return loaded.problems


def render(loaded: Loaded, parts: list[Part], about: About) -> str:
    """The page.  All text is escaped; the only markup that passes are our own drawings."""
    pages = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    groups = groups_of(loaded)
    shown = [
        p._asdict() | {"svg": Markup(svg(p.figure, p.id)) if p.figure is not None else "", "again": about.command}
        for p in parts
    ]
    return pages.get_template("page.html").render(
        title=clean(about.title),
        command=clean(about.command, 200),
        rehearsal=f"{REHEARSAL}: {about.rehearsal}" if about.rehearsal else "",
        runs=len(loaded.runs),
        arms=list(dict.fromkeys(g.arm for g in groups)),
        envs=list(dict.fromkeys(g.env for g in groups)),
        summary=tables.summary(groups, pairs_of(groups)),
        problems=loaded.problems,
        parts=shown,
    )


def parts_of(loaded: Loaded, band: str) -> list[Part]:
    """All sections after the summary."""
    groups = groups_of(loaded)
    few = "below five runs, every run" if band == "bootstrap" else "one standard deviation"
    shade = "95% bootstrap interval of the mean (dashed: IQM); " + few if band == "bootstrap" else few
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
            "intervals over runs, from five runs on; below four runs the IQM is the mean.",
            finals_figure(groups),
            "Every run a dot, the mean a bar, its interval a band.",
            tables.FINAL_COLUMNS,
            tables.finals(groups),
        ),
    ]
    pairs = pairs_of(groups)
    if pairs:
        parts.append(Part("pairs", "Differences", columns=tables.PAIR_COLUMNS, rows=tables.pairs(pairs)))
    return parts + _games(loaded, groups) + _across(loaded, groups) + _rest(groups, band)


def _games(loaded: Loaded, groups: list[Group]) -> list[Part]:
    rows = games.games(groups, loaded.random)
    if not rows:
        return []
    text = (
        "Score: the final return, of whole games. Human-normalised: (score - random) / (human - random), by the scores "
        "of random and human play in common use; a random policy was measured here besides."
    )
    over = "Human-normalised scores over the games on which at least one game was finished."
    return [
        Part("games", "Atari games", text, columns=games.GAME_COLUMNS, rows=rows),
        Part("games-across", "Across games", over, columns=games.ACROSS_COLUMNS, rows=games.across(groups)),
    ]


def _across(loaded: Loaded, groups: list[Group]) -> list[Part]:
    scores = scores_of(groups, loaded.random)
    if scores is None:
        return []
    found = aggregates_of(scores)
    left_out = sorted({g.arm for g in groups} - set(scores.arms))
    constants = "; ".join(f"{e}: {scores.zero[e]:.4g} and {scores.one[e]:.4g}" for e in scores.zero)
    text = (
        "Score: (final return - random policy) / (mean final return of ppo - random policy). "
        f"The two constants: {constants}."
        + (f" Not on all of these tasks, and so left out: {', '.join(left_out)}." if left_out else "")
        + "".join(f" Left out: {env}, {why}." for env, why in scores.left_out.items())
    )
    return [
        Part(
            "aggregates",
            "Across tasks",
            text,
            aggregates_figure(found),
            "IQM: mean of the middle half of all runs of all tasks. Optimality gap: how far runs fall short of 1. "
            "P: probability that a run of toppo beats a run of the other, mean over tasks.",
            tables.AGGREGATE_COLUMNS,
            tables.aggregates(found),
        ),
        Part(
            "profile", "Performance profile", figure=profile_figure(scores), caption="Share of runs above every score."
        ),
    ]


def _rest(groups: list[Group], band: str) -> list[Part]:
    parts = []
    tested = [g for g in groups if all(len(r.evaluations) for r in g.runs)]
    if tested:
        parts.append(
            Part(
                "tests",
                "Tests during training",
                figure=curves_figure(tests_as_curves(tested), band, name="return of test episodes"),
                caption="Mean of 10 episodes with the most likely action, at intervals.",
            )
        )
    remembering = [g for g in groups if all("memory/size" in r.series for r in g.runs) and _moves(g)]
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
    if times:
        text = "Median over iterations, mean over runs; whatever else the machine did at the time is in it."
        parts.append(Part("times", "Run times", text, columns=tables.TIME_COLUMNS, rows=times))
    parts.append(Part("settings", "Settings", columns=("arm", "settings"), rows=tables.settings(groups)))
    parts.append(Part("versions", "Versions", columns=("package", "version"), rows=tables.versions(groups)))
    return parts


def tests_as_curves(groups: list[Group]) -> list[Group]:
    """Groups whose returns are those of the tests; runs tested at other steps than the first are left to the table."""
    found = []
    for group in groups:
        steps = group.runs[0].evaluations[:, 0]
        same = [r for r in group.runs if np.array_equal(r.evaluations[:, 0], steps)]
        found.append(group._replace(runs=[r._replace(grid=steps, returns=r.evaluations[:, 1]) for r in same]))
    return found


def _moves(group: Group) -> bool:
    return any(np.nanmax(r.series["memory/size"], initial=0) > 1 for r in group.runs)
