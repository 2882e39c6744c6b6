"""Plans, weights and whole batches for the tests of collecting; what a pool leaves behind."""

import os
from itertools import pairwise
from pathlib import Path

import numpy as np

from tests.support import probes
from toppo.collect.episodes import advance, no_episode
from toppo.collect.faults import FaultPolicy
from toppo.collect.plan import Plan
from toppo.collect.pool import open_pool
from toppo.envs import describe, make

N_ENVS = 2
STEPS = 20
BATCHES = 2
PATIENT = FaultPolicy(on_nan="truncate", env_timeout=2.0, env_restarts=1000)


def plan_for(source, n_envs=4, steps=40, reset_each_batch=False, seed=5):
    env = make(source)
    spaces = describe(env)
    env.close()
    return plan_of(spaces, n_envs, steps, reset_each_batch, seed)


def plan_of(spaces, n_envs, steps=30, reset_each_batch=False, seed=5):
    # Wide enough that a product of several rows and of one would differ in the last bit.
    sizes = (spaces.obs_size, 64, 64, spaces.action_size)
    layers = tuple(shape for a, b in pairwise(sizes) for shape in ((a, b), (b,)))
    shapes = ((0,) if spaces.discrete else (spaces.action_size,), *layers)
    rows = (spaces.obs_size, spaces.row_size, spaces.row_dtype)
    actions = (spaces.action_size, spaces.action_row, spaces.choices, spaces.masked)
    return Plan(seed, steps, n_envs, *rows, *actions, reset_each_batch, shapes)


def fill_weights(buffers):
    rng = np.random.default_rng(0)
    buffers.shift[:], buffers.factor[:] = 0.1, 0.8
    for weight in buffers.weights:
        weight[:] = rng.normal(size=weight.shape) * 0.3
    return buffers


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def left_behind():
    """Child processes and open pipes."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    links = [os.path.realpath(p) for p in Path("/proc/self/fd").iterdir()]
    return sorted(children), sum("pipe:" in link for link in links)


def collect(workers, tolerance=PATIENT, batches=BATCHES, after=(0, ())):
    """Bytes of the batches, all notices, the episodes that ended and those that are open; ``after``: a resumed run."""
    before, source = left_behind(), probes.failing
    plan = plan_for(source, N_ENVS, STEPS)
    pool = open_pool(plan, source, workers, tolerance)
    first, episodes = after
    data, notices, ended = [], [], []
    try:
        fill_weights(pool.buffers)
        if first:
            assert pool.restore(episodes) == {}
        else:
            episodes = (no_episode(plan),) * N_ENVS
        for batch in range(first, first + batches):
            pool.start(batch, episodes)
            notices += pool.finish()
            data.append([x.tobytes() for x in pool.buffers[:6]])
            episodes, finished = advance(episodes, pool.buffers, False)
            ended += [(batch, f.t, f.env, f.rewards.tolist()) for f in finished]
    finally:
        pool.close()
        assert left_behind() == before
    return data, notices, ended, episodes
