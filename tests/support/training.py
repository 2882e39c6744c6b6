"""Small training runs that keep a record of everything that passed between the loop and its workers."""

from typing import Any, NamedTuple

import jax
import numpy as np

from toppo.collect.episodes import OpenEpisode
from toppo.collect.faults import SurvivedFault
from toppo.collect.pool import Pool, open_pool
from toppo.envs import EnvSource, describe, make
from toppo.learn.loop import Iteration, train
from toppo.learn.setup import Setup, initial_state, plan
from toppo.learn.state import State
from toppo.runs.presets import spec_for
from toppo.runs.spec import algorithm

SMALL = {
    "n_steps": 60,
    "n_minibatches": 4,
    "n_epochs": 3,
    "hidden": (8,),
    "warmup_steps": 120,
    "gamma": 0.9,
    "n_envs": 2,
}


class Batch(NamedTuple):
    """What one batch was collected with, and what came of it."""

    obs: np.ndarray
    next_obs: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    ended: np.ndarray
    shift: np.ndarray
    factor: np.ndarray
    weights: list[np.ndarray]


class Recorder:
    """A pool that writes down every batch."""

    def __init__(self, pool: Pool) -> None:
        self.pool, self.buffers, self.batch, self.batches = pool, pool.buffers, pool.batch, []
        self.restore, self.close, self.pids, self.draw_noise = pool.restore, pool.close, pool.pids, pool.draw_noise

    def start(self, batch: int, episodes: tuple[OpenEpisode, ...]) -> None:
        b = self.buffers
        self._given = (b.mean.copy(), b.inv_std.copy(), [w.copy() for w in b.weights])
        self.pool.start(batch, episodes)

    def finish(self) -> list[SurvivedFault]:
        faults = self.pool.finish()
        self.batches.append(Batch(*(x.copy() for x in self.buffers.batch()), *self._given))
        return faults


class Run(NamedTuple):
    setup: Setup
    states: list[State]  # before the first iteration, and after each
    iterations: list[Iteration]
    noop: list[Batch]
    batches: list[Batch]  # of the iterations


def on_host(tree: Any) -> Any:
    """A copy that no later update can reuse."""
    return jax.tree.map(lambda x: np.array(x) if isinstance(x, jax.Array) else x, tree)


def setup_for(source: EnvSource, algo: str, steps: int, seed: int, **settings: Any) -> Setup:
    env = make(source)
    spec = spec_for("test", algo, steps, seed, **{**SMALL, **settings})
    setup = Setup(algorithm(algo), spec.config, spec.common, describe(env), steps, seed)
    env.close()
    return setup


def record(source: EnvSource, algo: str, iterations: int, seed: int = 0, workers: int = 0, **settings: Any) -> Run:
    n = settings.get("n", SMALL["n"])
    setup = setup_for(source, algo, n * iterations, seed, **settings)
    pool = Recorder(open_pool(plan(setup), source, workers))
    state = initial_state(setup)
    run = Run(setup, [on_host(state)], [], [], [])
    try:
        for iteration in train(setup, state, pool):
            run.iterations.append(iteration._replace(state=None))
            run.states.append(on_host(iteration.state))
    finally:
        pool.close()
    first = len(pool.batches) - iterations
    run.noop.extend(pool.batches[:first])
    run.batches.extend(pool.batches[first:])
    return run


def forward(layers: Any, x: np.ndarray) -> np.ndarray:
    """A tanh network in float64."""
    for w, b in layers[:-1]:
        x = np.tanh(x @ w.astype(np.float64) + b)
    w, b = layers[-1]
    return x @ w.astype(np.float64) + b


def normalised(segment: Any, obs: np.ndarray) -> np.ndarray:
    """Flat normalised observations with the scale that the batch was collected with."""
    x = (obs.astype(np.float64) - segment.scale.obs_shift) * segment.scale.obs_factor
    return np.clip(x, -10, 10).reshape(-1, obs.shape[-1])
