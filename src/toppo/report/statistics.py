"""Statistics of a few runs: means, interquartile means, and bootstrap intervals that are the same every time."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.stats import trim_mean


class Estimate(NamedTuple):
    """A statistic and its 95% interval."""

    value: float
    low: float
    high: float


def mean(scores: np.ndarray) -> np.ndarray:
    """Mean over runs.  [..., runs] -> [...]"""
    return np.asarray(np.mean(scores, axis=-1))


def iqm(scores: np.ndarray) -> np.ndarray:
    """Interquartile mean over runs: the mean of the middle half.  [..., runs] -> [...]"""
    return np.asarray(trim_mean(scores, 0.25, axis=-1))


def bootstrap(
    scores: np.ndarray, statistic: Callable[[np.ndarray], np.ndarray], resamples: int = 20_000, seed: int = 0
) -> Estimate:
    """Percentile bootstrap over runs.  [runs] -> value and 95% interval"""
    scores = np.asarray(scores, np.float64)
    picks = np.random.default_rng(seed).integers(len(scores), size=(resamples, len(scores)))
    low, high = np.percentile(statistic(scores[picks]), [2.5, 97.5])
    return Estimate(float(statistic(scores)), float(low), float(high))


def difference(ours: np.ndarray, theirs: np.ndarray, resamples: int = 20_000, seed: int = 0) -> Estimate:
    """Mean of ours minus mean of theirs, both resampled."""
    rng = np.random.default_rng(seed)
    ours, theirs = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
    gaps = mean(ours[rng.integers(len(ours), size=(resamples, len(ours)))]) - mean(
        theirs[rng.integers(len(theirs), size=(resamples, len(theirs)))]
    )
    low, high = np.percentile(gaps, [2.5, 97.5])
    return Estimate(float(ours.mean() - theirs.mean()), float(low), float(high))
