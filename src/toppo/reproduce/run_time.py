"""Run times: seconds per iteration of every algorithm, split into its steps, in one run on one machine.

Collecting is done in this process, before everything else.  The critic trains beside the policy unless the policy
may stop early; ``value`` is the part of it that is still to be waited for.
"""

import statistics
from typing import NamedTuple

from toppo.collect.pool import open_pool
from toppo.presets import spec_for
from toppo.runs import setup_for
from toppo.setup import initial_state, plan
from toppo.train import train

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
    """Each algorithm after the other in this process; the first iterations compile and do not count."""
    return [_measure(algo, env, iterations, seed) for algo in algos]


def _measure(algo: str, env: str, iterations: int, seed: int) -> RunTime:
    spec = spec_for(env, algo, 10**9, seed)
    setup = setup_for(spec, env)
    pool = open_pool(plan(setup), env, 0)
    laps: list[dict[str, float]] = []
    compiling = 8  # by then every number of batches has been met, except by DISC, whose memory goes on growing
    for i, iteration in enumerate(train(setup, initial_state(setup), pool)):
        if i >= compiling:
            laps.append(iteration.seconds)
        if len(laps) == iterations:
            break
    pool.close()
    per_thousand = 1e6 / spec.config.n
    return RunTime(algo, {part: per_thousand * statistics.median(lap[part] for lap in laps) for part in PARTS})
