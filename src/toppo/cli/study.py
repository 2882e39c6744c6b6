"""The commands about more than one run: studies, the paper's figures, reports."""

import os
import shlex
from pathlib import Path
from typing import Any, Literal

from toppo.cli.commands import Flag, flag, parse, positional, require_least
from toppo.cli.console import Terminal
from toppo.cli.study_progress import StudyScreen
from toppo.errors import ToppoError
from toppo.runs.run import Options
from toppo.runs.signals import Interrupted
from toppo.studies.folder import Folder
from toppo.studies.paper import PAPER, paper_study
from toppo.studies.run_jobs import StudyOptions, refuse_faults, run_study
from toppo.studies.study import Study, read_study, with_seeds

BAND_FLAG: Flag = (
    "band",
    flag(Literal["bootstrap", "std"], "Shading: 95% bootstrap intervals, or the paper's standard deviation."),
    "bootstrap",
)
HOW_FLAGS: list[Flag] = [
    ("jobs", flag(int | None, "Runs side by side on this machine (default: one per core)."), None),
    ("workers", flag(int, "Processes that step environments, per run; 0 for none."), 0),
    ("retries", flag(int, "How often a run that fails is tried again."), 1),
    ("ray", flag(str | None, "Carry the runs out on Ray: the address of a cluster, or local."), None),
    ("curves", flag(Path | None, "Directory of compact curves, read and written (default: OUT/curves)."), None),
    ("checkpoint_every", flag(int, "Steps between checkpoints."), 50_000),
    ("evaluate_every", flag(int, "Steps between tests of 10 episodes with the most likely action; 0 for none."), 0),
]

SEEN_ON_THE_PAGE = ("scale", "out", "band", "curves", "evaluate_every")


def study(arguments: list[str]) -> None:
    """Carry out a grid of runs."""
    given = parse(
        "study",
        "Carry out algorithms x environments x seeds: finished runs are skipped, unfinished ones resumed.",
        [
            ("study", positional(str, "STUDY", f"One of {', '.join(PAPER)}, or a JSON file.")),
            ("seeds", flag(int | None, "Seeds of every algorithm on every environment (default: the study's)."), None),
            ("out", flag(Path | None, "Directory of the runs (default: runs/STUDY)."), None),
            *HOW_FLAGS,
        ],
        arguments,
    )
    chosen = read_study(Path(given.study)) if given.study.endswith(".json") else paper_study(given.study)
    folder = run_job(with_seeds(chosen, given.seeds), given.out, given)
    whole = folder.root if folder.curves.parent == folder.root else folder.curves
    Terminal().print(f"next: toppo report {whole}", highlight=False, soft_wrap=True)


def run_job(chosen: Study, out: Path | None, given: Any) -> Folder:
    """Run a study to its end, or leave with the signal that stopped it."""
    root = out or Path("runs") / chosen.name
    folder = Folder(root, given.curves or root / "curves")
    require_least(given, workers=0, checkpoint_every=1, evaluate_every=0)
    options = Options(given.workers, given.checkpoint_every, evaluate_every=given.evaluate_every)
    jobs = (os.cpu_count() or 1) if given.jobs is None else given.jobs
    console = Terminal()
    how = StudyOptions(jobs=jobs, retries=given.retries, run_options=options, ray=given.ray)
    try:
        with StudyScreen(chosen.name, folder, console) as screen:
            status = run_study(chosen, folder, how, screen)
    except Interrupted as stop:
        console.print(f"stopped by {stop}; every run is saved, and the same command continues", highlight=False)
        raise SystemExit(stop.code) from None
    refuse_faults(status)
    return folder


def flags_of(given: Any, *flags: Flag) -> list[str]:
    """Those of the flags that were given another value than their own, as they are typed."""
    values = {name: (getattr(given, name), *default) for name, _, *default in flags}
    changed = {name: value for name, (value, default) in values.items() if value != default}
    return [word for name, value in changed.items() for word in (f"--{name.replace('_', '-')}", str(value))]


def report(arguments: list[str]) -> None:
    """Write a page about runs."""
    from toppo.report.load import load
    from toppo.report.page import About, write_report

    where = flag(Path | None, "Page to write (default: DIR/report.html); figures as PNG and PDF beside it.")
    flags: list[Flag] = [("out", where, None), BAND_FLAG]
    folder = positional(Path, "DIR", "Directory with run directories or with the compact curves of a study.")
    given = parse(
        "report",
        "One self-contained page about many runs: who wins where, by how much, how sure; figures, tables, run times.",
        [("folder", folder), *flags],
        arguments,
    )
    out = given.out or given.folder / "report.html"
    loaded = load(given.folder)
    command = shlex.join(["toppo", "report", str(given.folder), *flags_of(given, *flags)])
    write_report(loaded, out, About(given.folder.resolve().name, command, given.band))
    for sentence in loaded.problems:
        print(f"note: {sentence}")
    print(f"wrote {out}")


def reproduce(arguments: list[str]) -> None:
    """Make a figure of the paper, end to end."""
    from toppo.report.page import About, write_report
    from toppo.reproduce.figures import FIGURES
    from toppo.reproduce.study_figures import STUDY_FIGURES, make_study_figure, smaller

    names = [*STUDY_FIGURES, *FIGURES]
    flags: list[Flag] = [
        ("scale", flag(Literal["quick", "paper"], "quick: a rehearsal of minutes; paper: its budget."), "quick"),
        ("out", flag(Path | None, "Directory of runs, data and picture (default: runs/FIGURE-SCALE)."), None),
        BAND_FLAG,
        *HOW_FLAGS,
    ]
    given = parse(
        "reproduce",
        "Make a figure of the paper, end to end. What runs a study continues where it was stopped.",
        [("figure", positional(str, "FIGURE", f"One of {', '.join(names)}.")), *flags],
        arguments,
    )
    if given.figure not in names:
        raise ToppoError(f"{given.figure!r} is not a figure: choose one of {', '.join(names)}")
    out = given.out or Path("runs") / f"{given.figure}-{given.scale}"
    if given.figure in FIGURES:
        if others := flags_of(given, BAND_FLAG, *HOW_FLAGS):
            raise ToppoError(f"{given.figure} runs no study, and knows nothing of {' '.join(others)}: leave that away")
        FIGURES[given.figure].make(given.scale, out, print)
    else:
        why = smaller(paper_study(given.figure, "quick"), paper_study(given.figure)) if given.scale == "quick" else ""
        shown = flags_of(given, *(f for f in flags if f[0] in SEEN_ON_THE_PAGE))
        about = About(given.figure, shlex.join(["toppo", "reproduce", given.figure, *shown]), given.band, why)
        make_study_figure(
            given.figure,
            given.scale,
            out,
            given.band,
            lambda chosen: run_job(chosen, out, given),
            lambda loaded: write_report(loaded, out / "report.html", about),
        )
    print(f"wrote {out / given.figure}.png and its data")
