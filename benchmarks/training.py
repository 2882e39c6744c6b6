"""Training without a run directory, for the measurements."""

from collections.abc import Iterator
from typing import Any

from toppo.envs import resolve
from toppo.learn.loop import Iteration
from toppo.learn.session import open_session
from toppo.learn.setup import initial_state
from toppo.learn.xla import prepare
from toppo.runs.presets import spec_for
from toppo.runs.run import setup_for


def iterations(
    env_id: str, algo: str, total_timesteps: int = 10**9, seed: int = 0, workers: int = 0, **settings: Any
) -> Iterator[Iteration]:
    """Train, and yield after every iteration."""
    prepare()
    source = resolve(env_id)
    setup = setup_for(spec_for(env_id, algo, total_timesteps, seed, "paper", **settings), source)
    with open_session(setup, source, workers) as session:
        yield from session.train(initial_state(setup))
