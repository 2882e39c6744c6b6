"""Figures of the paper from data that are there already, or half there."""

import json

import numpy as np
import pytest

from tests.support.curves import curve, finished_curves, run_directory
from toppo.cli import main
from toppo.errors import BAD_DATA, ToppoError
from toppo.plotting import write_output
from toppo.report.load import Loaded
from toppo.report.page import About
from toppo.reproduce import registry, run_time
from toppo.reproduce.v_ratio import measured_before, over_seeds
from toppo.rundir.layout import write_json
from toppo.runs.spec import to_json
from toppo.studies.folder import Folder
from toppo.studies.paper import paper_study
from toppo.studies.study import jobs_of

ROW = {"env": "E", "algo": "toppo", "seed": 0, "step": 10, "age": 1, "ratio": 0.5, "median": 0.4, "noise": 0.1}


@pytest.mark.parametrize("inside", [True, False])
def test_page_and_figure_are_of_the_studys_own_runs_with_their_times(tmp_path, monkeypatch, inside):
    study = paper_study("memory-size", "quick")
    folder = Folder(tmp_path / "runs", tmp_path / "runs" / "curves" if inside else tmp_path / "c")
    finished_curves(folder.curves, study)
    (folder.curves / "ppo-E-0.json").write_text(json.dumps(curve(algo="ppo")))
    first = jobs_of(study)[0]
    write_json(run_directory(folder.run(first)) / "spec.json", to_json(first.spec))
    drawn: list[list[str]] = []
    told: list[Loaded] = []
    figure = registry.FIGURES["memory-size"]._replace(draw=lambda groups, band: drawn.append(groups))
    monkeypatch.setattr(registry, "save_png_and_pdf", lambda drawing, out, name, quick_run: None)
    monkeypatch.setattr(registry, "write_report", lambda loaded, out, about: told.append(loaded))
    registry.write_study_figure(figure, study, folder, tmp_path, About("memory-size", "", "std"))
    (loaded,) = told
    assert len(loaded.runs) == len(jobs_of(study)) == sum(len(g.runs) for g in drawn[0])
    assert {g.env for g in drawn[0]} == {"Swimmer-v5"}
    assert [r.seconds is None for r in loaded.runs].count(False) == 1


def test_the_command_on_the_page_is_the_one_to_type(tmp_path, monkeypatch, capsys):
    shown = []
    for module in ("toppo.report.page", "toppo.reproduce.registry"):
        monkeypatch.setattr(f"{module}.write_report", lambda loaded, out, about: shown.append(about.command))
    monkeypatch.setattr(registry, "save_png_and_pdf", lambda drawing, out, name, quick_run: None)
    out, curves = tmp_path / "my runs", tmp_path / "c"
    finished_curves(curves, paper_study("memory-size", "quick"))
    flags = ["--out", str(out), "--band", "std", "--curves", str(curves), "--evaluate-every", "50"]
    main(["reproduce", "memory-size", "--jobs", "1", *flags])
    main(["report", str(curves), "--out", str(out / "x.html")])
    assert shown == [
        f"toppo reproduce memory-size --out '{out}' --band std --curves {curves} --evaluate-every 50",
        f"toppo report {curves} --out '{out / 'x.html'}'",
    ]


def test_data_that_are_not_intact_are_one_sentence(tmp_path):
    path = tmp_path / "v-ratio.json"
    assert measured_before(path, "quick") == []
    path.write_text(json.dumps({"scale": "quick", "rows": [ROW]}))
    assert measured_before(path, "quick") == [ROW]
    assert measured_before(path, "paper") == []
    whole = path.read_text()
    for text in (whole[:40], "[]", '{"scale": "quick", "rows": [{"env": 1}]}', '{"scale": "quick"}'):
        path.write_text(text)
        with pytest.raises(ToppoError) as refusal:
            measured_before(path, "quick")
        assert refusal.value.code == BAD_DATA


def test_data_are_replaced_as_a_whole(tmp_path, monkeypatch):
    write_output(tmp_path / "v-ratio.json", b"old")
    monkeypatch.setattr("os.replace", lambda *paths: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(ToppoError, match="No space left"):
        write_output(tmp_path / "v-ratio.json", b"new")
    assert (tmp_path / "v-ratio.json").read_bytes() == b"old"


def test_every_point_of_the_v_ratio_is_a_mean_over_all_seeds():
    looks = {
        0: [(10, 1.0), (20, 2.0), (30, 3.0)],
        1: [(15, 11.0), (30, 14.0), (40, 99.0)],
    }  # of one seed they came late
    rows = [ROW | {"seed": seed, "step": step, "ratio": ratio} for seed, all_ in looks.items() for step, ratio in all_]
    grid, line = over_seeds(rows, "ratio")
    assert grid.tolist() == [15, 20, 30]
    np.testing.assert_allclose(line, [(1.5 + 11) / 2, (2 + 12) / 2, (3 + 14) / 2])


def test_run_times_say_how_they_were_measured(tmp_path, monkeypatch):
    drawings = []
    said = []
    times = {"ppo": dict.fromkeys(run_time.COLOURS, 1.0)}
    monkeypatch.setattr(run_time, "measure_run_times", lambda algos, env, iterations: times)
    monkeypatch.setattr(run_time, "save_png_and_pdf", lambda drawing, *rest: drawings.append(drawing))
    run_time.make_figure("paper", tmp_path, said.append)
    assert said[0] == "medians of one run of each, seed 0, 200 iterations"
    assert said[0] in drawings[0].axes[0].get_xlabel()
    assert json.loads((tmp_path / "run-time.json").read_text())["measured"] == said[0].removeprefix("medians of ")
