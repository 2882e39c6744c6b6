"""Trackers, each with its real package and its real store: a resumed run neither loses nor repeats a point."""

import json
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from importlib.util import find_spec

import numpy as np
import pytest

import toppo
from tests.support import commands, probes
from tests.support.settings import tiny, tiny_flags
from tests.support.trackers import POINTS
from tests.support.training import shared_programs
from toppo.callbacks import Evaluate, LogTo
from toppo.cli import main
from toppo.errors import ToppoError
from toppo.learn import loop
from toppo.rundir.jsonl import read_lines
from toppo.runs.presets import spec_for
from toppo.runs.run import RunOptions, resume, start
from toppo.tracking import TRACKERS, as_numbers, tracking_id

RUN = ["CartPole-v1", "--algo", "ppo", *tiny_flags(), "--workers", "0"]
OPTIONS = ["--no-tensorboard", "--evaluate-every", "256", "--checkpoint-every", "192"]
LOSS = "train/policy_gradient_loss"


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """One database of MLflow for all tests: making it takes seconds."""
    return tmp_path_factory.mktemp("mlflow") / "mlflow.db"


@pytest.fixture(autouse=True)
def _stores_of_this_test(tmp_path, monkeypatch, store):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{store}")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("TRACKIO_DIR", str(store.parent))
    monkeypatch.setattr(loop, "Programs", shared_programs)


def need(name):
    if find_spec(TRACKERS[name].package) is None:
        pytest.skip(f"{name} is not installed")
    return name


@pytest.fixture(params=TRACKERS)
def tracker(request):
    return need(request.param)


def assert_complete(name, root, project):
    """Each step once, with the values of the run's own logs."""
    metrics = {row["time/total_timesteps"]: as_numbers(row) for row in read_lines(root / "metrics.jsonl")}
    tests = {row["step"]: row["return"] for row in read_lines(root / "evaluations.jsonl")}
    points = POINTS[name](root, project)
    counts = Counter((step, key) for step, values in points for key in values)
    assert set(counts.values()) == {1}
    found = {(step, key): value for step, values in points for key, value in values.items()}
    for step, row in metrics.items():
        for key, value in row.items():
            assert found[step, key] == pytest.approx(value, rel=1e-6), (step, key)
        assert (step, "time/fps") in found
    assert {step: v for (step, key), v in found.items() if key == "eval/mean_reward"} == pytest.approx(tests)
    assert {step for step, _ in found} == set(metrics)


@pytest.mark.parametrize("name", ["wandb", "trackio"])
def test_a_killed_run_is_tracked_without_a_gap_and_without_repetition(name, tmp_path):
    """These two send in the background, and a killed process loses what was on its way."""
    root = tmp_path / "run"
    toppo.PPO(probes.walk, **tiny()).learn(64, LogTo(need(name)), workers=0)  # W&B lends its service to child processes
    track = [*OPTIONS, "--track", name, "--project", tmp_path.name]
    process = commands.start("train", *RUN, *track, "--total-timesteps", 64_000, "--out", root)
    assert commands.wait_for_lines(process, root / "metrics.jsonl", 7)
    assert commands.kill(process)
    done = commands.lines(root / "metrics.jsonl") * 64
    main(["resume", str(root), "--workers", "0", *track, "--total-timesteps", str(done + 192)])
    assert_complete(name, root, tmp_path.name)


class Enough(Exception):  # noqa: N818 - as if the process had ended
    pass


def until(steps):
    def observe(training):
        if training.num_timesteps > steps:
            raise Enough

    return observe


@pytest.mark.parametrize("name", ["tensorboard", "mlflow"])
def test_what_lies_beyond_the_last_checkpoint_is_not_repeated(name, tmp_path):
    root = tmp_path / "run"
    options = RunOptions(workers=0, checkpoint_every=192, tensorboard=False, evaluate_every=128)
    options = options._replace(track=(need(name),), project=tmp_path.name)
    with pytest.raises(Enough):
        start(spec_for("walk", "ppo", 448, 0, **tiny()), probes.walk, root, options, until(256))
    assert len(POINTS[name](root, tmp_path.name)) > 0
    resume(root, probes.walk, options, until(10**6))
    assert_complete(name, root, tmp_path.name)


