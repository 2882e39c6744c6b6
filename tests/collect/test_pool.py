import gc
import os
import re
import sys
import time
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from tests.support import probes
from tests.support.collecting import alive, batch_bytes, collect_batches, fill_weights, plan_for
from toppo.collect.check_apart import check_env_in_subprocess
from toppo.collect.episodes import advance, no_episode
from toppo.collect.plan import batch_noise, buffers_in, buffers_size
from toppo.collect.pool import open_pool
from toppo.collect.worker import Task, Worker
from toppo.envs import make, resolve
from toppo.errors import BAD_DATA, EnvironmentFault, ToppoError
from toppo.rng import Stream, rng_for, seed_for


@pytest.mark.parametrize("source", [probes.walk, probes.flip, "Pendulum-v1", "Hopper-v5"])
@pytest.mark.parametrize("reset_each_batch", [False, True])
def test_the_number_of_workers_changes_no_byte(source, reset_each_batch):
    activation = "relu" if reset_each_batch else "tanh"
    plan = plan_for(source, 3, 30, reset_each_batch=reset_each_batch, activation=activation)
    found = []
    for workers in (0, 1, 2):
        pool = open_pool(plan, source, workers)
        assert len(pool.pids()) == workers
        try:
            found.append(collect_batches(pool, 3))
        finally:
            pool.close()
    assert found[0] == found[1] == found[2]
    assert found[0][0] != found[0][1]


@pytest.mark.parametrize("split", [[[0, 1, 2, 3]], [[3], [0, 1, 2]], [[2, 3], [0, 1]], [[0], [1], [2], [3]]])
def test_any_split_of_the_environments_gives_the_same_bytes(split):
    plan = plan_for(probes.walk)
    buffers = fill_weights(buffers_in(plan, bytearray(buffers_size(plan))))
    source = resolve(probes.walk)
    workers = [Worker(Task(plan=plan, indices=part, source=source, buffers=buffers)) for part in split]
    for batch in range(2):
        buffers.noise[:] = batch_noise(plan, batch)
        for worker in workers:
            worker.finish()
    together = open_pool(plan, probes.walk, 0)
    assert batch_bytes(buffers) == collect_batches(together, 2)[1]


def test_an_episode_that_must_be_ended_is_ended_in_environments_that_step_together_too():
    plan = plan_for("Hopper-v5", 2, 12)
    found = []
    for stretches in ([[0, 1]], [[0], [1]]):
        buffers = buffers_in(plan, bytearray(buffers_size(plan)))
        fill_weights(buffers)
        for stretch in stretches:
            worker = Worker(Task(plan=plan, indices=stretch, source=resolve("Hopper-v5"), buffers=buffers))
            worker.start({(1, 1): 7} if 1 in stretch else {})
            worker.finish()
        assert np.argwhere(buffers.ended).tolist() == [[6, 1]]
        found.append(batch_bytes(buffers))
    assert found[0] == found[1]


@pytest.mark.parametrize("envs", [1, 2])
def test_a_batch_has_the_rewards_that_gymnasium_gives(envs):
    """The cost of actions, which is taken off at the end of a batch, included."""
    plan = plan_for("HalfCheetah-v5", envs)
    pool = open_pool(plan, "HalfCheetah-v5", 0)
    b = fill_weights(pool.buffers)
    pool.start(0, ())
    pool.finish()
    for i in range(envs):
        env = make(resolve("HalfCheetah-v5")).unwrapped
        env.reset(seed=seed_for(plan.seed, Stream.ENV_RESET, i, 0))
        expected = [env.step(np.clip(action, -1, 1))[1] for action in b.action[:, i]]
        assert b.reward[:, i].tobytes() == np.array(expected, float).tobytes()
    pool.close()


def test_an_environment_does_not_depend_on_how_many_there_are():
    few, many = (open_pool(plan_for(probes.walk, n), probes.walk, 0) for n in (1, 4))
    collect_batches(few, 2), collect_batches(many, 2)
    for a, b in zip(few.batch(), many.batch(), strict=True):
        assert a[:, 0].tobytes() == b[:, 0].tobytes()
        assert a[:, 0].tobytes() != b[:, 1].tobytes() or a.dtype == bool


def test_the_noise_of_an_action_follows_from_seed_environment_batch_and_step():
    pool = open_pool(plan_for(probes.walk, 3), probes.walk, 0)
    fill_weights(pool.buffers)
    for weight in pool.buffers.weights[1:]:
        weight[:] = 0.0
    pool.buffers.weights[0][:] = 1.0  # mean 0, deviation 1: the action is the noise
    for batch in (0, 1, 7):
        pool.start(batch, ())
        pool.finish()
        for i in range(3):
            noise = rng_for(5, Stream.ACTION_NOISE, i, batch).standard_normal((40, 2), dtype=np.float32)
            assert pool.buffers.action[:, i].tobytes() == noise.tobytes()


