"""Callbacks of ``learn``: what they see, how they stop a training, and what an interruption leaves."""

import json
import math
from collections import defaultdict
from importlib.util import find_spec

import numpy as np
import pytest

import toppo
from tests.support import probes
from tests.support.checkpoints import content
from tests.support.settings import tiny, tiny_flags
from tests.support.training import shared_programs
from tests.test_agent import assert_same_state
from toppo.callbacks import Checkpoint, Evaluate, LogTo, StopOnPlateau, StopOnReturn
from toppo.cli import main
from toppo.errors import ToppoError
from toppo.learn import loop
from toppo.rundir.jsonl import read_lines


@pytest.fixture(autouse=True)
def _compiled_once(monkeypatch):
    monkeypatch.setattr(loop, "Programs", shared_programs)


def small(source=probes.walk, seed=3, **settings):
    return toppo.PPO(source, seed=seed, **tiny(**{"learning_rate": 0.01} | settings))


def unsteady():
    """An agent whose tests rise, fall, rise to their best, and fall again."""
    return small(seed=5, learning_rate=0.05)


def status(root):
    return json.loads((root / "status.json").read_text())


class Watching:
    """Notes what it sees."""

    def __init__(self):
        self.seen = defaultdict(list)

    def on_training_start(self, training):
        self.seen["start"].append((training.num_timesteps, training.metrics, training.evaluation))

    def __call__(self, training):
        self.seen["steps"].append(training.num_timesteps)
        self.seen["reward"].append(training.metrics.get("rollout/ep_rew_mean"))
        self.seen["agent"].append(training.agent.num_timesteps)
        self.seen["tests"].append(len(training.evaluations))
        self.seen["total"].append(training.total_timesteps)

    def on_training_end(self):
        self.seen["end"].append(len(self.seen["steps"]))


def test_a_callback_sees_the_metrics_the_tests_and_the_agent():
    watching, old = Watching(), []

    def of_one_iteration(iteration):
        old.append((iteration.state.steps, iteration.metrics, iteration.episodes, iteration.seconds, iteration.faults))

    agent = small().learn(256, [watching, of_one_iteration, Evaluate(128, episodes=1)], workers=0)
    seen = watching.seen
    assert seen["steps"] == seen["agent"] == [row[0] for row in old] == [64, 128, 192, 256]
    assert seen["reward"] == [row[1].get("rollout/ep_rew_mean") for row in old]
    assert all(row[3]["collect"] > 0 for row in old)
    assert seen["tests"] == [0, 1, 1, 2]
    assert seen["total"] == [256] * 4
    assert seen["start"] == [(0, {}, None)]
    assert seen["end"] == [4]
    assert [test.step for test in agent.evaluations] == [128, 256]
    assert agent.evaluations[-1].returns == agent.evaluate(1)


@pytest.mark.parametrize("answer", [False, np.False_])
def test_a_callback_that_returns_false_stops_and_the_others_are_still_called(answer):
    watching = Watching()
    agent = small().learn(640, [lambda training: answer, watching], workers=0)
    assert agent.num_timesteps == 64
    assert watching.seen["steps"] == [64]
    assert watching.seen["end"] == [1]


@pytest.mark.parametrize("answer", [None, True, 0, "", []])
def test_only_false_stops(answer):
    assert small().learn(128, lambda training: answer, workers=0).num_timesteps == 128


def test_the_best_agent_is_kept(tmp_path):
    agent = unsteady().learn(640, Evaluate(128, episodes=3, keep_best=tmp_path / "best"), workers=0)
    best = max(agent.evaluations, key=lambda test: test.mean)
    assert best.step < 640, "the last is the best: this says nothing"
    kept = toppo.load(tmp_path / "best", env=probes.walk)
    assert kept.num_timesteps == best.step
    assert kept.evaluate(3) == best.returns


