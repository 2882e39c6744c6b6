"""Who stays on which core."""

import os

import jax.numpy as jnp
import pytest

from tests.support import probes
from tests.support.training import setup_for
from toppo.collect.pinning import available, cores_used_by, pin, pinned_to, threads_of_xla
from toppo.learn.loop import Loop
from toppo.learn.session import open_session
from toppo.learn.setup import initial_state

CORES = available()
two_cores = pytest.mark.skipif(len(CORES) < 2, reason="one core")


@pytest.mark.parametrize(
    ("cores", "workers", "expected"),
    [({0, 1}, 2, [0, 1]), ({5, 3}, 3, [3, 5]), ({0, 1}, 1, []), ({0}, 1, []), ({0}, 4, []), ({0, 1, 2}, 2, [])],
)
def test_all_cores_are_taken_by_as_many_workers(monkeypatch, cores, workers, expected):
    monkeypatch.setattr("os.sched_getaffinity", lambda thread: cores)
    assert cores_used_by(workers) == expected


@two_cores
def test_a_thread_stays_and_is_free_again():
    with pinned_to(CORES[-1:]):
        assert available() == CORES[-1:]
    assert available() == CORES
    with pytest.raises(KeyError), pinned_to(CORES[-1:]):
        raise KeyError
    assert available() == CORES
    with pinned_to([]):
        assert available() == CORES


def test_a_core_that_is_not_there_is_no_matter():
    pin([99_999])
    assert available() == CORES


def places(pids):
    return [available(pid) for pid in pids]


@two_cores
@pytest.mark.parametrize("count", [1, len(CORES)])
def test_workers_that_take_all_cores_have_one_each(count):
    setup = setup_for("ppo", iterations=2, n_envs=count)
    with open_session(setup, probes.walk, count) as session:
        pids = session.collector.pool.pids()
        assert places(pids) == ([CORES] if count == 1 else [[core] for core in CORES])
        assert {os.sched_getscheduler(pid) for pid in pids} == {os.SCHED_BATCH}


@two_cores
@pytest.mark.parametrize(("width", "bound"), [(64, True), (2_048, False)])
def test_short_products_stay_on_one_core_while_it_learns(monkeypatch, width, bound):
    improve = Loop.improve
    seen = []
    jnp.ones(2).block_until_ready()  # so that XLA has its threads
    helpers = threads_of_xla()
    assert helpers

    def watched(self, *arguments):
        seen.append((available(), *places(helpers), self.critic_thread.submit(available).result()))
        return improve(self, *arguments)

    monkeypatch.setattr(Loop, "improve", watched)
    setup = setup_for("ppo", n_envs=len(CORES), hidden=(width, width), n_epochs=1)
    with open_session(setup, probes.walk, len(CORES)) as session:
        iterations = session.train(initial_state(setup))
        next(iterations)
        assert places(helpers) == [CORES] * len(helpers)  # and available to others in between
        assert available() == CORES
        iterations.close()
    policy, critic = (CORES[:1], CORES[-1:]) if bound else (CORES, CORES)
    assert seen == [(policy, *[policy] * len(helpers), critic)]
