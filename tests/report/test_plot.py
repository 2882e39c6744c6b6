"""``toppo plot``: any metric, smoothed or not, against steps, seconds or iterations."""

import json

import numpy as np
import pytest

from tests.support.curves import curve, run_directory
from toppo.cli import main
from toppo.errors import NO_INPUT, USAGE, ToppoError
from toppo.report.load import read_all
from toppo.report.plot import Wanted, metric_figure, moving_mean
from toppo.rundir.jsonl import JsonLines

STARTS = {".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<?xml"}


def lines(folder, **wanted):
    """The curves that are drawn, by arm."""
    figure = metric_figure(read_all(folder), Wanted(**wanted))
    (axis,) = figure.axes
    return {line.get_label(): (line.get_xdata(), line.get_ydata()) for line in axis.get_lines()}, axis


def test_a_metric_of_the_log_is_drawn_over_steps(tmp_path):
    run_directory(tmp_path / "run", episodes=3)
    found, axis = lines(tmp_path, metric="memory/size")
    x, y = found["toppo"]
    assert (x.tolist(), y.tolist()) == ([25, 50, 75], [1, 2, 3])
    assert (axis.get_xlabel(), axis.get_ylabel()) == ("environment steps", "memory/size")


def test_seconds_are_those_of_the_iterations_and_iterations_are_counted(tmp_path):
    run_directory(tmp_path / "run", episodes=3)  # an iteration takes 0.2 + 0.05 s
    for x, expected in {"seconds": [0.25, 0.5, 0.75], "iterations": [1, 2, 3]}.items():
        found, axis = lines(tmp_path, metric="memory/size", x=x)
        assert found["toppo"][0] == pytest.approx(expected)
        assert x in axis.get_xlabel()
    # The return is the report's, on 100 parts of the budget of 1,000 steps: the first episode ends at step 25.
    found, _ = lines(tmp_path, x="seconds")
    assert found["toppo"][0][0] == pytest.approx(0.25 * 30 / 25)
    assert found["toppo"][1].tolist() == [1.0, 1.0, 2.0, 2.0, 2.0]  # a gap keeps the value before it


def test_a_long_log_is_drawn_by_means(tmp_path):
    root = run_directory(tmp_path / "run", episodes=0)
    log = JsonLines(root / "metrics.jsonl", (root / "metrics.jsonl").stat().st_size)
    for i in range(1, 1001):
        log.append({"time/total_timesteps": i, "train/tv": float(i)})
    log.close()
    x, y = lines(tmp_path, metric="train/tv")[0]["toppo"]
    assert len(x) == 100
    assert y[:2] == pytest.approx([np.mean(range(1, 11)), np.mean(range(11, 21))])


def test_smoothing_takes_the_mean_of_the_last_points(tmp_path):
    assert moving_mean(np.array([1.0, 3.0, np.nan, 8.0, 2.0]), 3) == pytest.approx([1, 2, 2, 5.5, 5])
    assert moving_mean(np.array([1.0, 3.0]), 10) == pytest.approx([1, 2])
    assert moving_mean(np.array([np.nan, 3.0]), 2) == pytest.approx([np.nan, 3], nan_ok=True)
    assert len(moving_mean(np.zeros(0), 5)) == 0
    run_directory(tmp_path / "run", episodes=3)
    found, axis = lines(tmp_path, metric="memory/size", smooth=2)
    assert found["toppo"][1].tolist() == [1, 1.5, 2.5]
    assert axis.get_ylabel() == "memory/size, mean of 2 points"


def test_tests_during_training_and_lengths_are_metrics_too(tmp_path):
    root = run_directory(tmp_path / "run", episodes=2)
    log = JsonLines(root / "evaluations.jsonl")
    log.append({"step": 50, "return": 7.0, "returns": [6.0, 8.0]})
    log.close()
    x, y = lines(tmp_path, metric="eval/mean_reward")[0]["toppo"]
    assert (x.tolist(), y.tolist()) == ([50], [7])
    assert lines(tmp_path, metric="length")[0]["toppo"][1].tolist() == [25, 25]


def test_a_compact_curve_has_what_it_keeps(tmp_path):
    data = curve(returns=[1.0, 2.0], **{"memory/size": [3.0, 4.0]})
    (tmp_path / "toppo-E-0.json").write_text(json.dumps(data))
    assert lines(tmp_path, metric="memory/size")[0]["toppo"][1].tolist() == [3, 4]
    assert lines(tmp_path)[0]["toppo"][1].tolist() == [1, 2]
    with pytest.raises(ToppoError, match="compact curve, which keeps no seconds: name its run directory"):
        lines(tmp_path, x="seconds")
    with pytest.raises(ToppoError, match="'train/std' is not a metric of these runs"):
        lines(tmp_path, metric="train/std")


def test_a_run_that_has_only_begun_is_drawn_as_far_as_it_is(tmp_path):
    run_directory(tmp_path / "long")
    run_directory(tmp_path / "short", "ppo", episodes=4)
    found, _ = lines(tmp_path)
    assert (found["toppo"][0][-1], found["ppo"][0][-1]) == (1000, 100)


@pytest.mark.parametrize("ending", STARTS)
def test_figures_are_written(tmp_path, ending):
    for arm in ("ppo", "toppo"):
        for env in "XY":
            run_directory(tmp_path / "runs" / f"{arm}{env}", arm, env)
    out = tmp_path / "deep" / f"curves{ending}"
    main(["plot", str(tmp_path / "runs"), "--out", str(out)])
    assert out.read_bytes().startswith(STARTS[ending])
    assert out.stat().st_size > 5000


def refused(capsys, *words):
    with pytest.raises(SystemExit) as leave:
        main(["plot", *map(str, words)])
    return leave.value.code, capsys.readouterr().err


def test_a_mistake_is_one_sentence_and_nothing_is_written(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    root = run_directory(tmp_path / "runs" / "run")
    silent = run_directory(tmp_path / "silent" / "run", episodes=0)
    (tmp_path / "empty").mkdir()
    before = sorted(tmp_path.rglob("*"))
    near = "'memory/siz' is not a metric of these runs: did you mean `memory/size`?"
    for words, code, sentence in (
        ([root, "--metric", "memory/siz"], USAGE, near),
        ([root, "--smooth", 0], USAGE, "smooth is 0, but must be at least 1"),
        ([silent], NO_INPUT, "these runs have logged no return yet: let them train first"),
        (["empty"], NO_INPUT, "there is no run in empty: name a run directory or a study"),
        ([root / "spec.json"], NO_INPUT, f"{root / 'spec.json'} is not a directory: name one with runs or curves"),
    ):
        assert refused(capsys, *words) == (code, f"toppo: {sentence}\n")
    assert refused(capsys, root, "--x", "hours")[0] == USAGE
    for out in ("a.nonsense", "runs/run/spec.json/a.png"):
        code, errors = refused(capsys, root, "--out", out)
        assert "cannot be written" in errors
    assert sorted(tmp_path.rglob("*")) == before


def test_what_could_not_be_used_is_named(tmp_path, capsys):
    run_directory(tmp_path / "runs" / "a")
    (run_directory(tmp_path / "runs" / "b") / "timing.jsonl").unlink()
    main(["plot", str(tmp_path / "runs"), "--out", str(tmp_path / "x.png")])
    assert "note: b is left out: " in capsys.readouterr().out
