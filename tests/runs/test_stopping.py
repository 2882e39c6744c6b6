"""Runs that callbacks stop, runs that are given another length, and what both remember through a kill."""

import json

import pytest

import toppo
from tests.support import probes
from tests.support.checkpoints import content
from tests.support.settings import tiny, tiny_flags
from tests.support.training import shared_programs
from toppo.cli import main
from toppo.errors import ToppoError
from toppo.learn import loop
from toppo.rundir.jsonl import read_lines
from toppo.runs import run as runs
from toppo.runs.presets import spec_for
from toppo.runs.run import RunOptions
from toppo.runs.spec import to_json

OPTIONS = RunOptions(workers=0, checkpoint_every=192, tensorboard=False)
RUN = ["CartPole-v1", "--algo", "ppo", *tiny_flags(), "--workers", "0", "--no-tensorboard"]


@pytest.fixture(autouse=True)
def _compiled_once(monkeypatch):
    monkeypatch.setattr(loop, "Programs", shared_programs)


class Enough(Exception):  # noqa: N818 - as if the process had ended
    pass


def until(steps):
    def observe(training):
        if training.num_timesteps >= steps:
            raise Enough

    return observe


def silent(training):
    pass


def spec(steps, **settings):
    return spec_for("walk", "ppo", steps, 5, **tiny(learning_rate=0.05) | settings)


def status(root):
    return json.loads((root / "status.json").read_text())


def everything(root):
    """All that a stopped run with tests must have in common with one that was not killed."""
    best = [(root / "best" / name).read_bytes() for name in ("arrays.safetensors", "manifest.json")]
    return content(root), (root / "evaluations.jsonl").read_bytes(), best


STOPS = {
    "patience": ({"patience": 3}, "stopped by StopOnPlateau(patience=3)"),
    "return": ({"stop_return": 4.7}, "stopped by StopOnReturn(threshold=4.7)"),
    "nothing": ({"patience": 50}, ""),
}


@pytest.mark.parametrize("stop", STOPS)
def test_what_callbacks_remember_survives_kills(tmp_path, stop):
    flags, message = STOPS[stop]
    options = OPTIONS._replace(evaluate_every=64, keep_best=True, **flags)
    runs.start(spec(960), probes.walk, tmp_path / "whole", options, silent)
    expected = everything(tmp_path / "whole")
    assert status(tmp_path / "whole")["message"] == message
    end = status(tmp_path / "whole")["steps"]
    assert (end < 960) is (stop != "nothing")
    for at in (128, end - 128, end - 64, end):
        root = tmp_path / f"killed-{at}"
        with pytest.raises(Enough):
            runs.start(spec(960), probes.walk, root, options, until(at))
        runs.resume(root, probes.walk, options, silent)
        assert everything(root) == expected, at


def test_a_run_that_was_stopped_for_its_return_is_resumed_until_the_next_test(tmp_path):
    root = tmp_path / "run"
    options = OPTIONS._replace(evaluate_every=128, stop_return=-1e9)
    for steps in (128, 256):
        run = runs.start if steps == 128 else runs.resume
        first = (spec(640), probes.walk, root) if steps == 128 else (root, probes.walk)
        run(*first, options, silent)
        assert (status(root)["state"], status(root)["steps"]) == ("stopped", steps)
    runs.resume(root, probes.walk, OPTIONS, silent)
    runs.start(spec(640), probes.walk, tmp_path / "whole", OPTIONS, silent)
    assert content(root) == content(tmp_path / "whole")


def test_a_callback_that_stops_at_the_last_step_leaves_a_finished_run(tmp_path):
    runs.start(spec(128), probes.walk, tmp_path, OPTIONS._replace(evaluate_every=128, stop_return=-1e9), silent)
    assert (status(tmp_path)["state"], status(tmp_path)["message"]) == ("finished", "")


def test_tests_beyond_the_checkpoint_are_forgotten_with_the_steps(tmp_path):
    """The first test comes after the last checkpoint, which knows of no tests."""
    root = tmp_path / "run"
    options = OPTIONS._replace(evaluate_every=256)
    with pytest.raises(Enough):
        runs.start(spec(512), probes.walk, root, options, until(256))
    assert [row["step"] for row in read_lines(root / "evaluations.jsonl")] == [256]
    runs.resume(root, probes.walk, options, silent)
    assert [row["step"] for row in read_lines(root / "evaluations.jsonl")] == [256, 512]


def test_a_finished_run_is_extended_to_the_bytes_of_a_longer_one(tmp_path, capsys):
    main(["train", *RUN, "--total-timesteps", "960", "--out", str(tmp_path / "whole")])
    root = tmp_path / "run"
    main(["train", *RUN, "--total-timesteps", "320", "--out", str(root)])
    for steps in ("640", "9.6e2"):
        capsys.readouterr()
        main(["resume", str(root), "--workers", "0", "--no-tensorboard", "--total-timesteps", steps])
        assert f"seed 0: {int(float(steps))} steps into" in capsys.readouterr().out
        assert status(root)["state"] == "finished"
    assert content(root) == content(tmp_path / "whole")


