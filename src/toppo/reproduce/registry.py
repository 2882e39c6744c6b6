"""All figures that `toppo reproduce` can make: from the runs of a study, or from a measurement of their own."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from matplotlib.figure import Figure

from toppo.plotting import save_png_and_pdf
from toppo.report.compare import Group, groups_of
from toppo.report.figures import Labels, curves_figure, finals_figure
from toppo.report.load import load
from toppo.report.page import About, write_report
from toppo.reproduce import run_time, v_ratio
from toppo.runs.spec import default_settings
from toppo.studies.folder import Folder
from toppo.studies.paper import paper_study
from toppo.studies.study import Study, jobs_of


class StudyFigure(NamedTuple):
    """A figure of the paper's study with the same name; ``draw`` gets groups of runs and the kind of band."""

    text: str
    draw: Callable[[list[Group], str], Figure]


class MeasuredFigure(NamedTuple):
    """A figure with a measurement of its own; ``make`` gets the scale, the directory and where to tell its progress."""

    text: str
    make: Callable[[str, Path, Callable[[str], None]], None]


memory_size_figure = partial(curves_figure, series="memory/size", labels=Labels(y="|M|, including the newest batch"))

FIGURES: dict[str, StudyFigure | MeasuredFigure] = {
    "performance": StudyFigure("seven algorithms on seven MuJoCo tasks", curves_figure),
    "atari": StudyFigure("ToPPO and PPO on fifteen Atari games", curves_figure),
    "selection": StudyFigure("final return with N = 5 and 6, with and without selecting policies", finals_figure),
    "memory-size": StudyFigure("the number of batches in M over training", memory_size_figure),
    "adaptive-eps": StudyFigure("a fixed clip range against the adaptive one of Lemma 4.1", curves_figure),
    "alpha-n": StudyFigure("final return against alpha, for N = 5 and 8", finals_figure),
    "controls": StudyFigure(
        "ToPPO at alpha = 0 and without early stop, PPO with early stop; not in the paper", curves_figure
    ),
    "labels": StudyFigure(
        "labels of old data by V-trace, by the newest critic, or frozen, on two draws; not in the paper", curves_figure
    ),
    "std-and-stop": StudyFigure(
        "ToPPO, PPO and GePPO with another initial std and with or without early stop; not in the paper", finals_figure
    ),
    "v-ratio": MeasuredFigure(
        "values estimated by V-trace (GePPO) and by GAE (ToPPO) against Monte-Carlo returns", v_ratio.make_figure
    ),
    "run-time": MeasuredFigure(
        "time per 1000 steps of every algorithm, by part, in one run of each", run_time.make_figure
    ),
}


def write_study_figure(figure: StudyFigure, study: Study, folder: Folder, out: Path, about: About) -> None:
    """Draw a figure from the runs of its study, and write the report of these runs beside it."""
    # The curves of this study alone, and its run directories, which keep the run times.
    roots = [folder.root]
    if folder.curves.resolve() != (folder.root / "curves").resolve():
        roots.append(folder.curves)
    names = {job.name for job in jobs_of(study)}
    loaded = load(*(root for root in roots if root.is_dir()), only=names, defaults=default_settings)
    save_png_and_pdf(figure.draw(groups_of(loaded), about.band), out, about.title, about.quick_run)
    write_report(loaded, out / "report.html", about)


def how_quick(name: str, scale: str) -> str:
    """Say how the study of a figure is smaller than the paper's; say nothing at the scale of the paper."""
    if scale == "paper":
        return ""
    quick = paper_study(name, scale).grids[0]
    paper = paper_study(name).grids[0]
    changed = quick.arms[0].settings.items() - paper.arms[0].settings.items()
    settings = "".join(f", {name} = {value}" for name, value in sorted(changed))
    steps = f"{quick.total_timesteps:,} steps instead of {paper.total_timesteps:,}"
    return f"{steps}, {quick.seeds} of {paper.seeds} seeds{settings}"
