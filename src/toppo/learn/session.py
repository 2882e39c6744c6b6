"""One training session: environments, workers and the loop, opened together and closed together."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from toppo.collect.episodes import after_replay
from toppo.collect.faults import STRICT, FailedReplays, FaultPolicy
from toppo.collect.pool import Pool, open_pool
from toppo.envs import EnvSource, Source
from toppo.learn.loop import Iteration, train
from toppo.learn.setup import Setup, image_actor_factory, plan
from toppo.learn.state import State


class Session(NamedTuple):
    """Open environments with the setup that trains in them."""

    setup: Setup
    pool: Pool

    def restore(self, state: State) -> tuple[State, FailedReplays]:
        """Bring the environments to where the state has them.

        An episode whose replay fails is given up, and a new one follows; the second value says why.
        """
        failed = self.pool.restore(state.episodes)
        return state._replace(episodes=after_replay(state.episodes, failed)), failed

    def train(self, state: State) -> Iterator[Iteration]:
        """Iterate from ``state`` until ``setup.total_timesteps`` steps are done."""
        return train(self.setup, state, self.pool)


@contextmanager
def open_session(
    setup: Setup, source: EnvSource | Source, workers: int = 0, fault_policy: FaultPolicy = STRICT
) -> Iterator[Session]:
    """Open the environments in this process, or in ``workers`` processes; close them at the end."""
    pool = open_pool(plan(setup), source, workers, fault_policy, image_actor_factory(setup))
    try:
        yield Session(setup, pool)
    finally:
        pool.close()