def test_the_best_return_is_remembered_when_learning_continues(tmp_path):
    evaluate = Evaluate(64, episodes=3, keep_best=tmp_path / "best")
    agent = unsteady()
    for _ in range(5):
        agent.learn(128, evaluate, workers=0)
    best = max(agent.evaluations, key=lambda test: test.mean)
    assert [test.step for test in agent.evaluations] == [64 * k for k in range(1, 11)]
    assert best.step < 640
    assert toppo.load(tmp_path / "best", env=probes.walk).num_timesteps == best.step


def test_checkpoints_in_a_folder_are_all_kept(tmp_path):
    small().learn(320, Checkpoint(128, tmp_path / "all"), workers=0)
    names = sorted(p.name for p in (tmp_path / "all").iterdir())
    assert names == ["000000000128", "000000000256", "000000000320"]
    assert [toppo.load(tmp_path / "all" / name).num_timesteps for name in names] == [128, 256, 320]


def test_checkpoints_of_a_run_directory_are_those_that_it_resumes_from(tmp_path):
    small().learn(320, Checkpoint(128), workers=0, log_dir=tmp_path / "run")
    assert sorted(p.name for p in (tmp_path / "run" / "checkpoint").iterdir()) == ["000000000256", "000000000320"]


def test_training_stops_at_the_first_test_with_the_return():
    tests = small().learn(640, Evaluate(128, episodes=2), workers=0).evaluations
    means = [test.mean for test in tests]
    threshold = means[2]
    assert max(means[:2]) < threshold
    # The order of the list does not matter.
    stopped = small().learn(640, [StopOnReturn(threshold), Evaluate(128, episodes=2)], workers=0)
    assert stopped.num_timesteps == tests[2].step
    assert stopped.evaluations == tests[:3]


def test_training_stops_after_tests_without_a_new_best():
    """Every episode of this environment returns 1: the first test is the best."""
    for patience, steps in ((1, 128), (3, 256)):
        callbacks = [Evaluate(64, episodes=1), StopOnPlateau(patience)]
        assert small(probes.one_reward).learn(640, callbacks, workers=0).num_timesteps == steps


def test_the_patience_begins_again_with_a_new_best():
    tests = unsteady().learn(640, Evaluate(64, episodes=2), workers=0).evaluations
    means = [test.mean for test in tests]
    since = [k - means.index(max(means[: k + 1])) for k in range(len(means))]
    assert max(since) >= 2
    stop = since.index(2)
    assert stop > 2, "no new best came after the first: this says nothing"
    stopped = unsteady().learn(640, [Evaluate(64, episodes=2), StopOnPlateau(2)], workers=0)
    assert stopped.num_timesteps == tests[stop].step


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Evaluate(0), "every is 0, but must be at least 1"),
        (lambda: Evaluate(64, episodes=0), "episodes is 0, but must be at least 1"),
        (lambda: Checkpoint(-1), "every is -1, but must be at least 1"),
        (lambda: StopOnPlateau(0), "patience is 0, but must be at least 1"),
        (lambda: StopOnReturn(math.nan), "the return to stop at is nan, but must be a finite number"),
        (lambda: StopOnReturn("high"), "the return to stop at is 'high', but must be a finite number"),
        (lambda: Evaluate(1.5), "every is 1.5, but must be a whole number"),
        (lambda: LogTo("wandbb"), "'wandbb' is not a tracker: did you mean `wandb`?"),
    ],
)
def test_wrong_values_are_refused_when_a_callback_is_made(make, sentence):
    with pytest.raises(ToppoError) as refusal:
        make()
    assert str(refusal.value) == sentence


@pytest.mark.parametrize(
    ("callback", "sentence"),
    [
        (3, "3 is not a callback: give a function of one argument, or an object of toppo.callbacks"),
        ([Evaluate], "<class 'toppo.callbacks.Evaluate'> is not a callback"),
        (
            StopOnReturn(1.0),
            r"StopOnReturn\(threshold=1.0\) waits for tests, and nothing tests the agent: add Evaluate",
        ),
        ([StopOnPlateau(2)], r"StopOnPlateau\(patience=2\) waits for tests"),
        (Checkpoint(64), "Checkpoint has nowhere to save: give it a folder, or give learn a log_dir"),
    ],
)
def test_wrong_callbacks_are_refused_before_the_first_step(callback, sentence):
    agent = small()
    with pytest.raises(ToppoError, match=sentence):
        agent.learn(64, callback, workers=0)
    assert agent.num_timesteps == 0


