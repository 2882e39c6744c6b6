"""Statistics of a few runs: means, interquartile means, and bootstrap intervals that are the same every time.

A stratum is the runs of one algorithm on one task; runs are always resampled within their stratum.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import trim_mean

MIN_FOR_INTERVAL = 5  # an interval from fewer runs would only look like one
MIN_FOR_IQM = 4  # below, no run is trimmed: it is the mean, and is called so

Statistic = Callable[[Sequence[np.ndarray]], np.ndarray]


class Estimate(NamedTuple):
    """A statistic and its 95% interval, if there are enough runs for one."""

    value: float
    low: float | None
    high: float | None
    runs: int  # of the smallest stratum

    @property
    def side(self) -> int:
        """1 if the interval lies above 0, -1 if below, 0 if it holds 0 or does not exist."""
        if self.low is None or self.high is None:
            return 0
        return int(self.low > 0) - int(self.high < 0)


def mean(scores: np.ndarray) -> np.ndarray:
    """Mean over runs.  [..., runs] -> [...]"""
    return np.asarray(np.mean(scores, axis=-1))


def iqm(scores: np.ndarray) -> np.ndarray:
    """Interquartile mean over runs: the mean of the middle half.  [..., runs] -> [...]"""
    return np.asarray(trim_mean(scores, 0.25, axis=-1))


def optimality_gap(scores: np.ndarray, goal: float = 1.0) -> np.ndarray:
    """How far the runs fall short of the goal on average; what lies above it does not count.  [..., runs] -> [...]"""
    return np.asarray(goal - np.minimum(scores, goal).mean(axis=-1))


def pooled(statistic: Callable[[np.ndarray], np.ndarray]) -> Statistic:
    """The statistic of all runs of all strata together."""
    return lambda strata: statistic(np.concatenate(strata, axis=-1))


def difference(strata: Sequence[np.ndarray]) -> np.ndarray:
    """Mean of the first stratum minus mean of the second."""
    ours, theirs = strata
    return np.asarray(mean(ours) - mean(theirs))


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


def bootstrap(strata: Sequence[np.ndarray], statistic: Statistic, resamples: int = 20_000, seed: int = 0) -> Estimate:
    """Stratified percentile bootstrap.  [runs] each -> value and 95% interval"""
    strata = [np.asarray(s, np.float64) for s in strata]
    value, fewest = float(statistic(strata)), min(map(len, strata))
    if fewest < MIN_FOR_INTERVAL:
        return Estimate(value, None, None, fewest)
    rng = np.random.default_rng(seed)
    drawn = [s[rng.integers(len(s), size=(resamples, len(s)))] for s in strata]
    low, high = np.percentile(statistic(drawn), [2.5, 97.5])
    return Estimate(value, float(low), float(high), fewest)


def band(
    rows: np.ndarray, statistic: Callable[[np.ndarray], np.ndarray], resamples: int = 2_000, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Pointwise 95% bootstrap interval of curves.  [runs, points] -> [points] twice"""
    picks = np.random.default_rng(seed).integers(len(rows), size=(resamples, len(rows)))
    low, high = np.percentile(statistic(np.moveaxis(rows[picks], 1, -1)), [2.5, 97.5], axis=0)
    return low, high


def performance_profile(strata: Sequence[np.ndarray], levels: np.ndarray) -> np.ndarray:
    """Share of runs with a score above each level, mean over tasks.  -> [levels]"""
    return np.asarray(np.mean([(np.asarray(s)[:, None] > levels).mean(axis=0) for s in strata], axis=0))


def profile_band(
    strata: Sequence[np.ndarray], levels: np.ndarray, resamples: int = 2_000, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Pointwise 95% stratified bootstrap interval of the performance profile.  -> [levels] twice"""
    rng = np.random.default_rng(seed)
    drawn = [np.asarray(s)[rng.integers(len(s), size=(resamples, len(s)))] for s in strata]
    shares = [np.mean([(s > level).mean(axis=-1) for s in drawn], axis=0) for level in levels]
    low, high = np.percentile(shares, [2.5, 97.5], axis=-1)
    return low, high