def test_another_seed_gives_other_data():
    a, b = (open_pool(plan_for(probes.walk, seed=s), probes.walk, 0) for s in (5, 6))
    assert collect_batches(a, 1) != collect_batches(b, 1)


def test_next_observations_are_the_observations_that_follow():
    pool = open_pool(plan_for(probes.walk), probes.walk, 0)
    collect_batches(pool, 1)
    b = pool.buffers
    inside = ~b.ended[:-1]
    assert inside.any()
    assert b.ended.any()
    np.testing.assert_array_equal(b.next_obs[:-1][inside], b.obs[1:][inside])
    assert not np.any(b.next_obs[:-1][~inside] == b.obs[1:][~inside])
    assert np.all(b.ended[b.terminated])
    assert b.terminated.any()
    assert np.any(b.ended & ~b.terminated)


def test_reset_each_batch_starts_every_batch_with_a_new_episode():
    for reset_each_batch in (True, False):
        pool = open_pool(plan_for(probes.walk, 2, 5, reset_each_batch=reset_each_batch), probes.walk, 0)
        collect_batches(pool, 1)
        last = pool.buffers.next_obs[-1].copy()
        ended = pool.buffers.ended[-1].copy()
        collect_batches(pool, 1, 1)
        continues = np.all(pool.buffers.obs[0] == last, axis=-1)
        assert not ended.all()
        assert (continues == (~ended & (not reset_each_batch))).all()


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("reset_each_batch", [False, True])
@pytest.mark.parametrize("source", [probes.walk, probes.flip])
def test_a_restored_pool_continues_with_the_same_bytes(source, reset_each_batch, workers):
    plan = plan_for(source, 3, 10, reset_each_batch=reset_each_batch)
    pool = open_pool(plan, source, 0)
    episodes = (no_episode(plan),) * 3
    for batch in range(3):
        collect_batches(pool, 1, batch)
        episodes, _ = advance(episodes, pool.buffers, reset_each_batch)
    expected = collect_batches(pool, 2, 3)
    again = open_pool(plan, source, workers)
    try:
        assert again.restore(episodes) == {}
        assert collect_batches(again, 2, 3) == expected
    finally:
        again.close()


@pytest.mark.parametrize(
    ("source", "what"),
    [(probes.hidden, "hidden {}led to another observation"), (probes.Windfall, "Windfall {}gave other rewards")],
)
def test_hidden_randomness_is_noticed_and_a_new_episode_begins(source, what):
    plan = plan_for(source, 2, 10)
    pool = open_pool(plan, source, 0)
    collect_batches(pool, 1)
    episodes, _ = advance((no_episode(plan),) * 2, pool.buffers, False)
    again = open_pool(plan, source, 0)
    failed = {i: what.format(f"(environment {i}): its replay of 10 steps ") for i in range(2)}
    assert again.restore(episodes) == failed
    collect_batches(again, 1, 1)
    assert again.buffers.begun.all()


def test_a_replay_that_ends_early_is_noticed():
    plan = plan_for(probes.walk, 1, 10)
    pool = open_pool(plan, probes.walk, 0)
    episode = no_episode(plan)._replace(started=1, actions=np.zeros((30, 2), np.float32), rewards=np.zeros(30))
    (sentence,) = pool.restore((episode,)).values()
    assert re.fullmatch(r"walk \(environment 0\): its replay ended at step \d+ of 30", sentence)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="no /proc on this system")
def test_no_process_and_no_memory_is_left_after_close():
    def mapped():
        return sum("memfd:toppo" in line for line in Path("/proc/self/maps").read_text().splitlines())

    gc.collect()  # what other tests left behind is not ours to count
    before = mapped()
    files = len(os.listdir("/proc/self/fd"))
    pool = open_pool(plan_for(probes.walk), probes.walk, 2)
    collect_batches(pool, 1)
    pids = pool.pids()
    assert all(alive(p) for p in pids)
    assert mapped() == before + 1
    pool.start(1, ())  # in the middle of a batch
    pool.close()
    assert not any(alive(p) for p in pids)
    del pool
    gc.collect()
    assert mapped() == before
    assert len(os.listdir("/proc/self/fd")) == files


