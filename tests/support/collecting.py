"""Plans, weights and batches for tests of collecting."""

import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tests.support import probes
from toppo.collect.episodes import OpenEpisode, advance, no_episode
from toppo.collect.faults import FaultPolicy, SurvivedFault
from toppo.collect.plan import Buffers, Plan
from toppo.collect.pool import Pool, open_pool
from toppo.envs import EnvSource, Spaces, make, resolve
from toppo.envs.spaces import describe

PATIENT = FaultPolicy(on_nan="truncate", env_timeout=2.0, env_restarts=1000)
N_ENVS = 2  # of collect_faulty
STEPS = 20
BATCHES = 2


def plan_of(spaces: Spaces, n_envs: int, steps: int = 30, hidden: Sequence[int] = (), **fields: object) -> Plan:
    """A plan for an MLP policy."""
    sizes = (spaces.obs_size, *hidden, spaces.action_size)
    layers = tuple(shape for a, b in pairwise(sizes) for shape in ((a, b), (b,)))
    std = (0,) if spaces.discrete else (spaces.action_size,)
    known = {
        "seed": 5,
        "steps": steps,
        "n_envs": n_envs,
        "reset_each_batch": False,
        "activation": "tanh",
        "weight_shapes": (std, *layers),
    }
    return Plan(spaces=spaces, **{**known, **fields})


def plan_for(source: EnvSource, n_envs: int = 4, steps: int = 40, **fields: object) -> Plan:
    """A plan for the environment's spaces."""
    env = make(resolve(source))
    spaces = describe(env)
    env.close()
    # Wide enough that a product of several rows and of one would differ in the last bit.
    return plan_of(spaces, n_envs, steps, (64, 64), **fields)


def fill_weights(buffers: Buffers) -> Buffers:
    """Some policy."""
    rng = np.random.default_rng(0)
    buffers.mean[:] = 0.1
    buffers.inv_std[:] = 0.8
    for weight in buffers.weights:
        weight[:] = rng.normal(size=weight.shape) * 0.3
    return buffers


def batch_bytes(buffers: Buffers) -> dict[str, bytes]:
    """The bytes of the batch in the buffers, by name."""
    return {name: x.tobytes() for name, x in buffers.batch()._asdict().items()} | {"over": buffers.over.tobytes()}


def collect_batches(
    pool: Pool, count: int, first: int = 0, episodes: tuple[OpenEpisode, ...] = ()
) -> list[dict[str, bytes]]:
    """The bytes of ``count`` batches."""
    fill_weights(pool.buffers)
    result = []
    for batch in range(first, first + count):
        pool.start(batch, episodes)
        pool.finish()
        result.append(batch_bytes(pool.buffers))
    return result


def alive(pid: int) -> bool:
    """Is there a process of this number that is not a zombie?"""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def left_behind() -> tuple[list[str], int]:
    """Child processes and open pipes."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    links = [os.path.realpath(p) for p in Path("/proc/self/fd").iterdir()]
    return sorted(children), sum("pipe:" in link for link in links)


class Collected(NamedTuple):
    """What came of some batches."""

    data: list[dict[str, bytes]]  # of every batch
    faults: list[SurvivedFault]
    ended: list[tuple[int, int, int, list[float]]]  # batch, row, environment and rewards of every episode that ended
    episodes: tuple[OpenEpisode, ...]  # open after the last batch


def collect_faulty(
    workers: int,
    fault_policy: FaultPolicy = PATIENT,
    batches: int = BATCHES,
    first: int = 0,
    episodes: tuple[OpenEpisode, ...] = (),
) -> Collected:
    """Collect batches of ``probes.failing``; with a ``first`` above 0 they continue these ``episodes``."""
    before = left_behind()
    plan = plan_for(probes.failing, N_ENVS, STEPS)
    pool = open_pool(plan, probes.failing, workers, fault_policy)
    data = []
    faults = []
    ended = []
    try:
        fill_weights(pool.buffers)
        if first:
            assert pool.restore(episodes) == {}
        else:
            episodes = (no_episode(plan),) * N_ENVS
        for batch in range(first, first + batches):
            pool.start(batch, episodes)
            faults += pool.finish()
            data.append(batch_bytes(pool.buffers))
            episodes, finished = advance(episodes, pool.buffers, False)
            ended += [(batch, f.t, f.env, f.rewards.tolist()) for f in finished]
    finally:
        pool.close()
        assert left_behind() == before
    return Collected(data=data, faults=faults, ended=ended, episodes=episodes)
