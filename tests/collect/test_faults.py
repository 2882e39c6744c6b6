"""Environments that raise, hang, crash and give NaN, in this process and in real worker processes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.support import probes
from tests.support.collecting import (
    BATCHES,
    N_ENVS,
    PATIENT,
    STEPS,
    alive,
    batch_bytes,
    collect_faulty,
    fill_weights,
    plan_for,
)
from toppo.collect.episodes import advance, no_episode
from toppo.collect.faults import FaultPolicy, checked_fault_policy
from toppo.collect.pool import open_pool
from toppo.errors import EnvironmentFault, NotFinite, ToppoError

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="no /proc on this system")


@pytest.fixture
def fault(monkeypatch):
    def choose(how, mark=""):
        monkeypatch.setenv("FAULT", how)
        monkeypatch.setenv("MARK", str(mark))

    return choose


KINDS = [("raise", 0), ("raise", 2), ("hang", 1), ("SIGSEGV", 1), ("SIGKILL", 2)]


@pytest.mark.parametrize(("how", "workers"), KINDS)
def test_a_fault_of_the_moment_leaves_no_trace_in_the_numbers(tmp_path, fault, how, workers):
    fault("nothing")
    expected = collect_faulty(0)
    fault(how, tmp_path / "mark")
    found = collect_faulty(workers)
    assert (tmp_path / "mark").exists()
    assert found.data == expected.data
    assert found.ended == expected.ended
    assert [f.exact for f in found.faults] == [True]
    assert "the environment was replaced and the batch collected again" in found.faults[0].sentence


@pytest.fixture(scope="module")
def cut():
    """What an environment that always fails there leaves behind: each episode is ended before its bad step."""
    os.environ["FAULT"] = "reward:nan"
    os.environ["MARK"] = ""
    return collect_faulty(0)


LASTING = [("raise", 0), ("raise", 2), ("SIGSEGV", 1), ("reward:nan", 2), ("observation:nan", 0), ("final:inf", 0)]


@pytest.mark.parametrize(("how", "workers"), LASTING)
def test_every_kind_of_lasting_fault_ends_in_the_same_data(fault, cut, how, workers):
    fault(how)
    found = collect_faulty(workers)
    assert found.data == cut.data
    assert found.ended == cut.ended
    truncated = [f for f in found.faults if not f.exact]
    assert sorted((f.env, f.row) for f in truncated) == sorted((f.env, f.row) for f in cut.faults)
    assert all("the episode was ended before it" in f.sentence for f in truncated)


def test_an_episode_is_ended_before_its_bad_step(fault, cut):
    fault("nothing")
    without = collect_faulty(0)
    assert len(cut.faults) >= 2
    lengths = [len(rewards) for *_, rewards in cut.ended]
    assert lengths.count(2) >= len(cut.faults)  # the step that failed was the third
    assert max(lengths) == 13  # the others are left alone
    assert np.isfinite(np.frombuffer(cut.data[-1]["reward"])).all()
    same = [a == b for a, b in zip(cut.ended, without.ended, strict=False)]
    assert same[0] or cut.faults[0].row < 13


def test_a_run_with_cut_episodes_resumes_to_the_same_bytes(fault, cut):
    fault("reward:nan")
    further = collect_faulty(0, first=BATCHES, episodes=cut.episodes)
    plan = plan_for(probes.failing, N_ENVS, STEPS)
    pool = open_pool(plan, probes.failing, 2, PATIENT)
    episodes = (no_episode(plan),) * N_ENVS
    try:
        fill_weights(pool.buffers)
        for batch in range(2 * BATCHES):
            pool.start(batch, episodes)
            pool.finish()
            episodes, _ = advance(episodes, pool.buffers, False)
        assert batch_bytes(pool.buffers) == further.data[-1]
        assert [e.started for e in episodes] == [e.started for e in further.episodes]
    finally:
        pool.close()


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("how", ["raise", "reset:raise", "reward:nan"])
def test_a_replay_that_fails_gives_its_episode_up(fault, how, workers):
    """As with hidden randomness, which leads to states where the actions of then are wrong ones."""
    fault(how)
    plan = plan_for(probes.failing, N_ENVS, STEPS)
    pool = open_pool(plan, probes.failing, workers)
    episode = no_episode(plan)._replace(actions=np.zeros((4, 2), np.float32), rewards=np.zeros(4))
    try:
        failed = [pool.restore((episode._replace(started=k),) * N_ENVS) for k in range(1, 7)]
    finally:
        pool.close()
    assert [list(one) for one in failed] == [[0, 1]] * 6
    sentences = [sentence for one in failed for sentence in one.values()]
    words = "gave a reward that is not finite" if "nan" in how else "raised ZeroDivisionError: a bug"
    assert any(words in sentence for sentence in sentences)
    assert any("led to another observation" in sentence for sentence in sentences)  # the environment goes on


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("how", ["raise", "reset:raise", "reward:nan", "reset:SIGSEGV", "hang"])
def test_without_tolerance_the_fault_is_named(fault, how, workers):
    if not workers and how in ("reset:SIGSEGV", "hang"):
        return  # it would be this process
    fault(how)
    kind = NotFinite if "nan" in how else EnvironmentFault
    with pytest.raises(kind) as raised:
        collect_faulty(workers, FaultPolicy(env_timeout=2.0))
    sentence = str(raised.value)
    call = r"reset(seed=" if how.startswith("reset") else "step 3 of the episode with seed "
    assert sentence.startswith("failing (environment ")
    assert call in sentence
    assert "\n" not in sentence
    words = {
        "raise": f"raised ZeroDivisionError: a bug in two lines ({probes.__file__}, line ",
        "reward:nan": "gave a reward that is not finite (nan) after action [",
        "SIGSEGV": "was killed by SIGSEGV",
        "hang": "did not return within 2 s (--env-timeout)",
    }
    assert words[how.removeprefix("reset:")] in sentence


@pytest.mark.parametrize("timeout", [60.0, float("inf")])
def test_a_killed_worker_is_noticed_while_a_child_of_its_own_keeps_the_pipe_open(fault, timeout):
    fault("orphan")
    began = time.monotonic()
    with pytest.raises(EnvironmentFault, match=r"step 3 of the episode with seed .* was killed by SIGKILL"):
        collect_faulty(1, FaultPolicy(env_timeout=timeout))
    assert time.monotonic() - began < 9  # the child ends after 10 s, and with it the pipe


def test_a_long_message_to_a_killed_worker_does_not_wait_for_a_child_of_its_own(fault):
    fault("orphan")
    pool = open_pool(plan_for(probes.failing, N_ENVS, STEPS * BATCHES), probes.failing, 1)
    fill_weights(pool.buffers)
    try:
        pool.start(0, ())
        with pytest.raises(EnvironmentFault, match="was killed by SIGKILL"):
            pool.finish()
        began = time.monotonic()
        pool._hosts[0].child.send({"do": "restore"}, {"actions": np.zeros(1_000_000)})
        assert time.monotonic() - began < 8  # the child ends after 10 s, and with it the pipe
    finally:
        pool.close()


RUN_THAT_HANGS = """
from tests.support import probes
from tests.support.collecting import fill_weights, plan_for
from toppo.collect.pool import open_pool

