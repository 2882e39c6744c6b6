"""Statistics of a few runs: means, interquartile means, and bootstrap intervals with a fixed seed.

A stratum is the runs of one algorithm on one task; runs are always resampled within their stratum.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import trim_mean

MIN_FOR_INTERVAL = 5  # runs: an interval of fewer would claim more than they show
MIN_FOR_IQM = 4  # runs: with fewer, none is trimmed and the IQM is the mean

Statistic = Callable[[Sequence[np.ndarray]], np.ndarray]


class Estimate(NamedTuple):
    """A statistic and its 95% interval, if there are enough runs for one."""

    value: float
    low: float | None
    high: float | None
    runs: int  # of the smallest stratum

    @property
    def side(self) -> int:
        """Return 1 if the interval lies above 0, -1 if below, 0 if it contains 0 or does not exist."""
        return int((self.low or 0) > 0) - int((self.high or 0) < 0)


def mean(scores: np.ndarray) -> np.ndarray:
    """Return the mean over runs.  [..., runs] -> [...]"""
    return np.asarray(np.mean(scores, axis=-1))


def iqm(scores: np.ndarray) -> np.ndarray:
    """Return the interquartile mean: the mean of the middle half of the runs.  [..., runs] -> [...]"""
    return np.asarray(trim_mean(scores, 0.25, axis=-1))


def optimality_gap(scores: np.ndarray, goal: float = 1.0) -> np.ndarray:
    """mean(max(goal - score, 0)) over runs.  [..., runs] -> [...]"""
    return np.asarray(goal - np.minimum(scores, goal).mean(axis=-1))


def pooled(statistic: Callable[[np.ndarray], np.ndarray]) -> Statistic:
    """Return the statistic of all runs of all strata together."""
    return lambda strata: statistic(np.concatenate(strata, axis=-1))


def difference(strata: Sequence[np.ndarray]) -> np.ndarray:
    """Return the mean of the first stratum minus the mean of the second."""
    return np.asarray(mean(strata[0]) - mean(strata[1]))


def probability_of_improvement(strata: Sequence[np.ndarray]) -> np.ndarray:
    """P(a run of ours beats one of theirs on the same task), mean over tasks; ties count half.

    The strata are ours on every task, then theirs in the same order.
    """
    half = len(strata) // 2
    per_task = []
    for ours, theirs in zip(strata[:half], strata[half:], strict=True):
        gap = ours[..., :, None] - theirs[..., None, :]
        per_task.append(((gap > 0) + 0.5 * (gap == 0)).mean(axis=(-2, -1)))
    return np.asarray(np.mean(per_task, axis=0))


def bootstrap(strata: Sequence[np.ndarray], statistic: Statistic, resamples: int = 20_000) -> Estimate:
    """Return a statistic and its interval by stratified percentile bootstrap.  [runs] each"""
    strata = [np.asarray(s, np.float64) for s in strata]
    value = float(statistic(strata))
    runs = min(map(len, strata))
    if runs < MIN_FOR_INTERVAL:
        return Estimate(value=value, low=None, high=None, runs=runs)
    low, high = bootstrap_interval(strata, statistic, resamples)
    return Estimate(value=value, low=float(low), high=float(high), runs=runs)


def bootstrap_interval(strata: Sequence[np.ndarray], statistic: Statistic, resamples: int) -> np.ndarray:
    """Return the 95% interval of a statistic by stratified percentile bootstrap.  [runs, ...] each -> [2, ...]"""
    rng = np.random.default_rng(0)
    drawn = [s[rng.integers(len(s), size=(resamples, len(s)))] for s in strata]
    return np.asarray(np.percentile(statistic(drawn), [2.5, 97.5], axis=0))


def band(rows: np.ndarray, statistic: Callable[[np.ndarray], np.ndarray], resamples: int = 2_000) -> np.ndarray:
    """Return the pointwise 95% bootstrap interval of curves.  [runs, points] -> [2, points]"""
    return bootstrap_interval([rows], lambda drawn: statistic(np.moveaxis(drawn[0], 1, -1)), resamples)


def performance_profile(strata: Sequence[np.ndarray], levels: np.ndarray) -> np.ndarray:
    """Return the share of runs with a score above each level, mean over tasks.  [..., runs] each -> [..., levels]"""
    return np.asarray(np.mean([(s[..., None] > levels).mean(axis=-2) for s in strata], axis=0))


def profile_band(strata: Sequence[np.ndarray], levels: np.ndarray) -> np.ndarray:
    """Return the pointwise 95% stratified bootstrap interval of the performance profile.  -> [2, levels]"""
    return bootstrap_interval(strata, lambda drawn: performance_profile(drawn, levels), resamples=2_000)