def test_a_run_that_is_tracked_from_some_step_on_is_tracked_as_a_whole(tracker, tmp_path):
    agent = toppo.PPO(probes.walk, seed=0, **tiny())
    agent.learn(128, Evaluate(64, episodes=1), workers=0, log_dir=tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "tensorboard")
    for _ in range(2):
        agent.learn(128, [LogTo(tracker, tmp_path.name), Evaluate(64, episodes=1)], workers=0, log_dir=tmp_path / "run")
    assert_complete(tracker, tmp_path / "run", tmp_path.name)


def test_without_a_run_directory_one_object_is_one_run(tracker, tmp_path):
    agent = toppo.PPO(probes.walk, seed=0, **tiny())
    log = LogTo(tracker, tmp_path.name, name="mine")
    seen = []
    for _ in range(2):
        agent.learn(128, [log, lambda training: seen.append(training.metrics[LOSS])], workers=0)
    root = tmp_path
    if tracker == "tensorboard":
        (tmp_path / tmp_path.name / "mine").rename(tmp_path / "tensorboard")
    found = sorted((step, values[LOSS]) for step, values in POINTS[tracker](root, tmp_path.name) if LOSS in values)
    assert [step for step, _ in found] == [64, 128, 192, 256]
    assert [value for _, value in found] == pytest.approx(seen, rel=1e-6)


def test_two_trackers_at_once_and_their_settings(tmp_path):
    need("mlflow")
    from mlflow import MlflowClient

    track = ["--track", "mlflow,tensorboard", "--project", tmp_path.name]
    main(["train", *RUN, *OPTIONS, *track, "--total-timesteps", "64", "--out", str(tmp_path / "run")])
    client = MlflowClient()
    (run,) = client.search_runs([client.get_experiment_by_name(tmp_path.name).experiment_id])
    assert run.info.run_name == "run"
    assert {"env": "CartPole-v1", "n_steps": "64", "hidden": "[8]"}.items() <= run.data.params.items()
    assert len(POINTS["tensorboard"](tmp_path / "run", "")) == 1


def rename_table(store, old, new):
    with closing(sqlite3.connect(store)) as database, database:
        database.execute(f"alter table {old} rename to {new}")


def test_a_tracker_that_fails_is_left_out_and_made_complete_by_the_next_session(tmp_path, store):
    need("mlflow")
    root = tmp_path / "run"

    def fail(training):
        if training.num_timesteps == 192:
            rename_table(store, "metrics", "hidden")

    callbacks = [fail, LogTo("mlflow", tmp_path.name), Evaluate(64, episodes=1)]
    agent = toppo.PPO(probes.walk, seed=0, **tiny())
    try:
        with pytest.warns(UserWarning, match="mlflow is left out from now on: "):
            agent.learn(320, callbacks, workers=0, log_dir=root)
    finally:  # other tests use this store
        rename_table(store, "hidden", "metrics")
    assert agent.num_timesteps == 320
    agent.learn(64, callbacks, workers=0, log_dir=root)
    assert_complete("mlflow", root, tmp_path.name)


def test_a_tracker_that_cannot_be_opened_is_one_sentence_before_the_first_step(tmp_path, monkeypatch):
    need("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "nonsense://nowhere")
    agent = toppo.PPO(probes.walk, seed=0, **tiny())
    with pytest.raises(ToppoError, match=r"^mlflow cannot be used: ") as refusal:
        agent.learn(64, LogTo("mlflow"), workers=0)
    assert "\n" not in str(refusal.value)
    assert agent.num_timesteps == 0


def test_the_id_of_a_run_stays_and_is_not_taken_from_anything_else(tmp_path):
    first = tracking_id(tmp_path)
    assert tracking_id(tmp_path) == first
    assert tracking_id(None) != first
    for data in ({"id": "../../elsewhere"}, {"id": 3}, []):
        (tmp_path / "tracking.json").write_text(json.dumps(data))
        with pytest.raises(ToppoError, match="holds no id of 16 hexadecimal digits"):
            tracking_id(tmp_path)


def test_no_tracker_is_imported_unless_it_is_asked_for():
    packages = [kind.package for kind in TRACKERS.values()]
    check = (
        "import sys, toppo.callbacks, toppo.cli.train, toppo.agent\n"
        "toppo.callbacks.LogTo('tensorboard')\n"
        f"assert not set({packages}) & set(sys.modules), sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", check], check=True)


def test_values_are_numbers_and_lists_their_means():
    given = {"a": 1, "b": [1.0, 4.0], "c": [], "d": np.float64(2.5), "e": "text"}
    assert as_numbers(given) == {"a": 1.0, "b": 2.5, "d": 2.5}