def test_the_best_agent_overwrites_nothing_else(tmp_path):
    (tmp_path / "thesis").mkdir()
    agent = small()
    with pytest.raises(ToppoError, match="thesis exists and is not a saved agent: choose another name"):
        agent.learn(64, Evaluate(64, keep_best=tmp_path / "thesis"), workers=0)
    assert agent.num_timesteps == 0


def test_tests_are_not_played_in_the_object_that_the_agent_learns_in():
    agent = small(probes.Walk())
    with pytest.raises(ToppoError, match=r"is learning in this Walk, and would lose its episode: give Evaluate\(env="):
        agent.learn(128, Evaluate(64, episodes=1))
    agent.learn(128, Evaluate(64, episodes=1, env=probes.walk))
    assert len(agent.evaluations) == 2
    assert_same_state(agent, small(probes.Walk()).learn(128))


def failing(error, at):
    def callback(training):
        if training.num_timesteps == at:
            raise error

    return callback


@pytest.mark.parametrize("error", [ValueError("no"), StopIteration(), KeyboardInterrupt(), SystemExit(3)], ids=repr)
@pytest.mark.parametrize("saved", [False, True])
def test_after_an_error_in_a_callback_learning_continues_to_the_same_bytes(tmp_path, error, saved):
    log_dir = tmp_path / "run" if saved else None
    whole = small().learn(320, workers=0, log_dir=tmp_path / "whole")
    agent = small()
    with pytest.raises(type(error)):
        agent.learn(320, failing(error, 128), workers=0, log_dir=log_dir)
    assert agent.num_timesteps == 128
    if saved:
        assert status(log_dir)["state"] == "failed"
        assert status(log_dir)["message"].startswith(type(error).__name__)
    agent.learn(192, workers=0, log_dir=log_dir)
    assert_same_state(agent, whole)
    if saved:
        assert content(log_dir) == content(tmp_path / "whole")


class Interrupting(probes.Walk):
    """Is interrupted in the middle of a batch."""

    calls = 0
    at = 0

    def step(self, action):
        type(self).calls += 1
        if self.calls == self.at:
            raise KeyboardInterrupt
        return super().step(action)


@pytest.mark.parametrize("saved", [False, True])
def test_after_an_interruption_at_any_moment_learning_continues_to_the_same_bytes(tmp_path, monkeypatch, saved):
    log_dir = tmp_path / "run" if saved else None
    whole = small(Interrupting).learn(320, workers=0)
    agent = small(Interrupting)
    monkeypatch.setattr(Interrupting, "calls", 0)
    monkeypatch.setattr(Interrupting, "at", 300)
    with pytest.raises(KeyboardInterrupt):
        agent.learn(320, workers=0, log_dir=log_dir)
    assert 0 < agent.num_timesteps < 320
    agent.learn(320 - agent.num_timesteps, workers=0, log_dir=log_dir)
    assert_same_state(agent, whole)


def test_a_run_directory_from_python_has_the_bytes_of_the_command_line(tmp_path):
    words = ["CartPole-v1", "--algo", "ppo", "--seed", "4", *tiny_flags()]
    flags = "--total-timesteps 256 --evaluate-every 128 --checkpoint-every 128 --workers 0 --keep-best"
    main(["train", *words, *flags.split(), "--out", str(tmp_path / "command")])
    agent = toppo.PPO("CartPole-v1", seed=4, **tiny())
    callbacks = [Evaluate(128, keep_best=tmp_path / "python" / "best"), Checkpoint(128)]
    assert agent.learn(256, callbacks, workers=0, log_dir=tmp_path / "python").num_timesteps == 256
    assert content(tmp_path / "python") == content(tmp_path / "command")
    for name in ("evaluations.jsonl", "versions.json", "best/arrays.safetensors", "best/manifest.json"):
        assert (tmp_path / "python" / name).read_bytes() == (tmp_path / "command" / name).read_bytes(), name
    names = [{p.name for p in (tmp_path / kind).iterdir()} for kind in ("python", "command")]
    assert names[0] == names[1]


