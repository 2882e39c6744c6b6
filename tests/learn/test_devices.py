"""Environments in JAX spread over several devices: the same bytes as on one, and a run that learns."""

import hashlib
import json
import os
import subprocess
import sys
from statistics import fmean

import jax
import pytest

from tests.learn.test_compiled import setup
from tests.support.jax_probes import Walk
from tests.support.training import learned, shared_programs
from toppo.learn.session import open_session
from toppo.learn.setup import initial_state
from toppo.runs.state_io import state_to_arrays

TWO = {"iterations": 2, "n_envs": 8, "n_steps": 64, "hidden": (64, 64)}
LEARN = {"iterations": 24, "n_envs": 16, "n_steps": 1024, "hidden": (64, 64), "gamma": 0.98, "learning_rate": 3e-3}
LEARN |= {"n_epochs": 6, "n_minibatches": 8}
RUNS = {
    "walk": ("toppo", Walk(), TWO),
    "Breakout": ("ppo", "gymnax:Breakout-MinAtar", TWO),
    "CartPole": ("ppo", "gymnax:CartPole-v1", LEARN),
}
CHILD = """
import json
from tests.learn.test_devices import RUNS, train
from toppo.learn.xla import prepare
prepare()
print(json.dumps({name: train(name) for name in RUNS}))
"""


def train(name):
    """The devices that the environments lay on, a digest of all that a run leaves, and its first and last return."""
    algo, env, settings = RUNS[name]
    s = setup(env, algo, **settings)
    turns, devices, returns = [], set(), []
    with open_session(s, env) as session, pytest.MonkeyPatch.context() as patch:
        patch.setattr("toppo.learn.loop.Programs", shared_programs)
        for turn in session.train(initial_state(s)):
            devices.add(len(turn.state.episodes.worlds.row.devices()))
            returns += [episode.episode_return for episode in turn.episodes]
            turns.append(turn)
        arrays = state_to_arrays(turns[-1].state)[0]
        left = b"".join(arrays[n].tobytes() for n in sorted(arrays)) + learned(turns)
    return [*devices, hashlib.sha256(left).hexdigest(), fmean(returns[:20]), fmean(returns[-20:])]


@pytest.fixture(scope="module")
def on_four_devices():
    env = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    out = subprocess.run([sys.executable, "-c", CHILD], env=env, check=True, capture_output=True, text=True)
    return json.loads(out.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", RUNS)
def test_the_bytes_are_the_same_on_one_device_and_on_four(name, on_four_devices):
    devices, *left = on_four_devices[name]
    assert devices == 4
    assert train(name) == [1, *left]
    assert len(jax.devices()) == 1


def test_a_run_on_four_devices_learns(on_four_devices):
    _, _, first, last = on_four_devices["CartPole"]
    assert first < 40
    assert last > 150
