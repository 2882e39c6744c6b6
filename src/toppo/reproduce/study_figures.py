"""Figures of the paper that are drawn from a study: which, and how."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from toppo.plotting import mark_quick_run, save_png_and_pdf
from toppo.report.compare import Group, groups_of
from toppo.report.figures import curves_figure, finals_figure
from toppo.report.load import Loaded, load
from toppo.studies.folder import Folder
from toppo.studies.paper import paper_study
from toppo.studies.study import Study, jobs_of

Draw = Callable[[list[Group], str], Any]


class StudyFigure(NamedTuple):
    """A figure: what it shows, and how it is drawn from groups of runs with a kind of shading."""

    text: str
    draw: Draw


def memory_size(groups: list[Group], band: str) -> Any:
    """|M| over training."""
    return curves_figure(groups, band, "memory/size", "|M|, the newest batch included")


STUDY_FIGURES = {
    "performance": StudyFigure("seven algorithms on seven MuJoCo tasks", curves_figure),
    "atari": StudyFigure("ToPPO and PPO on fifteen Atari games", curves_figure),
    "selection": StudyFigure("final return with N = 5, 6, with and without selecting policies", finals_figure),
    "memory-size": StudyFigure("the number of batches in M over training", memory_size),
    "adaptive-eps": StudyFigure("a fixed clip range against Lemma 4.1's adaptive one", curves_figure),
    "alpha-n": StudyFigure("final return against alpha, for N = 5 and 8", finals_figure),
    "controls": StudyFigure(
        "ToPPO at alpha = 0 and without early stop, PPO with early stop; not in the paper", curves_figure
    ),
}


def make_study_figure(
    name: str, scale: str, out: Path, band: str, run: Callable[[Study], Folder], report: Callable[[Loaded], None]
) -> None:
    """Carry out the study of a figure, draw it, and write the report of its runs."""
    study = paper_study(name, scale)
    loaded = load_study(study, run(study))
    sheet = STUDY_FIGURES[name].draw(groups_of(loaded), band)
    if scale == "quick":
        mark_quick_run(sheet, smaller(study, paper_study(name)))
    save_png_and_pdf(sheet, out, name)
    report(loaded)


def load_study(study: Study, folder: Folder) -> Loaded:
    """The runs of this study alone: their curves, and their run directories, which have kept the run times."""
    places = [p for p in (folder.root, folder.curves) if p.is_dir()]
    inside = folder.curves.resolve() == (folder.root / "curves").resolve()
    return load(*places[: 1 if inside else 2], only={job.name for job in jobs_of(study)})


def smaller(study: Study, paper: Study) -> str:
    """How a rehearsal is smaller than the paper's experiment."""
    small, full = study.grids[0], paper.grids[0]
    changed = small.arms[0].settings.items() - full.arms[0].settings.items()
    settings = "".join(f", {name} = {value}" for name, value in sorted(changed))
    steps = f"{small.total_timesteps:,} steps instead of {full.total_timesteps:,}"
    return f"{steps}, {small.seeds} of {full.seeds} seeds{settings}"
