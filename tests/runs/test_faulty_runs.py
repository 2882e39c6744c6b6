"""Whole runs with environments that fail and with a disk that takes no more."""

import json
import resource
import shutil

import pytest

from tests.support import probes
from tests.support.checkpoints import content
from tests.support.collecting import PATIENT, left_behind
from tests.support.settings import tiny
from tests.support.worlds import dictionary, masked
from toppo.collect.check_apart import check_env_in_subprocess
from toppo.collect.faults import FaultPolicy
from toppo.envs import resolve
from toppo.envs.check import check_env
from toppo.errors import EnvironmentFault, ToppoError
from toppo.rundir.checkpoint import newest_checkpoint
from toppo.rundir.jsonl import read_lines
from toppo.runs import run as runs
from toppo.runs.presets import spec_for
from toppo.runs.run import RunOptions
from toppo.runs.spec import spec_hash, to_json

SPEC = spec_for("failing", "ppo", 160, 0, **tiny(n_steps=40, n_envs=2, warmup_steps=40))


def go(root, fault_policy=PATIENT, workers=0, **options):
    how = RunOptions(workers=workers, checkpoint_every=40, tensorboard=False, fault_policy=fault_policy, **options)
    return runs.start(SPEC, probes.failing, root, how, lambda progress: None)


def status(root):
    return json.loads((root / "status.json").read_text())


@pytest.fixture(scope="module")
def healthy(tmp_path_factory):
    root = tmp_path_factory.mktemp("healthy") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FAULT", "nothing")
        go(root, FaultPolicy())
    return content(root)


def test_a_worker_that_was_killed_leaves_no_trace_but_a_line(tmp_path, monkeypatch, healthy):
    monkeypatch.setenv("FAULT", "SIGKILL")
    monkeypatch.setenv("MARK", str(tmp_path / "mark"))
    go(tmp_path / "run", workers=1)
    assert content(tmp_path / "run") == healthy
    (row,) = read_lines(tmp_path / "run" / "faults.jsonl")
    assert row["exact"]
    assert "was killed by SIGKILL" in row["fault"]


def test_a_run_that_survived_nan_is_marked_and_repeats_itself(tmp_path, monkeypatch):
    monkeypatch.setenv("FAULT", "reward:nan")
    for name, workers in (("a", 0), ("b", 1)):
        go(tmp_path / name, workers=workers)
        assert not status(tmp_path / name)["exact"]
        rows = list(read_lines(tmp_path / name / "faults.jsonl"))
        assert rows
        assert all("the episode was ended before it" in row["fault"] and not row["exact"] for row in rows)
    assert content(tmp_path / "a") == content(tmp_path / "b")


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("SIGSEGV", r"its worker process \(pid \d+\) was killed by SIGSEGV"),
        ("exit", r"its worker process \(pid \d+\) ended with exit code 3"),
        ("hang", r"the call did not return within 3 s \(--env-timeout\), and its worker process \(pid \d+\) was ended"),
    ],
)
def test_a_crash_or_a_hang_in_the_check_before_training_is_named(tmp_path, monkeypatch, how, words):
    monkeypatch.setenv("FAULT", how)
    before = left_behind()
    with pytest.raises(EnvironmentFault, match=f"^rude: step 2 in the check before training: {words}$"):
        runs.start(SPEC, probes.rude, tmp_path / "run", RunOptions(1, fault_policy=FaultPolicy(env_timeout=3)), print)
    assert left_behind() == before
    assert not (tmp_path / "run").exists()


def test_the_check_gives_the_same_in_this_process_and_in_another():
    for source in ("CartPole-v1", "HalfCheetah-v5", probes.walk, probes.hidden, dictionary, masked):
        assert check_env_in_subprocess(resolve(source), 60.0) == check_env(resolve(source))
    for source in ("no.module:Env-v0", probes.unmade):
        faults = []
        for way in (check_env, lambda source: check_env_in_subprocess(source, 60.0)):
            with pytest.raises(ToppoError) as fault:
                way(resolve(source))
            faults.append((type(fault.value), str(fault.value), fault.value.code))
        assert faults[0] == faults[1]


@pytest.mark.parametrize("workers", [0, 1])
def test_an_environment_that_cannot_be_closed_does_no_harm(tmp_path, workers):
    how = RunOptions(workers=workers, checkpoint_every=40, tensorboard=False, evaluate_every=80)
    runs.start(SPEC, probes.clumsy, tmp_path / "run", how, lambda progress: None)
    assert status(tmp_path / "run")["state"] == "finished"


def test_everything_about_the_fault_that_ends_a_run_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("FAULT", "raise")
    with pytest.raises(EnvironmentFault, match="ZeroDivisionError"):
        go(tmp_path / "run", FaultPolicy())
    fault = json.loads((tmp_path / "run" / "fault.json").read_text())
    assert fault["step"] == 3
    assert "in fail\n" in "".join(fault["traceback"])
    assert status(tmp_path / "run")["message"] == fault["fault"]


def test_a_full_disk_ends_in_a_sentence_and_the_last_checkpoint_is_intact(tmp_path, monkeypatch, healthy):
    monkeypatch.setenv("FAULT", "nothing")
    root, soft_hard = tmp_path / "run", resource.getrlimit(resource.RLIMIT_FSIZE)

    def shrink(progress):
        if progress.iteration.state.steps == 120:  # from now on no file may grow beyond this: the system refuses
            resource.setrlimit(resource.RLIMIT_FSIZE, (2000, soft_hard[1]))

    how = RunOptions(workers=0, checkpoint_every=80, tensorboard=False)
    try:
        with pytest.raises(
            ToppoError, match=r"cannot be written \(File too large\); its last checkpoint is intact"
        ) as error:
            runs.start(SPEC, probes.failing, root, how, shrink)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, soft_hard)
    assert error.value.code == 74
    assert [p for p in root.rglob("*") if p.name.endswith(".tmp")] == []
    assert status(root)["state"] == "failed"
    checkpoint, damaged = newest_checkpoint(root / "checkpoint")
    assert (checkpoint.facts["state"]["steps"], damaged) == (80, [])
    runs.resume(root, probes.failing, how._replace(checkpoint_every=40), lambda progress: None)
    assert content(root) == healthy
    shutil.rmtree(root)


def test_the_fault_policy_is_not_part_of_a_spec():
    assert not set(FaultPolicy._fields) & set(json.dumps(to_json(SPEC)).replace('"', " ").split())
    assert spec_hash(spec_for("HalfCheetah-v5", "ppo", 1_000_000, 0, "paper")) == SPEC_HASH


SPEC_HASH = "0653833fc529"
