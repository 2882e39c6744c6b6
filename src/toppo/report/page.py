"""The report: one HTML file that needs nothing else, and its figures for papers."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure

from toppo.errors import CANNOT_CREATE, ToppoError
from toppo.plotting import QUICK_RUN, mark_quick_run, save_png_and_pdf, to_svg, write_output
from toppo.report import atari, tables
from toppo.report.compare import Group, aggregates_of, groups_of, pairs_of, scores_of
from toppo.report.figures import (
    BANDS,
    aggregates_figure,
    curves_figure,
    finals_figure,
    profile_figure,
    runs_with_curve,
)
from toppo.report.load import Loaded
from toppo.report.tables import Cell, number
from toppo.report.text import clean, counted
from toppo.rundir.files import refuse_to_write

MAX_COMMAND = 1000  # letters


class Section(NamedTuple):
    """A section of the page."""

    id: str
    title: str
    text: str = ""
    figure: Figure | None = None
    caption: str = ""
    columns: tuple[str, ...] = ()
    rows: list[list[Cell]] = []  # noqa: RUF012 - never changed


class About(NamedTuple):
    """What the page says about itself."""

    title: str
    command: str
    band: str = "bootstrap"
    quick_run: str = ""  # why the page allows no conclusion


def write_report(loaded: Loaded, out: Path, about: About) -> None:
    """Write the page, and every figure as PNG and PDF beside it."""
    if about.band not in BANDS:
        raise ToppoError(f"band is {about.band!r}, but must be one of {', '.join(BANDS)}")
    figures = out.with_name(f"{out.stem}-figures")
    refuse_to_write(out)
    if figures.is_symlink():
        raise ToppoError(f"{figures} is a link: remove it, or choose another --out", CANNOT_CREATE)
    sections = sections_of(loaded, about.band)
    for section in sections:
        if section.figure is not None:
            if about.quick_run:
                mark_quick_run(section.figure, about.quick_run)
            save_png_and_pdf(section.figure, figures, section.id)
    write_output(out, render(loaded, sections, about).encode())


def render(loaded: Loaded, sections: list[Section], about: About) -> str:
    """Return the page.  All text is escaped; only our own drawings pass as markup."""
    pages = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    groups = groups_of(loaded)
    summary = tables.summary(groups, pairs_of(groups))
    summary += tables.across_tasks(aggregates_of(scores_of(groups, loaded.random)))
    drawings = [Markup(to_svg(s.figure, s.id)) if s.figure is not None else "" for s in sections]
    return pages.get_template("page.html").render(
        title=clean(about.title),
        command=clean(about.command, MAX_COMMAND),
        quick_run=f"{QUICK_RUN}: {about.quick_run}" if about.quick_run else "",
        runs=counted("run", len(loaded.runs)),
        arms=list(dict.fromkeys(g.arm for g in groups)),
        envs=list(dict.fromkeys(g.env for g in groups)),
        summary=summary,
        problems=loaded.problems,
        sections=[s._asdict() | {"svg": svg} for s, svg in zip(sections, drawings, strict=True)],
    )


def sections_of(loaded: Loaded, band: str) -> list[Section]:
    """Return all sections after the summary."""
    groups = groups_of(loaded)
    spread = "95% bootstrap interval of the mean" if band == "bootstrap" else "one standard deviation"
    shade = f"{spread} (dashed: IQM); with fewer than five runs, every run" if band == "bootstrap" else spread
    sections = [
        Section(
            id="curves",
            title="Learning curves",
            figure=curves_figure(groups, band),
            caption=f"Mean return of the training episodes that ended between two points of a grid. Shaded: {shade}.",
        ),
        Section(
            id="finals",
            title="Final returns",
            text="Final: mean return of the training episodes in the last tenth of the steps. Area: mean return over "
            "all steps. Test: 10 episodes with the most likely action at the end. Brackets: 95% stratified bootstrap "
            "intervals over runs, with at least five runs. With fewer than four runs the IQM is the mean. Bold: the "
            "highest mean final return of the arms with the most steps.",
            figure=finals_figure(groups, band),
            caption=f"Each dot is a run, each bar a mean. Band: {spread}.",
            columns=tables.FINAL_COLUMNS,
            rows=tables.final_rows(groups),
        ),
    ]
    pairs = pairs_of(groups)
    if pairs:
        rows = tables.pair_rows(pairs)
        sections.append(Section(id="pairs", title="Differences", columns=tables.PAIR_COLUMNS, rows=rows))
    sections += _atari(loaded, groups) + _across_tasks(loaded, groups) + _tests(groups, band) + _memory(groups, band)
    return sections + _run_facts(groups)


def _atari(loaded: Loaded, groups: list[Group]) -> list[Section]:
    rows = atari.score_rows(groups, loaded.random)
    if not rows:
        return []
    return [
        Section(
            id="games",
            title="Atari games",
            text="Score: the final return of full games. Human-normalised: (score - random) / (human - random), with "
            'the scores of random and human play in common use. The column "random, measured" is a random policy '
            "measured here.",
            columns=atari.GAME_COLUMNS,
            rows=rows,
        ),
        Section(
            id="games-across",
            title="Across games",
            text="Human-normalised scores over the games with at least one finished episode. With fewer than four "
            "games the IQM is the mean.",
            columns=atari.ACROSS_COLUMNS,
            rows=atari.rows_across_games(groups),
        ),
    ]


def _across_tasks(loaded: Loaded, groups: list[Group]) -> list[Section]:
    scores = scores_of(groups, loaded.random)
    text = "Score: (final return - random policy) / (mean final return of ppo - random policy)."
    reasons = dict.fromkeys(scores.left_out.values())
    envs_without = {why: ", ".join(e for e, w in scores.left_out.items() if w == why) for why in reasons}
    left_out = "".join(f" Left out: {envs}, {why}." for why, envs in envs_without.items())
    if not scores.arms:
        return [Section(id="aggregates", title="Across tasks", text=f"{text} No task has a score.{left_out}")]
    found = aggregates_of(scores)
    constants = (
        f"{e} {number(scores.zero[e])} and {number(scores.one[e])} after {scores.budget[e]:,} steps"
        for e in scores.zero
    )
    text += f" Random policy and ppo: {'; '.join(constants)}."
    if others := sorted({g.arm for g in groups} - set(scores.arms)):
        text += f" Left out, because they did not run on all of these tasks: {', '.join(others)}."
    return [
        Section(
            id="aggregates",
            title="Across tasks",
            text=text + left_out,
            figure=aggregates_figure(found),
            caption="IQM: mean of the middle half of all runs of all tasks; the mean with fewer than four runs. "
            "Optimality gap: how far runs fall short of 1. "
            "P: probability that a run of toppo beats a run of the other arm, mean over tasks.",
            columns=tables.AGGREGATE_COLUMNS,
            rows=tables.aggregate_rows(found),
        ),
        Section(
            id="profile",
            title="Performance profile",
            figure=profile_figure(scores),
            caption="Share of runs above every score, mean over tasks. Shaded, with at least five runs per task: 95% "
            "stratified bootstrap interval.",
        ),
    ]


def _tests(groups: list[Group], band: str) -> list[Section]:
    tested = tests_as_curves(groups)
    drawn = [g for g in tested if runs_with_curve(g)]
    if not drawn:
        return []
    caption = "Mean of 10 episodes with the most likely action, at intervals; as far as all runs were tested."
    counts = [(g, len(runs_with_curve(g))) for g in tested]
    if partly := [f"{g.arm} on {g.env} ({n} of {len(g.runs)})" for g, n in counts if n < len(g.runs)]:
        caption += f" Not all runs were tested: {', '.join(partly)}."
    figure = curves_figure(drawn, band, y_label="return of test episodes")
    return [Section(id="tests", title="Tests during training", figure=figure, caption=caption)]


def tests_as_curves(groups: list[Group]) -> list[Group]:
    """Replace the returns of training by those of the tests, at the steps of the tests."""
    return [
        g._replace(runs=[r._replace(grid=r.evaluations[:, 0], returns=r.evaluations[:, 1]) for r in g.runs])
        for g in groups
    ]


def _memory(groups: list[Group], band: str) -> list[Section]:
    def keeps_old_batches(group: Group) -> bool:
        return any(np.nanmax(r.series.get("memory/size", np.zeros(0)), initial=0) > 1 for r in group.runs)

    off_policy = [g for g in groups if keeps_old_batches(g)]
    if not off_policy:
        return []
    figure = curves_figure(off_policy, band, "memory/size", "|M|")
    return [Section(id="memory", title="Batches in M", figure=figure, caption="M includes the newest batch.")]


def _run_facts(groups: list[Group]) -> list[Section]:
    times = tables.time_rows(groups)
    text = "Median over iterations, mean over runs. Other programs on the machine at the time slow these numbers."
    if not times:
        text = "Compact curves do not keep run times: make the report from the run directories to see them."
    columns = ("package", "version")
    return [
        Section(id="times", title="Run times", text=text, columns=tables.TIME_COLUMNS, rows=times),
        Section(id="settings", title="Settings", columns=tables.SETTING_COLUMNS, rows=tables.setting_rows(groups)),
        Section(id="versions", title="Versions", columns=columns, rows=tables.version_rows(groups)),
    ]