@pytest.mark.parametrize("load", [False, True])
def test_a_run_directory_is_continued_by_its_agent(tmp_path, load):
    whole = small().learn(320, workers=0, log_dir=tmp_path / "whole")
    agent = small().learn(128, workers=0, log_dir=tmp_path / "run")
    assert status(tmp_path / "run")["state"] == "finished"
    if load:
        agent = toppo.load(tmp_path / "run", env=probes.walk)
    agent.learn(192, workers=0, log_dir=tmp_path / "run")
    assert_same_state(agent, whole)
    assert content(tmp_path / "run") == content(tmp_path / "whole")


def test_a_run_that_a_callback_stopped_says_so_and_is_resumed_to_the_same_bytes(tmp_path):
    run, whole = tmp_path / "run", tmp_path / "whole"
    settings = {"seed": 3, **tiny()}
    toppo.PPO("CartPole-v1", **settings).learn(320, workers=0, log_dir=whole)
    callbacks = [Evaluate(64, episodes=1), StopOnReturn(-1.0)]
    toppo.PPO("CartPole-v1", **settings).learn(320, callbacks, workers=0, log_dir=run)
    assert status(run) == {
        "schema": 1,
        "state": "stopped",
        "steps": 64,
        "exact": True,
        "message": "stopped by StopOnReturn(threshold=-1.0)",
    }
    main(["resume", str(run), "--workers", "0"])
    assert content(run) == content(whole)
    assert [row["step"] for row in read_lines(run / "evaluations.jsonl")] == [64]


def test_an_agent_that_learned_elsewhere_leaves_a_run_that_can_be_resumed(tmp_path):
    agent = small().learn(128, workers=0)
    with pytest.raises(KeyboardInterrupt):
        agent.learn(256, failing(KeyboardInterrupt(), 192), workers=0, log_dir=tmp_path / "run")
    assert [row["time/total_timesteps"] for row in read_lines(tmp_path / "run" / "metrics.jsonl")] == [192]
    assert status(tmp_path / "run")["exact"] is False, "its first steps do not follow from the spec"
    agent.learn(192, workers=0, log_dir=tmp_path / "run")
    assert_same_state(agent, small().learn(384, workers=0))


def test_a_run_directory_of_others_is_refused(tmp_path):
    run = tmp_path / "run"
    agent = small().learn(128, Checkpoint(64, tmp_path / "all"), workers=0, log_dir=run)
    before = content(run)
    with pytest.raises(ToppoError, match=r"run exists already: continue it with `toppo resume .*run`"):
        small().learn(64, workers=0, log_dir=run)
    with pytest.raises(ToppoError, match="run holds a run with other settings than this agent's: choose another"):
        small(seed=4).learn(64, workers=0).learn(64, workers=0, log_dir=run)
    early = toppo.load(tmp_path / "all" / "000000000064", env=probes.walk)
    with pytest.raises(ToppoError, match="holds a run of 128 steps, but this agent has learned for 64: load that run"):
        early.learn(64, workers=0, log_dir=run)
    assert content(run) == before
    assert agent.num_timesteps == 128


def test_learning_prints_nothing_unless_it_is_asked_for(capsys):
    small().learn(64, workers=0)
    assert capsys.readouterr() == ("", "")
    small().learn(128, Evaluate(64, episodes=1), workers=0, progress_bar=True)
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first == "warm-up: 64 steps, which are not counted"
    assert " ".join(last.split()).startswith("128 / 128 return ")
    assert " left test " in " ".join(last.split())


def test_a_tracker_whose_package_is_missing_is_answered_by_what_to_type():
    missing = [name for name in ("trackio", "mlflow", "wandb") if find_spec(name) is None]
    if not missing:
        pytest.skip("every tracker is installed")
    with pytest.raises(
        ToppoError, match=rf"^tracking with {missing[0]} needs the package '{missing[0]}': pip install "
    ):
        LogTo(missing[0])
