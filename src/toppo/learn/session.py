"""One training session: environments, workers and the loop, opened together and closed together."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from toppo.collect.faults import STRICT, FailedReplays, FaultPolicy
from toppo.collect.pool import open_pool
from toppo.envs import EnvSource, Source, resolve
from toppo.learn.collector import Collector
from toppo.learn.compiled_collector import CompiledCollector
from toppo.learn.host_collector import HostCollector
from toppo.learn.loop import Iteration, train
from toppo.learn.setup import Setup, image_actor_factory, plan
from toppo.learn.state import State


class Session(NamedTuple):
    """Open environments with the setup that trains in them."""

    setup: Setup
    collector: Collector

    def restore(self, state: State) -> tuple[State, FailedReplays]:
        """Bring the environments to where the state has them.

        An episode whose replay fails is given up, and a new one follows; the second value says why.
        """
        episodes, failed = self.collector.restore(state.episodes)
        return state._replace(episodes=episodes), failed

    def train(self, state: State) -> Iterator[Iteration]:
        """Iterate from ``state`` until ``setup.total_timesteps`` steps are done."""
        return train(self.setup, state, self.collector)


@contextmanager
def open_session(
    setup: Setup, source: EnvSource | Source, workers: int = 0, fault_policy: FaultPolicy = STRICT
) -> Iterator[Session]:
    """Open the environments in this process, or in ``workers`` processes; close them at the end."""
    collector = open_collector(setup, resolve(source), workers, fault_policy)
    try:
        yield Session(setup, collector)
    finally:
        collector.close()


def open_collector(setup: Setup, source: Source, workers: int, fault_policy: FaultPolicy) -> Collector:
    """Compile the environment's steps if it is written in JAX; otherwise open a pool of workers for it."""
    if source.is_jax:
        return CompiledCollector(setup, source, fault_policy)
    pool = open_pool(plan(setup), source, workers, fault_policy, image_actor_factory(setup))
    return HostCollector(setup, pool)
