"""What the board knows of runs: cheap to keep up to date, and nothing that a file could do to it."""

import json
import os
import socket
from types import SimpleNamespace

import pytest

from tests.support.curves import run_directory, study_curves
from toppo.board.board import Board
from toppo.board.pace import Pace
from toppo.board.thinned import MAX_POINTS, Thinned, mean_curve
from toppo.errors import NO_INPUT, ToppoError
from toppo.rundir.jsonl import JsonLines
from toppo.rundir.layout import write_json


@pytest.fixture(autouse=True)
def _look_every_time(monkeypatch):
    monkeypatch.setattr("toppo.board.board.SECONDS_BETWEEN_LOOKS", 0.0)


def status(root, state, message=""):
    write_json(root / "status.json", {"schema": 1, "state": state, "message": message, "steps": 0, "exact": True})


def append(root, log, *rows):
    with (root / f"{log}.jsonl").open("a") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def only(board, metric="return"):
    found = board.snapshot(metric)
    (run,) = found["runs"]
    (panel,) = found["panels"]
    return run, panel["arms"][0]["runs"][0]["points"]


def test_a_thinned_curve_has_few_points_and_the_means_of_all_values():
    curve = Thinned()
    values = [(float(x), float((x * 7) % 100)) for x in range(1, 10_001)]
    for x, y in values:
        curve.add(x, y)
    points = curve.points()
    assert MAX_POINTS / 3 < len(points) <= MAX_POINTS
    assert points == sorted(points)
    edges = [x for x, _ in points]
    for (x, y), before in zip(points, [0.0, *edges[:-1]], strict=True):
        inside = [value for at, value in values if before < at <= x]
        assert y == pytest.approx(sum(inside) / len(inside))
    assert edges[-1] == 10_000


@pytest.mark.parametrize("xs", [[1e300, 1.0, -1e300, 5.0] * 300, [3.0] * 1000, list(map(float, range(5000, 0, -1)))])
def test_a_thinned_curve_bears_any_numbers(xs):
    curve = Thinned()
    for i, x in enumerate(xs):
        curve.add(x * (1 + i / 7), 1.0)
    assert 0 < len(curve.points()) <= MAX_POINTS
    assert all(y == 1.0 for _, y in curve.points())


def test_the_mean_of_curves_reaches_as_far_as_the_shortest():
    one = [(10.0, 0.0), (100.0, 90.0)]
    other = [(20.0, 2.0), (60.0, 2.0)]
    mean = mean_curve([one, other, []])
    assert (mean[0][0], mean[-1][0]) == (20.0, 60.0)
    for x, y in mean:
        assert y == pytest.approx((x - 10 + 2) / 2)
    assert mean_curve([one]) == mean_curve([one, [(1.0, 1.0)]]) == mean_curve([one, [(200.0, 1.0), (300.0, 1.0)]]) == []


def test_the_pace_is_that_of_the_log_and_before_that_what_the_run_says():
    pace = Pace()
    assert pace.speed(1000.0, 0, None) is None
    assert pace.speed(1003.0, 900, 55.0) == 55.0
    assert pace.speed(1010.0, 2000, 55.0) == 200.0
    assert pace.speed(1125.0, 32_000, 55.0) == pytest.approx(30_000 / 115)  # the last two minutes alone
    assert pace.speed(1300.0, 33_000, 7.0) == 7.0  # it has been away for longer
    assert pace.speed(1310.0, 34_000, 7.0) == 100.0
    assert pace.speed(1320.0, 100, 7.0) == 7.0  # resumed from a checkpoint


