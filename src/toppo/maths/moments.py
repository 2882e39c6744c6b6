"""Running mean and variance, on the host in float64, and the normalisation they serve."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array


class Moments(NamedTuple):
    """How many values, their mean and unbiased variance of all data merged so far."""

    n: float
    mean: np.ndarray
    var: np.ndarray


def no_data(shape: tuple[int, ...]) -> Moments:
    """Before any data: mean 0 and variance 1, so that normalising changes nothing."""
    return Moments(0.0, np.zeros(shape), np.ones(shape))


class Summary(NamedTuple):
    """How many values, their mean, and the sum of squared distances from it."""

    n: float
    mean: np.ndarray
    squares: np.ndarray


def summary(data: np.ndarray) -> Summary:
    """Sum up data [n, ...]."""
    if len(data) == 0:
        return Summary(0.0, np.zeros(data.shape[1:]), np.zeros(data.shape[1:]))
    data = np.asarray(data, np.float64)
    mean = data.mean(0)
    return Summary(float(len(data)), mean, np.square(data - mean).sum(0))


def merge(old: Moments, new: Summary) -> Moments:
    """Moments of the old data and the new together (pooled, unbiased)."""
    if new.n == 0:
        return old
    total = old.n + new.n
    between = (new.n / total) * old.n * np.square(new.mean - old.mean)
    var = (new.squares + old.var * max(0.0, old.n - 1) + between) / max(1.0, total - 1)
    return Moments(total, (new.n * new.mean + old.n * old.mean) / total, var)


def standard_deviation(moments: Moments) -> np.ndarray:
    """Never below 1e-8; 1 while fewer than two values are known."""
    return np.maximum(np.sqrt(moments.var), 1e-8) if moments.n > 1 else np.ones_like(moments.var)


def mean_and_inv_std(moments: Moments) -> tuple[np.ndarray, np.ndarray]:
    """Return what ``normalise`` takes for these moments."""
    return np.asarray(moments.mean, np.float32), np.asarray(1.0 / standard_deviation(moments), np.float32)


def normalise(x: Array, mean: Array, inv_std: Array, bound: float = 10.0) -> Array:
    """clip((x - mean) * inv_std, -bound, bound)"""
    return jnp.clip((x - mean) * inv_std, -bound, bound)