def test_workers_leave_when_their_run_vanishes():
    pool = open_pool(plan_for(probes.walk), probes.walk, 2)
    pids = pool.pids()
    for host in pool._hosts:  # what the system does when a process is killed
        os.close(host.child._commands)
        os.close(host.child._replies)
    for _ in range(200):
        if not any(alive(p) for p in pids):
            break
        time.sleep(0.05)
    assert not any(alive(p) for p in pids)
    for host in pool._hosts:
        host.child._process.wait()


def test_a_worker_killed_by_a_signal_is_reported_in_one_sentence():
    pool = open_pool(plan_for(probes.suicidal, 1), probes.suicidal, 1)
    try:
        fill_weights(pool.buffers)
        pool.start(0, ())
        seed = seed_for(5, Stream.ENV_RESET, 0, 0)
        sentence = rf"suicidal \(environment 0\): step 7 of the episode with seed {seed}: its worker process"
        with pytest.raises(
            EnvironmentFault, match=rf"{sentence} \(pid {pool.pids()[0]}\) was killed by SIGKILL"
        ) as fault:
            pool.finish()
    finally:
        pool.close()
    assert "\n" not in str(fault.value)
    assert fault.value.code == BAD_DATA


@pytest.mark.parametrize("workers", [0, 2])
def test_a_fault_of_the_environment_crosses_the_process_border(workers):
    pool = open_pool(plan_for(probes.faulty_reward, 2), probes.faulty_reward, workers)
    try:
        fill_weights(pool.buffers)
        pool.start(0, ())
        with pytest.raises(
            EnvironmentFault,
            match=r"faulty_reward \(environment 0\): step 4 of the episode with seed \d+ gave a reward",
        ):
            pool.finish()
    finally:
        pool.close()


def test_an_environment_that_cannot_be_made_there_is_a_sentence_too():
    with pytest.raises(ToppoError, match="'Nowhere-v0' is not an environment"):
        open_pool(plan_for(probes.walk, 1), "Nowhere-v0", 1)


ROOM = """
import gymnasium
from tests.support.probes import Walk
gymnasium.register("WorkersRoom-v0", Walk)
"""


def test_a_worker_process_imports_from_where_this_one_does(tmp_path, monkeypatch):
    (tmp_path / "workers_room.py").write_text(ROOM)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ToppoError, match="needs the module 'workers_room', which is not found"):
        check_env_in_subprocess(resolve("workers_room:WorkersRoom-v0"), 60)
    monkeypatch.setattr("sys.path", ["", *sys.path])
    assert check_env_in_subprocess(resolve("workers_room:WorkersRoom-v0"), 60)[1] == []


def test_one_object_cannot_be_several_environments():
    with pytest.raises(ToppoError, match="n_envs is 4, but one environment object cannot be copied"):
        open_pool(plan_for(probes.walk), probes.Walk(), 0)


def test_more_workers_than_environments_are_not_started():
    pool = open_pool(plan_for(probes.walk, 2), probes.walk, 8)
    try:
        assert len(pool.pids()) == 2
    finally:
        pool.close()


def test_what_another_process_cannot_make_stays_here():
    assert open_pool(plan_for(probes.walk), lambda: probes.Walk(), 2).pids() == []


def test_noise_that_was_drawn_ahead_is_used(monkeypatch):
    plan = plan_for(probes.walk, 2, 10)
    drawn = []
    monkeypatch.setattr("toppo.collect.pool.batch_noise", lambda plan, batch: drawn.append(batch) or float(batch))
    pool = open_pool(plan, probes.walk, 0)
    for batch in (0, 1):
        pool.draw_noise(batch)
        pool.start(batch, ())
        assert np.all(pool.buffers.noise == batch)
        pool.finish()
    pool.start(2, ())
    assert drawn == [0, 1, 2]


@pytest.mark.parametrize("workers", [0, 2, "vector"])
def test_a_pool_knows_how_far_a_batch_is(workers):
    source = gym.vector.SyncVectorEnv([probes.walk] * 3) if workers == "vector" else probes.walk
    plan = plan_for(probes.walk, 3, 40)
    pool = open_pool(plan, source, 2 if workers == 2 else 0)
    try:
        fill_weights(pool.buffers)
        assert pool.progress() == (0, 0)
        seen = []
        step = probes.Walk.step

        def counting(env, action):
            seen.append(pool.progress())
            return step(env, action)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(probes.Walk, "step", counting)
            for batch in (4, 5):
                pool.start(batch, (no_episode(plan),) * 3)
                pool.finish()
        if workers != 2:  # here the environments can look at their own pool
            assert [batch for batch, _ in seen] == [4] * 120 + [5] * 120
            assert all(abs(steps - i) <= 3 for i, (_, steps) in enumerate(seen[120:]))
        assert pool.progress() == (5, 39 * 3)
    finally:
        pool.close()