def test_a_run_is_shown_as_it_is(tmp_path):
    root = run_directory(tmp_path / "mine", seed=3, episodes=20)
    status(root, "running")
    (root / ".holder.json").write_text(json.dumps({"pid": os.getpid(), "host": socket.gethostname()}))
    append(root, "evaluations", {"schema": 1}, {"step": 250, "return": 8.0}, {"step": 500, "return": 5.0})
    board = Board(root)
    run, points = only(board)
    assert {name: run[name] for name in ("name", "arm", "env", "seed", "state", "steps", "total")} == {
        "name": "mine",
        "arm": "toppo",
        "env": "Pendulum-v1",
        "seed": 3,
        "state": "running",
        "steps": 500,
        "total": 1000,
    }
    assert (run["speed"], run["left"]) == (9.0, pytest.approx(500 / 9, rel=1e-5))
    assert (run["tests"], run["best"]) == ([[250, 8], [500, 5]], 8)
    assert run["recent"] == [float(i + 3) for i in range(1, 21)]
    assert points == [[i * 25, i + 3] for i in range(1, 21)]
    assert board.snapshot()["metrics"][:3] == ["return", "eval/mean_reward", "length"]
    assert only(board, "memory/size")[1] == [[i * 25, min(i, 5)] for i in range(1, 21)]
    assert only(board, "time/update")[1][-1] == [500, 0.2]
    assert only(board, "eval/mean_reward")[1] == [[250, 8], [500, 5]]
    assert board.snapshot("nothing of the kind")["metric"] == "return"


def test_a_run_that_grows_and_is_cut_back_is_followed(tmp_path):
    root = run_directory(tmp_path / "a", episodes=10)
    board = Board(root)
    assert only(board, "memory/size")[1][-1] == [250, 5]
    append(root, "episodes", {"step": 1_001_472, "return": 99.0, "length": 1})
    append(root, "metrics", {"time/total_timesteps": 1_001_472, "memory/size": 9})
    append(root, "timing", {"time/total_timesteps": 275})
    run, points = only(board)
    assert (run["steps"], run["recent"][-1], points[-1]) == (275, 99.0, [1_001_472, 99.0])
    assert only(board, "memory/size")[1][-1] == [1_001_472, 9]
    JsonLines(root / "episodes.jsonl", (root / "episodes.jsonl").read_bytes().index(b'{"step":200')).close()
    JsonLines(
        root / "metrics.jsonl", (root / "metrics.jsonl").read_bytes().index(b'{"time/total_timesteps":200')
    ).close()
    run, points = only(board)
    assert (run["recent"], points[-1]) == ([float(i) for i in range(1, 8)], [175, 7])
    assert only(board, "memory/size")[1][-1] == [175, 5]


def test_a_look_that_takes_long_is_continued_by_the_next(tmp_path, monkeypatch):
    monkeypatch.setattr("toppo.board.board.SECONDS_TO_READ", -1.0)
    for seed in range(2):
        run_directory(tmp_path / f"run-{seed}", seed=seed)
    board = Board(tmp_path)
    found = board.snapshot()
    assert found["unread"] == 2
    assert [(run["steps"], run["recent"]) for run in found["runs"]] == [(1000, [])] * 2
    monkeypatch.setattr("toppo.board.board.SECONDS_TO_READ", 60.0)
    found = board.snapshot()
    assert found["unread"] == 0
    assert [len(run["recent"]) for run in found["runs"]] == [40] * 2


def test_a_look_reads_only_what_is_new(tmp_path, monkeypatch):
    root = run_directory(tmp_path / "a")
    board = Board(root)
    board.snapshot("memory/size")
    lines = []
    counting = SimpleNamespace(loads=lambda line: lines.append(line) or json.loads(line))
    monkeypatch.setattr("toppo.rundir.jsonl.json", counting)
    board.snapshot("memory/size")
    assert lines == []
    append(root, "episodes", {"step": 1000, "return": 1.0})
    board.snapshot("memory/size")
    assert len(lines) == 1


@pytest.mark.parametrize(
    ("state", "shown"),
    [("finished", "finished"), ("failed", "failed"), ("stopped", "stopped"), ("running", "interrupted")],
)
def test_the_state_of_a_run_is_told_with_its_reason(tmp_path, state, shown):
    root = run_directory(tmp_path / "a", episodes=20)
    status(root, state, "why \x1b[31m" + "x" * 1000)
    (root / ".holder.json").write_text(json.dumps({"pid": 2**22 + 1, "host": socket.gethostname()}))
    run, _ = only(Board(root))
    assert run["state"] == shown
    assert run["message"].startswith("why ?[31m")
    assert len(run["message"]) <= 400
    assert run["speed"] is run["left"] is None


