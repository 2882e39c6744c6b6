"""Figures of the paper that are drawn from a study: which, and how."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from toppo.report.compare import Group, groups_of
from toppo.report.figures import curves_figure, finals_figure, rehearse, save_both
from toppo.report.load import Loaded, load
from toppo.studies.folder import Folder
from toppo.studies.paper import paper_study
from toppo.studies.study import Study, jobs_of

Draw = Callable[[list[Group], str], Any]


class StudyFigure(NamedTuple):
    """A figure: what it shows, and how it is drawn from groups of runs with a kind of shading."""

    text: str
    draw: Draw


def curves(groups: list[Group], band: str) -> Any:
    """Learning curves."""
    return curves_figure(groups, band)


def finals(groups: list[Group], band: str) -> Any:
    """Final returns."""
    return finals_figure(groups)


def memory_size(groups: list[Group], band: str) -> Any:
    """|M| over training."""
    return curves_figure(groups, band, "memory/size", "|M|, the newest batch included")


STUDY_FIGURES = {
    "performance": StudyFigure("seven algorithms on seven MuJoCo tasks", curves),
    "atari": StudyFigure("ToPPO and PPO on fifteen Atari games", curves),
    "selection": StudyFigure("final return with N = 5, 6, with and without selecting policies", finals),
    "memory-size": StudyFigure("the number of batches in M over training", memory_size),
    "adaptive-eps": StudyFigure("a fixed clip range against Lemma 4.1's adaptive one", curves),
    "alpha-n": StudyFigure("final return against alpha, for N = 5 and 8", finals),
    "controls": StudyFigure("ToPPO at alpha = 0 and without early stop, PPO with early stop; not in the paper", curves),
}


def make_study_figure(
    name: str, scale: str, out: Path, band: str, run: Callable[[Study], Folder], report: Callable[[Path, Path], Any]
) -> None:
    """Carry out the study of a figure, draw it, and write the report of its runs."""
    study = paper_study(name, scale)
    curves = run(study).curves
    loaded = of_study(load(curves), study)
    sheet = STUDY_FIGURES[name].draw(groups_of(loaded), band)
    if scale == "quick":
        rehearse(sheet, smaller(study, paper_study(name)))
    save_both(sheet, out, name)
    report(curves, out / "report.html")


def of_study(loaded: Loaded, study: Study) -> Loaded:
    """Only the runs of this study, if its curves lie beside others."""
    names = {(job.arm, job.spec.env, job.spec.seed, job.spec.steps) for job in jobs_of(study)}
    return loaded._replace(runs=[r for r in loaded.runs if (r.arm, r.env, r.seed, r.budget) in names])


def smaller(study: Study, paper: Study) -> str:
    """How a rehearsal is smaller than the paper's experiment."""
    small, full = study.grids[0], paper.grids[0]
    return f"{small.steps:,} steps instead of {full.steps:,}, {small.seeds} of {full.seeds} seeds"
