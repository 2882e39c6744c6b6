"""Running a study: real processes, killed, stopped and continued."""

import json
import os
import signal
import time
from pathlib import Path

import gymnasium as gym
import pytest

from tests.support.commands import finish, lines, run, start
from tests.support.small_study import SETTINGS, bytes_of, study_file
from tests.support.worlds import Forbidden
from toppo.rundir.lock import exclusive
from toppo.studies.random_policy import keep_random_returns

STEPS = 15_360
FLAGS = ("--evaluate-every", 4000, "--checkpoint-every", 2048)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The study, one run after another, never disturbed."""
    folder = tmp_path_factory.mktemp("alone")
    code, out, err = run("study", study_file(folder, STEPS), "--jobs", 1, "--out", folder / "out", *FLAGS)
    assert code == 0, out + err
    assert "2/2  ppo-Pendulum-v1-0: finished" in out
    return folder


def wait_until(process, there):
    while not there():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


def job_processes(out):
    """Processes of the runs of this study."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        except OSError:
            continue
        if "toppo.studies.job_process" in words and str(out) in "".join(words):
            found.append(int(pid))
    return found


def test_killed_and_stopped_and_in_parallel_it_is_the_same_study(alone, tmp_path):
    """A run that is killed is tried again; a study that is killed takes its runs with it; Ctrl-C saves."""
    out = tmp_path / "out"
    command = ("study", study_file(tmp_path, STEPS), "--jobs", 2, "--out", out, *FLAGS)
    logs = [out / f"{arm}-Pendulum-v1-0" / "metrics.jsonl" for arm in ("toppo", "ppo")]

    process = start(*command)
    wait_until(process, lambda: any(lines(log) > 9 for log in logs))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    deadline = time.monotonic() + 60
    while job_processes(out):
        assert time.monotonic() < deadline
        time.sleep(0.01)

    process = start(*command)
    wait_until(process, lambda: job_processes(out))
    os.kill(job_processes(out)[0], signal.SIGKILL)
    time.sleep(1)
    wait_until(process, lambda: len(job_processes(out)) == 2)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    code, words, err = finish(process)
    assert code == 130, words + err
    assert "failed, tried again (killed by SIGKILL" in words
    assert "stopped by SIGINT; every run is saved" in words
    assert job_processes(out) == []

    code, words, err = run(*command)
    assert code == 0, words + err
    assert bytes_of(out).keys() == bytes_of(alone / "out").keys()
    assert bytes_of(out) == bytes_of(alone / "out")


def test_one_process_at_a_time_runs_a_study(tmp_path):
    with exclusive(tmp_path / ".lock"):
        code, _, err = run("study", study_file(tmp_path, STEPS), "--out", tmp_path)
    assert code == 73
    assert f"in progress, pid {os.getpid()}" in err


def test_finished_runs_are_skipped_also_when_only_their_curves_are_left(alone, tmp_path):
    command = ("study", alone / "small.json", "--curves", alone / "out" / "curves", "--out", tmp_path / "elsewhere")
    code, out, _ = run(*command)
    assert code == 0
    assert "2 runs, 2 finished before" in out
    assert not list(tmp_path.glob("elsewhere/*/spec.json"))


def test_a_curve_knows_its_run(alone):
    curve = json.loads((alone / "out/curves/toppo-Pendulum-v1-0.json").read_text())
    assert len(curve["test_returns"]) == 10
    tests = [json.loads(x) for x in (alone / "out/toppo-Pendulum-v1-0/evaluations.jsonl").read_text().splitlines()[1:]]
    assert [t["step"] for t in tests] == [
        t for t in range(256, STEPS + 1, 256) if t // 4000 > (t - 256) // 4000 or t == STEPS
    ]
    assert curve["evaluations"] == [[t["step"], t["return"]] for t in tests]
    # The last test and the one for the curve are the same ten episodes of the same policy.
    assert curve["test_returns"] == [round(r, 3) for r in tests[-1]["returns"]]
    assert set(json.loads((alone / "out/curves/random.json").read_text())["returns"]) == {"Pendulum-v1"}


def test_a_run_that_fails_is_tried_again_and_then_named(tmp_path):
    path = study_file(tmp_path, 512, [{"algo": "ppo", "settings": SETTINGS, "name": "ppo"}], "Nowhere-v3")
    code, out, err = run("study", path, "--retries", 1, "--out", tmp_path / "out")
    assert code == 65
    assert out.count("failed, tried again") == out.count("failed, given up") == 1
    assert "1 of 1 runs failed, the first of them ppo-Nowhere-v3-0 (exit code 64: toppo: " in err
    assert "Traceback" not in out + err


class Strict(Forbidden):
    """What is not allowed is an error."""

    def step(self, action):
        assert action < 2
        return super().step(action)


def test_a_random_policy_takes_allowed_actions_only(tmp_path):
    gym.register("Strict-v0", entry_point=Strict)
    told = []
    keep_random_returns(tmp_path, ["Nowhere-v0", "Strict-v0"], 2, told.append)
    assert told[0] == "a random policy plays 2 environments, for comparison"
    assert "no return of a random policy on Nowhere-v0: ToppoError" in told[1]
    assert len(told) == 2
    assert 0.2 < json.loads((tmp_path / "random.json").read_text())["returns"]["Strict-v0"] < 0.8