@pytest.mark.parametrize("settings", [{"anneal_lr": True}, {"ent_coef": ((0.0, 0.01), (1.0, 0.0))}])
def test_a_run_with_schedules_that_gets_another_length_is_marked(tmp_path, settings):
    root, told = tmp_path / "run", []
    runs.start(spec(192, **settings), probes.walk, root, OPTIONS, silent)
    with pytest.raises(Enough):  # killed before a checkpoint knows of the new length
        runs.resume(root, probes.walk, OPTIONS, until(256), told.append, total_timesteps=576)
    runs.resume(root, probes.walk, OPTIONS, silent, told.append)
    sentence = "the schedules of its settings followed a length of 192 steps so far: resumed, not bit-exact"
    assert told == [f"warning: {sentence}"] * 2
    assert status(root) == {"schema": 1, "state": "finished", "steps": 576, "exact": False, "message": ""}


def test_a_stopped_run_that_gets_its_own_length_again_stays_exact(tmp_path):
    root = tmp_path / "run"
    with pytest.raises(Enough):
        runs.start(spec(576, anneal_lr=True), probes.walk, root, OPTIONS, until(256))
    runs.resume(root, probes.walk, OPTIONS, silent, total_timesteps=576)
    assert status(root)["exact"] is True


@pytest.mark.parametrize("steps", [64, 192])
def test_a_length_that_is_done_already_is_refused(tmp_path, steps):
    root = tmp_path / "run"
    runs.start(spec(192), probes.walk, root, OPTIONS, silent)
    with pytest.raises(ToppoError, match=rf"^total_timesteps is {steps}, but .* has done 192 already: give more$"):
        runs.resume(root, probes.walk, OPTIONS, silent, total_timesteps=steps)
    assert json.loads((root / "spec.json").read_text()) == to_json(spec(192))


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--keep-best"], "--keep-best keeps the agent of the best test, and nothing tests it: add --evaluate-every"),
        (["--stop-return", "9"], "StopOnReturn(threshold=9.0) waits for tests, and nothing tests the agent"),
        (["--patience", "2"], "StopOnPlateau(patience=2) waits for tests, and nothing tests the agent"),
        (["--patience", "0", "--evaluate-every", "64"], "patience is 0, but must be at least 1"),
        (
            ["--stop-return", "nan", "--evaluate-every", "64"],
            "the return to stop at is nan, but must be a finite number",
        ),
        (["--track", "tensorbord"], "'tensorbord' is not a tracker: did you mean `tensorboard`?"),
    ],
)
def test_wrong_options_are_one_sentence_before_anything_is_written(tmp_path, capsys, flags, sentence):
    with pytest.raises(SystemExit) as leave:
        main(["train", *RUN, *flags, "--out", str(tmp_path / "run")])
    assert leave.value.code == 64
    errors = capsys.readouterr().err
    assert errors.startswith(f"toppo: {sentence}")
    assert errors.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_the_screen_says_what_the_tests_found_what_stopped_the_run_and_how_it_goes_on(tmp_path, capsys):
    root = tmp_path / "run"
    flags = ["--evaluate-every", "64", "--keep-best", "--stop-return", "8"]
    main(["train", *RUN, *flags, "--total-timesteps", "640", "--out", str(root)])
    lines = capsys.readouterr().out.splitlines()
    [test] = read_lines(root / "evaluations.jsonl")
    assert lines[2].endswith(f"  test {test['return']:,.1f}")
    found = {name: text for name, _, text in (line.strip().partition(" ") for line in lines)}
    assert "PPO on CartPole-v1, seed 0: stopped by StopOnReturn(threshold=8.0) in 0:0" in "\n".join(lines)
    assert found["test"].strip() == f"{test['return']:,.1f} at 64 steps"
    assert found["kept"] == f"in {root}/best/"
    own = "--no-tensorboard --evaluate-every 64 --keep-best --stop-return 8.0"
    assert lines[-1].strip() == f"toppo resume {root} --workers 0 {own}"
    assert toppo.load(root / "best").num_timesteps == 64
    assert sum(toppo.load(root / "best").evaluate(10)) / 10 == test["return"]


@pytest.mark.parametrize(
    "row", ['{"step":1,"return":2}', '{"step":"x","return":2,"returns":[]}', '{"step":1,"return":[]}']
)
def test_a_crafted_log_of_tests_is_refused(tmp_path, row):
    runs.start(spec(192), probes.walk, tmp_path / "run", OPTIONS._replace(evaluate_every=64), silent)
    path = tmp_path / "run" / "evaluations.jsonl"
    header, first, *rest = path.read_text().splitlines(keepends=True)
    path.write_text(
        "".join([header, row.ljust(len(first) - 1) + "\n", *rest])
    )  # the checkpoint knows the file's length
    with pytest.raises(ToppoError, match=r"evaluations\.jsonl holds a line that is not a test: "):
        runs.resume(tmp_path / "run", probes.walk, OPTIONS, silent)
