"""The paper's figures from a study whose runs are there already."""

import re

import pytest

from tests.support.curves import finished_curves
from toppo.cli import main
from toppo.reproduce.registry import FIGURES, StudyFigure, how_quick
from toppo.studies.paper import PAPER, paper_study
from toppo.studies.study import jobs_of

PAPER_FIGURES = {
    "performance",
    "atari",
    "selection",
    "memory-size",
    "adaptive-eps",
    "alpha-n",
    "run-time",
    "v-ratio",
}


OURS = {"controls", "labels", "std-and-stop"}
WITHOUT_FIGURE = {"minatar", "defaults", "defaults-discrete"}


def test_every_figure_of_the_paper_is_listed(capsys):
    assert set(FIGURES) == PAPER_FIGURES | OURS
    of_studies = {name for name, figure in FIGURES.items() if isinstance(figure, StudyFigure)}
    assert of_studies == {name for name in PAPER.keys() - WITHOUT_FIGURE if not name.startswith("proof")}
    main(["list"])
    listed = capsys.readouterr().out
    for name in PAPER_FIGURES | OURS:
        assert re.search(rf"^ *{name} ", listed.partition("toppo reproduce NAME")[2], re.MULTILINE)


@pytest.mark.parametrize(("name", "scale"), [("selection", "quick"), ("memory-size", "paper")])
def test_a_figure_from_finished_runs(name, scale, tmp_path, capsys):
    finished_curves(tmp_path / "curves", paper_study(name, scale))
    main(["reproduce", name, "--scale", scale, "--out", str(tmp_path)])
    said = capsys.readouterr().out
    jobs = len(jobs_of(paper_study(name, scale)))
    assert f"{jobs} runs, {jobs} finished before" in said
    for ending, first in ((".png", b"\x89PNG"), (".pdf", b"%PDF")):
        assert (tmp_path / f"{name}{ending}").read_bytes().startswith(first)
    page = (tmp_path / "report.html").read_text()
    assert ("quick run, no conclusion: 102,400 steps instead of 1,000,000, 2 of 10 seeds" in page) == (scale == "quick")


def test_a_quick_run_says_which_settings_it_changes():
    assert how_quick("atari", "paper") == ""
    assert how_quick("atari", "quick").endswith("1 of 3 seeds, n_envs = 1, n_epochs = 1")
    assert {j.spec.common.n_envs for j in jobs_of(paper_study("atari", "quick"))} == {1}
    assert {j.spec.common.n_envs for j in jobs_of(paper_study("atari"))} == {8}
