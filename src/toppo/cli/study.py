"""``toppo study``, ``toppo report`` and ``toppo reproduce``: more than one run."""

import os
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from toppo.cli.flags import CheckpointEvery, EvaluateEvery, changed_flags, flag, parse, require_at_least
from toppo.cli.study_progress import StudyDisplay
from toppo.display.console import Terminal, live_view
from toppo.errors import ToppoError, suggestion
from toppo.runs.run import RunOptions
from toppo.runs.signals import Interrupted
from toppo.runs.spec import default_settings
from toppo.studies.folder import Folder
from toppo.studies.paper import PAPER, paper_study
from toppo.studies.run_jobs import StudyOptions, refuse_faults, run_study
from toppo.studies.study import Study, read_study, with_seeds

Band = Annotated[Literal["bootstrap", "std"], flag("Shading: 95% bootstrap intervals, or standard deviations.")]


@dataclass(frozen=True)
class StudyExecutionFlags:
    """How the runs are carried out."""

    jobs: Annotated[int | None, flag("Runs side by side on this machine (default: one per core).", "INT")] = None
    workers: Annotated[int, flag("Processes that step environments, per run; 0: none.")] = 0
    retries: Annotated[int, flag("How often a run that fails is tried again.")] = 1
    ray: Annotated[str | None, flag("Run on Ray: the address of a cluster, or local.", "ADDRESS")] = None
    curves: Annotated[Path | None, flag("Directory of compact curves (default: OUT/curves).", "PATH")] = None
    reuse: Annotated[
        Path | None, flag("Copy curves of exactly these runs that other studies have left in this directory.", "PATH")
    ] = None
    checkpoint_every: CheckpointEvery = 50_000
    evaluate_every: EvaluateEvery = 0


@dataclass(frozen=True, kw_only=True)
class StudyFlags:
    """Train algorithms x environments x seeds; the same command continues a study."""

    study: Annotated[str, flag(f"One of {', '.join(PAPER)}, or a JSON file.", "STUDY")]
    seeds: Annotated[int | None, flag("Seeds per algorithm and environment (default: the study's).", "INT")] = None
    out: Annotated[Path | None, flag("Directory of the runs (default: runs/STUDY).", "PATH")] = None
    execution: StudyExecutionFlags = field(default_factory=StudyExecutionFlags)


@dataclass(frozen=True, kw_only=True)
class ReportFlags:
    """Write one page about many runs: comparisons, figures, tables, run times."""

    folder: Annotated[Path, flag("Directory with run directories or with the compact curves of a study.", "DIR")]
    out: Annotated[Path | None, flag("Page to write (default: DIR/report.html).", "PATH")] = None
    band: Band = "bootstrap"


@dataclass(frozen=True, kw_only=True)
class ReproduceFlags:
    """Make a figure of the paper, end to end; the same command continues it."""

    figure: Annotated[str, flag("A name that `toppo list` shows.", "FIGURE")]
    scale: Annotated[Literal["quick", "paper"], flag("quick: minutes, to try it; paper: the paper's budget.")] = "quick"
    out: Annotated[Path | None, flag("Directory to write (default: runs/FIGURE-SCALE).", "PATH")] = None
    band: Band = "bootstrap"
    execution: StudyExecutionFlags = field(default_factory=StudyExecutionFlags)


def study(arguments: list[str]) -> None:
    """Train a grid of runs."""
    given = parse("study", StudyFlags, arguments)
    chosen = read_study(Path(given.study)) if given.study.endswith(".json") else paper_study(given.study)
    folder = _run_study(with_seeds(chosen, given.seeds), given.out, given.execution)
    results = folder.root if folder.curves.parent == folder.root else folder.curves
    Terminal().say(f"next: toppo report {results}")


def report(arguments: list[str]) -> None:
    """Write a page about runs."""
    from toppo.report.load import load
    from toppo.report.page import About, write_report

    given = parse("report", ReportFlags, arguments)
    out = given.out or given.folder / "report.html"
    loaded = load(given.folder, defaults=default_settings)
    command = shlex.join(["toppo", "report", str(given.folder), *changed_flags(given, "out", "band")])
    write_report(loaded, out, About(given.folder.resolve().name, command, given.band))
    for sentence in loaded.problems:
        print(f"note: {sentence}")
    print(f"wrote {out}")


def reproduce(arguments: list[str]) -> None:
    """Make a figure of the paper, end to end."""
    from toppo.report.page import About
    from toppo.reproduce.registry import FIGURES, MeasuredFigure, how_quick, write_study_figure

    given = parse("reproduce", ReproduceFlags, arguments)
    if given.figure not in FIGURES:
        raise ToppoError(f"{given.figure!r} is not a figure: {suggestion(given.figure, FIGURES)}")
    out = given.out or Path("runs") / f"{given.figure}-{given.scale}"
    figure = FIGURES[given.figure]
    if isinstance(figure, MeasuredFigure):
        if others := changed_flags(given, "band") + changed_flags(given.execution):
            raise ToppoError(f"{given.figure} needs no study: leave out {' '.join(others)}")
        figure.make(given.scale, out, print)
    else:
        chosen = paper_study(given.figure, given.scale)
        folder = _run_study(chosen, out, given.execution)
        flags = changed_flags(given, "scale", "out", "band")
        flags += changed_flags(given.execution, "curves", "evaluate_every")
        about = About(
            title=given.figure,
            command=shlex.join(["toppo", "reproduce", given.figure, *flags]),
            band=given.band,
            quick_run=how_quick(given.figure, given.scale),
        )
        write_study_figure(figure, chosen, folder, out, about)
    print(f"wrote {out / given.figure}.png and its data")


def _run_study(chosen: Study, out: Path | None, given: StudyExecutionFlags) -> Folder:
    """Run a study to its end, or leave with the signal that stopped it."""
    root = out or Path("runs") / chosen.name
    folder = Folder(root, given.curves or root / "curves")
    require_at_least(given, workers=0, checkpoint_every=1, evaluate_every=0)
    options = RunOptions(
        workers=given.workers, checkpoint_every=given.checkpoint_every, evaluate_every=given.evaluate_every
    )
    jobs = (os.cpu_count() or 1) if given.jobs is None else given.jobs
    study_options = StudyOptions(
        jobs=jobs, retries=given.retries, run_options=options, ray=given.ray, reuse=given.reuse
    )
    console = Terminal()
    try:
        with live_view(console) as live:
            status = run_study(chosen, folder, study_options, StudyDisplay(chosen.name, folder, console, live))
    except Interrupted as stop:
        console.say(f"stopped by {stop}; every run is saved, and the same command continues")
        raise SystemExit(stop.code) from None
    refuse_faults(status)
    return folder
