"""Run times: milliseconds per thousand steps of every algorithm, by part, in one run on one machine.

Collecting is done in this process, before everything else.  The critic trains beside the policy unless the policy
may stop early; ``value`` is the part of it that is still to be waited for.
"""

import statistics
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import NamedTuple

from toppo.collect.pool import open_pool
from toppo.learn.loop import Iteration, train
from toppo.learn.setup import initial_state, plan
from toppo.runs.presets import spec_for
from toppo.runs.run import setup_for
from toppo.runs.spec import Spec

COMPILING = 8  # by then every number of batches has been met, except by DISC, whose memory goes on growing
PARTS = ("collect", "label", "update", "select", "value")


class RunTime(NamedTuple):
    """Medians of one algorithm: milliseconds per thousand environment steps, by part."""

    algo: str
    parts: dict[str, float]

    @property
    def total(self) -> float:
        """All parts together."""
        return sum(self.parts.values())


def measure_run_times(algos: list[str], env: str, iterations: int, seed: int = 0) -> list[RunTime]:
    """An iteration of each algorithm in turn, so that a machine's slow minutes slow them all."""
    with ExitStack() as stack:
        specs = [spec_for(env, algo, 10**9, seed) for algo in algos]
        trained = [_training(spec, stack) for spec in specs]
        rounds = [[next(one).seconds for one in trained] for _ in range(COMPILING + iterations)][COMPILING:]
    return [RunTime(s.algo, _medians([laps[i] for laps in rounds], s.config.n_steps)) for i, s in enumerate(specs)]


def _training(spec: Spec, stack: ExitStack) -> Iterator[Iteration]:
    setup = setup_for(spec, spec.env)
    pool = open_pool(plan(setup), spec.env, 0)
    stack.callback(pool.close)
    return train(setup, initial_state(setup), pool)


def _medians(laps: Sequence[dict[str, float]], steps: int) -> dict[str, float]:
    return {part: 1e6 / steps * statistics.median(lap[part] for lap in laps) for part in PARTS}
