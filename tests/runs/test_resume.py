"""Resume is invisible: runs that are killed again and again end in the bytes of a run that never was."""

import json
import os
import random
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from tests.support import commands, probes
from tests.support.checkpoints import content
from tests.support.settings import tiny, tiny_flags
from toppo.cli import main
from toppo.errors import ToppoError
from toppo.rundir.checkpoint import add_checkpoint, newest_checkpoint
from toppo.rundir.jsonl import read_lines
from toppo.runs import run as runs
from toppo.runs.presets import spec_for
from toppo.runs.run import RunOptions

PENDULUM = ["Pendulum-v1", *tiny_flags(n_steps=240, warmup_steps=480), "--no-tensorboard"]
CARTPOLE = ["CartPole-v1", *tiny_flags(n_steps=96, warmup_steps=192), "--no-tensorboard"]
# n = 240 with a limit of 200 leaves open episodes of up to 200 steps, which a resumed run has to replay.
RUNS = {
    "toppo, episodes continue": [*PENDULUM, "--algo", "toppo", "--total-timesteps", 14_400, "--checkpoint-every", 240],
    "toppo, reset each batch": [
        *[*PENDULUM, "--algo", "toppo", "--reset-each-batch"],
        *["--total-timesteps", 14_400, "--checkpoint-every", 1000],
    ],
    "ppo, two environments": [
        *CARTPOLE,
        "--algo",
        "ppo",
        "--n-envs",
        2,
        "--total-timesteps",
        14_400,
        "--checkpoint-every",
        300,
    ],
    "ppo, no worker": [
        *[*CARTPOLE, "--algo", "ppo", "--workers", 0, "--seed", 5],
        *["--total-timesteps", 14_400, "--checkpoint-every", 96],
    ],
    "toppo, all environments in one program": [
        *["gymnax:CartPole-v1", *CARTPOLE[1:], "--algo", "toppo", "--n-envs", 8],
        *["--total-timesteps", 28_800, "--checkpoint-every", 200],
    ],
}
KILLS = 5  # of each of the runs


SHORT = [*CARTPOLE, "--algo", "toppo", "--total-timesteps", 960]


def here(*arguments):
    """Run the command in this process, which has imported JAX already."""
    main([str(a) for a in arguments])


def options(arguments):
    """The options, which a resumed run needs again."""
    at = arguments.index("--checkpoint-every")
    workers = ["--workers", 0] if "--workers" in arguments else []
    return ["--no-tensorboard", *arguments[at : at + 2], *workers]


def assert_same(root: Path, expected) -> None:
    found = content(root)
    for name, text in expected[0].items():
        assert found[0][name] == text, name
    assert found[1].keys() == expected[1].keys()
    for name, array in expected[1].items():
        assert found[1][name] == array, name
    assert found[2:] == expected[2:]
    assert found[4]["state"] == "finished"


