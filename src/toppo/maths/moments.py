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


def merge(old: Moments, data: np.ndarray) -> Moments:
    """Moments of the old data and ``data`` [n, ...] together (pooled, unbiased)."""
    new = float(len(data))
    if new == 0:
        return old
    data = np.asarray(data, np.float64)
    mean = data.mean(0)
    squares = np.square(data - mean).sum(0)
    total = old.n + new
    between = (new / total) * old.n * np.square(mean - old.mean)
    var = (squares + old.var * max(0.0, old.n - 1) + between) / max(1.0, total - 1)
    return Moments(total, (new * mean + old.n * old.mean) / total, var)


def standard_deviation(moments: Moments) -> np.ndarray:
    """Never below 1e-8; 1 while fewer than two values are known."""
    return np.maximum(np.sqrt(moments.var), 1e-8) if moments.n > 1 else np.ones_like(moments.var)


def mean_and_inv_std(moments: Moments) -> tuple[np.ndarray, np.ndarray]:
    """Return what ``normalise`` takes for these moments."""
    return np.asarray(moments.mean, np.float32), np.asarray(1.0 / standard_deviation(moments), np.float32)


def normalise(x: Array, mean: Array, inv_std: Array, bound: float = 10.0) -> Array:
    """clip((x - mean) * inv_std, -bound, bound)"""
    return jnp.clip((x - mean) * inv_std, -bound, bound)