pool = open_pool(plan_for(probes.failing, 1), probes.failing, 1)
fill_weights(pool.buffers)
pool.start(0, ())
print(*pool.pids(), flush=True)
pool.finish()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux signals the death of a parent")
def test_a_worker_whose_environment_hangs_does_not_outlive_its_run(fault, tmp_path, monkeypatch):
    fault("hang")
    monkeypatch.setenv("WHEN", str(tmp_path / "when"))
    run = subprocess.Popen([sys.executable, "-c", RUN_THAT_HANGS], stdout=subprocess.PIPE, text=True)
    pid = int(run.stdout.readline())
    try:
        wait_until((tmp_path / "when").exists)
        assert alive(pid)
        run.kill()
        run.wait()
        wait_until(lambda: not alive(pid))
    finally:
        run.stdout.close()
        if alive(pid):
            os.kill(pid, signal.SIGKILL)


def wait_until(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_the_allowance_of_an_environment_is_used_up(fault):
    fault("raise")
    with pytest.raises(EnvironmentFault, match="raised ZeroDivisionError"):
        collect_faulty(0, FaultPolicy(env_restarts=1), batches=10)


def test_an_environment_that_always_fails_is_not_asked_for_ever(fault, monkeypatch):
    fault("reward:nan")
    monkeypatch.setattr(probes.Failing, "act", lambda self, action: (self.place, float("nan"), False, False))
    with pytest.raises(NotFinite):
        collect_faulty(0)


def test_an_object_cannot_be_replaced(fault):
    fault("raise")
    env = probes.failing()
    plan = plan_for(probes.failing, 1, STEPS * BATCHES)
    pool = open_pool(plan, env, 2, PATIENT)
    fill_weights(pool.buffers)
    pool.start(0, (no_episode(plan),))
    with pytest.raises(EnvironmentFault, match="ZeroDivisionError"):
        pool.finish()


def test_a_worker_that_is_killed_between_batches_is_replaced(fault):
    fault("nothing")
    expected = collect_faulty(0)
    plan = plan_for(probes.failing, N_ENVS, STEPS)
    pool = open_pool(plan, probes.failing, 1, PATIENT)
    episodes = (no_episode(plan),) * N_ENVS
    try:
        fill_weights(pool.buffers)
        for batch in range(BATCHES):
            (pid,) = pool.pids()
            os.kill(pid, 9)
            while alive(pid):
                pass
            pool.start(batch, episodes)
            (survived,) = pool.finish()
            assert "was killed by SIGKILL between two calls" in survived.sentence
            assert survived.exact
            assert batch_bytes(pool.buffers) == expected.data[batch]
            episodes, _ = advance(episodes, pool.buffers, False)
    finally:
        pool.close()


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (("zero", 60.0, 0), "on_nan is 'zero', but must be one of raise, truncate"),
        (("raise", 0.0, 0), "env_timeout is 0.0, but must be a number above 0"),
        (("raise", float("nan"), 0), "env_timeout is nan"),
        (("raise", 60.0, -1), "env_restarts is -1, but must be at least 0"),
    ],
)
def test_settings_are_checked(values, sentence):
    with pytest.raises(ToppoError, match=sentence):
        checked_fault_policy(*values)