def leftovers(root: Path) -> set[str]:
    names = {p.name for p in root.iterdir()} | {p.name for p in (root / "checkpoint").iterdir()}
    return {n for n in names if n.endswith(".tmp")}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n.endswith("one program") else n for n in RUNS]
)
def test_a_run_that_is_killed_again_and_again_ends_in_the_same_bytes(tmp_path, name):
    arguments, root, rng = RUNS[name], tmp_path / "killed", random.Random(name)
    code, _, errors = commands.run("train", *arguments, "--out", tmp_path / "whole")
    assert (code, errors) == (0, "")
    expected = content(tmp_path / "whole")
    total = expected[0]["metrics.jsonl"].count(b"\n")

    process, kills, metrics = commands.start("train", *arguments, "--out", root), 0, root / "metrics.jsonl"
    while kills < KILLS:
        # Far enough that something happened since the last kill, not so far that the run is over before its time.
        commands.wait_for_lines(process, metrics, commands.lines(metrics) + rng.randint(1, total // (2 * KILLS)))
        time.sleep(rng.random() * 0.03)
        if commands.kill(process):
            kills += 1
            process = commands.start("resume", root, *options(arguments))
        else:  # it was quicker than us: once more from the beginning
            assert_same(root, expected)
            shutil.rmtree(root)
            process = commands.start("train", *arguments, "--out", root)
    code, _, errors = commands.finish(process)
    assert (code, errors) == (0, "")
    assert_same(root, expected)
    assert leftovers(root) == set()
    assert len(list((root / "checkpoint").iterdir())) == 2


def test_checkpoints_leave_no_trace_in_a_run_on_environments_in_one_program(tmp_path):
    short = ["gymnax:CartPole-v1", *CARTPOLE[1:], "--algo", "ppo", "--n-envs", 8, "--total-timesteps", 960]
    for every in (96, 250, 10_000):
        here("train", *short, "--checkpoint-every", every, "--out", tmp_path / f"{every}")
    expected = content(tmp_path / "96")
    for every in (250, 10_000):
        assert_same(tmp_path / f"{every}", expected)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    root = tmp_path_factory.mktemp("finished") / "run"
    assert commands.run("train", *SHORT, "--checkpoint-every", 96, "--out", root)[0] == 0
    return root


def test_killed_before_the_first_checkpoint_a_run_starts_again(tmp_path, finished):
    root = tmp_path / "run"
    process = commands.start("train", *SHORT, "--checkpoint-every", 10_000, "--out", root)
    assert commands.wait_for_lines(process, root / "spec.json", 3)
    commands.kill(process)
    assert not (root / "checkpoint").exists()
    here("resume", root, "--no-tensorboard")
    assert_same(root, content(finished))


def test_a_signal_saves_and_leaves(tmp_path):
    arguments = [*CARTPOLE, "--algo", "toppo", "--total-timesteps", 9600, "--checkpoint-every", 100_000]
    assert commands.run("train", *arguments, "--out", tmp_path / "whole")[0] == 0
    root, saved = tmp_path / "run", 0
    process = commands.start("train", *arguments, "--out", root)
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        assert commands.wait_for_lines(process, root / "metrics.jsonl", commands.lines(root / "metrics.jsonl") + 5)
        # Ctrl-C reaches the whole group, worker processes included; `kill` reaches one process.
        os.killpg(process.pid, number) if number == signal.SIGINT else process.send_signal(number)
        found, out, errors = commands.finish(process)
        assert (found, errors) == (code, "")
        assert f"stopped by {number.name}; saved.  Next: toppo resume {root}" in out
        status = json.loads((root / "status.json").read_text())
        assert status["state"] == "stopped"
        checkpoint, _ = newest_checkpoint(root / "checkpoint")
        assert saved < checkpoint.facts["state"]["steps"] == status["steps"] < 9600
        saved = status["steps"]
        process = commands.start("resume", root, *options(arguments))
    assert commands.finish(process)[0] == 0
    assert_same(root, content(tmp_path / "whole"))


def test_a_second_process_in_the_same_directory_is_refused(tmp_path, capsys):
    root = tmp_path / "run"
    arguments = [*CARTPOLE, "--algo", "toppo", "--total-timesteps", 10**7, "--checkpoint-every", 960, "--out", root]
    first = commands.start("train", *arguments)
    try:
        assert commands.wait_for_lines(first, root / "metrics.jsonl", 2)
        for command, sentence in (
            (["resume", root], f"{root} has a run in progress, pid {first.pid}"),
            (["train", *arguments], f"{root} exists already: continue it with `toppo resume {root}`"),
        ):
            with pytest.raises(SystemExit) as leave:
                here(*command)
            assert leave.value.code == 73
            errors = capsys.readouterr().err
            assert errors.startswith(f"toppo: {sentence}")
            assert errors.count("\n") == 1
        assert first.poll() is None
    finally:
        commands.kill(first)


@pytest.mark.parametrize("file", ["arrays.safetensors", "manifest.json"])
def test_a_damaged_checkpoint_falls_back_to_the_one_before_and_says_so(tmp_path, finished, file, capsys):
    root = tmp_path / "run"
    shutil.copytree(finished, root)
    newest = max((root / "checkpoint").iterdir()) / file
    damaged = bytearray(newest.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    newest.write_bytes(damaged)
    here("resume", root, "--no-tensorboard")
    out = capsys.readouterr().out
    assert f"warning: {newest.parent}" in out
    assert "the checkpoint before it is used" in out
    assert_same(root, content(finished))


def test_resuming_a_finished_run_changes_nothing(tmp_path, finished):
    root = tmp_path / "run"
    shutil.copytree(finished, root)
    here("resume", root, "--no-tensorboard")
    assert_same(root, content(finished))


def test_other_versions_are_refused_unless_they_are_allowed(tmp_path, finished, capsys):
    root = tmp_path / "run"
    shutil.copytree(finished, root)
    recorded = json.loads((root / "versions.json").read_text())
    names = [n for n in ("jax", "numpy", "gymnasium", "mujoco") if n in recorded]
    (root / "versions.json").write_text(json.dumps(recorded | dict.fromkeys(names, "0.0.1")))
    with pytest.raises(SystemExit) as leave:
        here("resume", root, "--no-tensorboard")
    assert leave.value.code == 64
    errors = capsys.readouterr().err
    assert all(f"{name} 0.0.1 -> {recorded[name]}" in errors for name in names)
    here("resume", root, "--no-tensorboard", "--allow-drift")


def test_arrays_of_a_checkpoint_are_plain_numbers(finished):
    checkpoint, _ = newest_checkpoint(finished / "checkpoint")
    assert all(a.dtype.kind in "biuf" for a in checkpoint.arrays.values())
    assert all(np.isfinite(a).all() for a in checkpoint.arrays.values())


def test_killed_before_the_spec_was_written_a_run_can_be_started_again(tmp_path, finished):
    root = tmp_path / "run"
    root.mkdir()
    for name in (".lock", ".holder.json", "versions.json", ".spec.json.tmp"):
        (root / name).write_text("")
    here("train", *SHORT, "--checkpoint-every", 10_000, "--out", root)
    assert_same(root, content(finished))
    assert leftovers(root) == set()


class Enough(Exception):  # noqa: N818 - as if the process had ended
    pass


def until(steps):
    def observe(progress):
        if progress.iteration.state.steps > steps:
            raise Enough

    return observe


def test_a_run_with_hidden_randomness_is_continued_and_marked(tmp_path):
    """Episodes of 23 steps in batches of 32: a checkpoint always falls into an episode."""
    told = []
    spec = spec_for("hidden", "ppo", 320, 0, **tiny(n_steps=32, warmup_steps=0))
    options = RunOptions(workers=0, checkpoint_every=32, tensorboard=False)
    with pytest.raises(Enough):
        runs.start(spec, probes.hidden, tmp_path / "run", options, until(96))
    with pytest.raises(Enough):
        runs.resume(tmp_path / "run", probes.hidden, options, until(192), told.append)
    assert any(sentence.endswith(": resumed, not bit-exact") for sentence in told)
    runs.resume(tmp_path / "run", probes.hidden, options, until(10**6))
    assert json.loads((tmp_path / "run" / "status.json").read_text()) == {
        "schema": 1,
        "state": "finished",
        "steps": 320,
        "exact": False,
        "message": "",
    }
    episodes = list(read_lines(tmp_path / "run" / "episodes.jsonl"))
    assert len(episodes) > 5
    assert {(e["length"], e["return"]) for e in episodes} == {(23, 23.0)}


class HiddenLater(probes.Hidden):
    """Hides its randomness from the check before training, which takes 20 steps."""

    def act(self, action):
        obs, reward, terminated, _ = super().act(action)
        return (obs if self.t > 25 else np.zeros_like(obs)), reward, terminated, self.t >= 50


def test_a_replay_that_leads_elsewhere_marks_the_run(tmp_path):
    spec = spec_for("hidden", "ppo", 96, 0, **tiny(n_steps=32, warmup_steps=0))
    options = RunOptions(workers=0, checkpoint_every=32, tensorboard=False)
    with pytest.raises(Enough):
        runs.start(spec, HiddenLater, tmp_path / "run", options, until(32))
    told = []
    runs.resume(tmp_path / "run", HiddenLater, options, until(10**6), told.append)
    (warning,) = told
    assert warning.startswith("warning: ")
    assert warning.endswith(": resumed, not bit-exact")
    assert "does not repeat itself" not in warning
    assert json.loads((tmp_path / "run" / "status.json").read_text())["exact"] is False


@pytest.mark.parametrize("exact", [True, False])
def test_a_checkpoint_that_is_not_exact_makes_no_exact_run(tmp_path, exact):
    """Nothing but the checkpoint knows of a fault that was survived before it."""
    spec = spec_for("flip", "ppo", 96, 0, **tiny(n_steps=32, warmup_steps=0))
    options = RunOptions(workers=0, checkpoint_every=32, tensorboard=False)
    with pytest.raises(Enough):
        runs.start(spec, probes.flip, tmp_path / "run", options, until(32))
    checkpoint, _ = newest_checkpoint(tmp_path / "run" / "checkpoint")
    assert checkpoint.facts["exact"] is True
    add_checkpoint(tmp_path / "run" / "checkpoint", 32, checkpoint.arrays, {**checkpoint.facts, "exact": exact})
    runs.resume(tmp_path / "run", probes.flip, options, lambda progress: None)
    assert json.loads((tmp_path / "run" / "status.json").read_text())["exact"] is exact
    assert newest_checkpoint(tmp_path / "run" / "checkpoint")[0].facts["exact"] is exact


class Straying(probes.Flip):
    """Goes somewhere else, as some simulators do to find their files."""

    where = None

    def reset(self, **options):
        os.chdir(self.where)
        return super().reset(**options)


def test_an_environment_that_changes_the_directory_does_not_move_the_run(tmp_path, monkeypatch):
    home, away = tmp_path / "home", tmp_path / "away"
    for folder in (home, away):
        folder.mkdir()
    monkeypatch.setattr(Straying, "where", away)
    monkeypatch.chdir(home)
    spec = spec_for("flip", "ppo", 96, 0, **tiny(n_steps=32, warmup_steps=0))
    options = RunOptions(workers=0, checkpoint_every=32, evaluate_every=32)
    with pytest.raises(Enough):
        runs.start(spec, Straying, Path("run"), options, until(32))
    monkeypatch.chdir(home)
    runs.resume(Path("run"), Straying, options, lambda progress: None)
    assert list(away.iterdir()) == []
    assert json.loads((home / "run" / "status.json").read_text())["state"] == "finished"


def test_a_run_is_not_resumed_in_another_environment(tmp_path):
    spec = spec_for("flip", "ppo", 64, 0, **tiny(n_steps=32, warmup_steps=0))
    options = RunOptions(workers=0, tensorboard=False)
    runs.start(spec, probes.flip, tmp_path / "run", options, lambda progress: None)
    with pytest.raises(ToppoError, match=r"^walk has other spaces than the policy was trained in: "):
        runs.resume(tmp_path / "run", probes.walk, options, lambda progress: None)


def test_a_run_whose_rewards_do_not_repeat_is_marked_when_it_is_resumed(tmp_path):
    """Episodes of 23 steps in batches of 46: no episode is open at a checkpoint, so that nothing is replayed."""
    spec = spec_for("windfall", "ppo", 184, 0, **tiny(n_steps=46, warmup_steps=0))
    options = RunOptions(workers=0, checkpoint_every=46, tensorboard=False)

    with pytest.raises(Enough):
        runs.start(spec, probes.Windfall, tmp_path / "run", options, until(46))
    assert json.loads((tmp_path / "run" / "status.json").read_text())["exact"]
    told = []
    runs.resume(tmp_path / "run", probes.Windfall, options, until(10**6), told.append)
    assert "warning: the environment does not repeat itself: resumed, not bit-exact" in told
    assert not json.loads((tmp_path / "run" / "status.json").read_text())["exact"]
