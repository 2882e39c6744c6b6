"""The report: one HTML file that needs nothing else, and its figures for papers."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure

from toppo.errors import CANNOT_CREATE, ToppoError
from toppo.plotting import QUICK_RUN, save_png_and_pdf, to_svg, write_output
from toppo.report import atari, figures, tables
from toppo.report.compare import (
    Group,
    Scores,
    aggregates_of,
    groups_of,
    improvements_of,
    pairs_of,
    reference_of,
    scores_of,
)
from toppo.report.figures import Labels
from toppo.report.load import Loaded
from toppo.report.tables import Cell, number
from toppo.report.text import clean, counted
from toppo.rundir.files import refuse_to_write

MAX_COMMAND = 1000  # letters


class Section(NamedTuple):
    """The data of a section; ``page.html`` has its words."""

    figure: Figure | None = None
    columns: tuple[str, ...] = ()
    rows: list[list[Cell]] = []  # noqa: RUF012 - never changed
    note: str = ""


class About(NamedTuple):
    """What the page says about itself."""

    title: str
    command: str
    band: str = "bootstrap"
    quick_run: str = ""  # why the page allows no conclusion


def write_report(loaded: Loaded, out: Path, about: About) -> None:
    """Write the page, and every figure as PNG and PDF beside it."""
    if about.band not in figures.BANDS:
        raise ToppoError(f"band is {about.band!r}, but must be one of {', '.join(figures.BANDS)}")
    folder = out.with_name(f"{out.stem}-figures")
    refuse_to_write(out)
    if folder.is_symlink():
        raise ToppoError(f"{folder} is a link: remove it, or choose another --out", CANNOT_CREATE)
    sections = sections_of(loaded, about.band)
    for name, section in sections.items():
        if section.figure is not None:
            save_png_and_pdf(section.figure, folder, name, about.quick_run)
    write_output(out, render(loaded, sections, about).encode())


def render(loaded: Loaded, sections: dict[str, Section], about: About) -> str:
    """Return the page.  All text is escaped; only our own drawings pass as markup."""
    groups = groups_of(loaded)
    summary = tables.summary(groups, pairs_of(groups))
    summary += tables.across_tasks(aggregates_of(scores_of(groups, loaded.random)), improvements_of(groups))
    return (
        templates()
        .get_template("page.html")
        .render(
            title=clean(about.title),
            command=clean(about.command, MAX_COMMAND),
            band=about.band,
            quick_run=f"{QUICK_RUN}: {about.quick_run}" if about.quick_run else "",
            runs=counted("run", len(loaded.runs)),
            arms=list(dict.fromkeys(g.arm for g in groups)),
            envs=list(dict.fromkeys(g.env for g in groups)),
            reference=reference_of(groups),
            summary=summary,
            problems=loaded.problems,
            sections=sections,
            drawings=drawings(sections),
        )
    )


def templates(*folders: Path) -> Environment:
    """Return the templates of these folders and of the report; all that they show is escaped."""
    loader = FileSystemLoader([*folders, Path(__file__).parent])
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)


def drawings(sections: dict[str, Section]) -> dict[str, Markup]:
    """Return the figures of the sections as elements of a page."""
    return {name: Markup(to_svg(s.figure, name)) for name, s in sections.items() if s.figure is not None}


def sections_of(loaded: Loaded, band: str) -> dict[str, Section]:
    """Return all sections that the data allow, by name."""
    groups = groups_of(loaded)
    sections = {
        "curves": Section(figures.curves_figure(groups, band)),
        "finals": Section(
            figures.finals_figure(groups, band), columns=tables.FINAL_COLUMNS, rows=tables.final_rows(groups)
        ),
    }
    if loaded.unfinished:
        rows = tables.unfinished_rows(loaded.unfinished)
        sections["unfinished"] = Section(columns=tables.UNFINISHED_COLUMNS, rows=rows)
    sections |= _differences(groups)
    if games := atari.score_rows(groups, loaded.random):
        sections["games"] = Section(columns=atari.GAME_COLUMNS, rows=games)
        sections["games-across"] = Section(columns=atari.ACROSS_COLUMNS, rows=atari.rows_across_games(groups))
    sections |= _across_tasks(groups, scores_of(groups, loaded.random))
    sections |= _tests(groups, band)
    if off_policy := [g for g in groups if _keeps_old_batches(g)]:
        sections["memory"] = Section(figures.curves_figure(off_policy, band, "memory/size", Labels(y="|M|")))
    sections["times"] = Section(columns=tables.TIME_COLUMNS, rows=tables.time_rows(groups))
    sections["settings"] = Section(columns=tables.SETTING_COLUMNS, rows=tables.setting_rows(groups))
    sections["versions"] = Section(columns=tables.VERSION_COLUMNS, rows=tables.version_rows(groups))
    return sections


def _differences(groups: list[Group]) -> dict[str, Section]:
    sections = {}
    if pairs := pairs_of(groups):
        sections["pairs"] = Section(columns=tables.PAIR_COLUMNS, rows=tables.pair_rows(pairs))
    if found := improvements_of(groups):
        figure = figures.improvements_figure(found)
        columns = tables.IMPROVEMENT_COLUMNS
        sections["improvements"] = Section(figure, columns=columns, rows=tables.improvement_rows(found))
    return sections


def _tests(groups: list[Group], band: str) -> dict[str, Section]:
    tested = [
        g._replace(runs=[r._replace(grid=r.evaluations[:, 0], returns=r.evaluations[:, 1]) for r in g.runs])
        for g in groups
    ]
    drawn = [g for g in tested if figures.runs_with_curve(g)]
    if not drawn:
        return {}
    counts = [(g, len(figures.runs_with_curve(g))) for g in tested]
    partly = ", ".join(f"{g.arm} on {g.env} ({n} of {len(g.runs)})" for g, n in counts if n < len(g.runs))
    figure = figures.curves_figure(drawn, band, labels=Labels(y="return of test episodes"))
    return {"tests": Section(figure, note=f"Not all runs were tested: {partly}." if partly else "")}


def _across_tasks(groups: list[Group], scores: Scores) -> dict[str, Section]:
    left_out = ""
    for why in dict.fromkeys(scores.left_out.values()):
        left_out += f" Left out: {', '.join(e for e, w in scores.left_out.items() if w == why)}, {why}."
    if not scores.arms:
        return {"aggregates": Section(note=f"No task has a score.{left_out}")}
    found = aggregates_of(scores)
    constants = [
        f"{e} {number(scores.zero[e])} and {number(scores.one[e])} after {scores.budget[e]:,} steps"
        for e in scores.zero
    ]
    note = f"Random policy and ppo: {'; '.join(constants)}."
    if others := sorted({g.arm for g in groups} - set(scores.arms)):
        note += f" Left out, because they did not run on all of these tasks: {', '.join(others)}."
    aggregates = Section(
        figure=figures.aggregates_figure(found),
        columns=tables.AGGREGATE_COLUMNS,
        rows=tables.aggregate_rows(found),
        note=note + left_out,
    )
    return {"aggregates": aggregates, "profile": Section(figures.profile_figure(scores))}


def _keeps_old_batches(group: Group) -> bool:
    return any(np.nanmax(r.series.get("memory/size", np.zeros(0)), initial=0) > 1 for r in group.runs)
