"""Small training runs in this process; runs with equal settings share their compiled programs."""

import dataclasses
import json
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

from tests.support.probes import flip, walk
from tests.support.settings import tiny
from toppo.algos import REGISTRY
from toppo.collect.faults import SurvivedFault
from toppo.envs import EnvSource, make, resolve
from toppo.envs.spaces import describe
from toppo.learn import loop
from toppo.learn.host_collector import HostCollector
from toppo.learn.loop import Iteration, train
from toppo.learn.programs import Programs
from toppo.learn.session import open_session
from toppo.learn.setup import Setup, initial_state, new_setup
from toppo.learn.state import State
from toppo.runs.presets import spec_for
from toppo.runs.spec import algorithm

ALGOS = tuple(REGISTRY)
CASES = [(a, e) for a in ALGOS for e in (walk, flip) if (a, e) != ("disc", flip)]
every_case = pytest.mark.parametrize(("algo", "source"), CASES, ids=[f"{a}-{e.__name__}" for a, e in CASES])

_programs: dict[Any, Programs] = {}


def shared_programs(setup: Setup) -> Programs:
    """``Programs``, once for all setups that compile to the same."""
    shapes = str(jax.eval_shape(lambda: setup.net.init(0)))
    of_the_loop = {
        "learning_rate": 1.0,
        "anneal_lr": False,
        "log_std_init": 0.0,
        "n_envs": 1,
        "reset_each_batch": False,
        "warmup_steps": 0,
    }
    spaces = (setup.spaces.choices, setup.spaces.masked, setup.spaces.images)
    key = (setup.algorithm.name, setup.config, dataclasses.replace(setup.common, **of_the_loop), shapes, spaces)
    if key not in _programs:
        _programs[key] = Programs(setup)
    return _programs[key]


def clear_programs() -> None:
    _programs.clear()


def setup_for(algo: str, source: EnvSource = walk, iterations: int = 3, seed: int = 0, **settings: Any) -> Setup:
    """The setup of a tiny run that learns fast."""
    env = make(resolve(source))
    spec = spec_for("test", algo, 1, seed, **tiny(n_epochs=4, gamma=0.9, learning_rate=0.01) | settings)
    spaces = describe(env)
    env.close()
    return new_setup(algorithm(algo), spec.config, spec.common, spaces, spec.config.n_steps * iterations, seed)


def with_common(setup: Setup, **changes: Any) -> Setup:
    """The same setup with other shared settings, and the network that they ask for."""
    common = dataclasses.replace(setup.common, **changes)
    return new_setup(setup.algorithm, setup.config, common, setup.spaces, setup.total_timesteps, setup.seed)


def train_all(setup: Setup, source: EnvSource = walk, state: State | None = None) -> list[Iteration]:
    """All iterations; states on the host, because the next update may reuse their memory."""
    with open_session(setup, source) as session, pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "Programs", shared_programs)
        if state is not None:
            state, failed = session.restore(state)
            assert failed == {}
        turns = session.train(state or initial_state(setup))
        return [turn._replace(state=on_host(turn.state)) for turn in turns]


def trained(
    algo: str, source: EnvSource = walk, iterations: int = 3, seed: int = 0, **settings: Any
) -> list[Iteration]:
    """All iterations of a tiny run."""
    return train_all(setup_for(algo, source, iterations, seed, **settings), source)


def on_host(tree: Any) -> Any:
    """A copy that no later update can reuse."""
    return jax.tree.map(lambda x: np.array(x) if isinstance(x, jax.Array) else x, tree)


def learned(turns: list[Iteration]) -> bytes:
    """What the run has learnt: every bit of the learner and every metric."""
    bits = b"".join(np.asarray(x).tobytes() for x in jax.tree.leaves(turns[-1].state.learner))
    return bits + json.dumps([t.metrics for t in turns]).encode()


def parameters(turns: list[Iteration]) -> bytes:
    return b"".join(np.asarray(x).tobytes() for x in jax.tree.leaves(turns[-1].state.learner.params))


class Batch(NamedTuple):
    """What one batch was collected with, and what came of it."""

    obs: np.ndarray
    next_obs: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    ended: np.ndarray
    mean: np.ndarray
    inv_std: np.ndarray
    weights: list[np.ndarray]


class Recorder:
    """A collector that keeps a copy of every batch."""

    def __init__(self, collector: HostCollector) -> None:
        self.collector = collector
        self.batches: list[Batch] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.collector, name)

    def start(self, state: State) -> None:
        self.collector.start(state)
        b = self.collector.pool.buffers
        self._given = (b.mean.copy(), b.inv_std.copy(), [w.copy() for w in b.weights])

    def finish(self) -> list[SurvivedFault]:
        faults = self.collector.finish()
        self.batches.append(Batch(*(x.copy() for x in self.collector.pool.buffers.batch()), *self._given))
        return faults


class Recorded(NamedTuple):
    """A run, and everything that passed between its loop and its workers."""

    setup: Setup
    states: list[State]  # before the first iteration, and after each
    iterations: list[Iteration]
    warmup: list[Batch]
    batches: list[Batch]  # of the iterations


def record(algo: str, source: EnvSource, iterations: int, seed: int = 0, workers: int = 0, **settings: Any) -> Recorded:
    """Two environments, two batches of warm-up, three epochs; every batch kept."""
    usual = {"n_steps": 60, "n_epochs": 3, "warmup_steps": 120, "n_envs": 2, "learning_rate": 3e-4}
    setup = setup_for(algo, source, iterations, seed, **usual | settings)
    state = initial_state(setup)
    states = [on_host(state)]
    turns = []
    with open_session(setup, source, workers) as session:
        recorder = Recorder(session.collector)
        for turn in train(setup, state, recorder):
            turns.append(turn._replace(state=None))
            states.append(on_host(turn.state))
    first = len(recorder.batches) - iterations
    return Recorded(
        setup=setup, states=states, iterations=turns, warmup=recorder.batches[:first], batches=recorder.batches[first:]
    )


def forward(layers: Any, x: np.ndarray) -> np.ndarray:
    """A tanh network in float64."""
    for w, b in layers[:-1]:
        x = np.tanh(x @ w.astype(np.float64) + b)
    w, b = layers[-1]
    return x @ w.astype(np.float64) + b


def normalised(segment: Any, obs: np.ndarray) -> np.ndarray:
    """Flat normalised observations with the normaliser that the batch was collected with."""
    x = (obs.astype(np.float64) - segment.normaliser.mean) * segment.normaliser.inv_std
    return np.clip(x, -10, 10).reshape(-1, obs.shape[-1])