def test_runs_of_different_settings_are_different_arms_and_equal_ones_have_a_mean(tmp_path):
    for seed in range(2):
        run_directory(tmp_path / f"same-{seed}", seed=seed)
    other = run_directory(tmp_path / "other", shift=5.0)
    spec = json.loads((other / "spec.json").read_text())
    write_json(other / "spec.json", {**spec, "config": {"n_steps": 8}})
    board = Board(tmp_path, lambda algo: {"n_steps": 2048})
    (panel,) = board.snapshot()["panels"]
    arms = {arm["arm"]: arm for arm in panel["arms"]}
    assert list(arms) == ["toppo, n_steps=8", "toppo, n_steps=2048"]
    assert [len(arm["runs"]) for arm in arms.values()] == [1, 2]
    assert arms["toppo, n_steps=8"]["mean"] == []
    assert arms["toppo, n_steps=2048"]["mean"][-1] == [1000, 40.5]


def test_a_study_shows_what_waits_and_curves_outlive_their_directories(tmp_path):
    study_curves(tmp_path / "curves", arms=("toppo",), envs=("E",), seeds=1)
    run_directory(tmp_path / "ppo-E-0", algo="ppo", env="E", episodes=10)
    names = ["toppo-E-0", "ppo-E-0", "trpo-E-0", "../<script>"]
    write_json(tmp_path / "curves" / "study-mine.json", {"schema": 2, "runs": names, "grids": []})
    found = Board(tmp_path).snapshot()
    states = {run["name"]: run["state"] for run in found["runs"]}
    assert states.pop("ppo-E-0") in ("starting", "interrupted")
    assert states == {"toppo-E-0": "finished", "trpo-E-0": "waiting", "../<script>": "waiting"}
    assert found["total"]["total"] == 1000 + 100 + 2 * 550
    assert found["total"]["steps"] == 100 + 250


def test_what_is_no_run_is_one_sentence(tmp_path):
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(ToppoError) as refusal:
            Board(path)
        assert refusal.value.code == NO_INPUT


def test_damaged_runs_and_links_are_named_and_the_others_are_shown(tmp_path):
    run_directory(tmp_path / "good")
    for name, text in {"list": "[]", "torn": "{", "old": '{"schema": 1}', "deep": "[" * 100_000}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "spec.json").write_text(text)
    secret = run_directory(tmp_path.parent / f"{tmp_path.name}-secret")
    (tmp_path / "link").symlink_to(secret)
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "spec.json").symlink_to(secret / "spec.json")
    inside = run_directory(tmp_path / "inside", seed=1)
    (inside / "episodes.jsonl").unlink()
    (inside / "episodes.jsonl").symlink_to(secret / "episodes.jsonl")
    (inside / "video.mp4").symlink_to("/etc/passwd")
    os.mkfifo(inside / "evaluations.jsonl")
    found = Board(tmp_path).snapshot()
    runs = {run["name"]: run for run in found["runs"]}
    assert set(runs) == {"good", "inside"}
    assert (runs["inside"]["recent"], runs["inside"]["video"]) == ([], None)
    told = " ".join(found["problems"])
    assert all(f"{name} is left out" in told for name in ("list", "torn", "old", "deep"))
    assert "not followed: 1 link (link)" in told


def test_numbers_of_any_size_become_json(tmp_path):
    root = run_directory(tmp_path / "a")
    rows = [{"step": float("nan"), "return": 1.0}, {"step": 10**400, "return": 1}, {"step": 1, "return": float("inf")}]
    append(
        root,
        "episodes",
        *rows,
        {"step": True, "return": 1},
        {"step": "1", "return": []},
        {"step": 1e299, "return": -1e299},
    )
    append(root, "timing", {"time/total_timesteps": 1e308, "time/fps": float("nan")})
    json.dumps(Board(root).snapshot(), allow_nan=False)
