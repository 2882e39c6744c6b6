"""Advantage estimators. Axes: time first, then any number of environment axes."""

import jax
import jax.numpy as jnp
from jax import Array


def backward_sum(x: Array, decay: Array, after: Array | None = None) -> Array:
    """y_t = x_t + decay_t * y_{t+1}, with y_T = ``after`` or 0.  [T, ...], [T, ...], [...] -> [T, ...]"""

    def step(later: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
        x_t, decay_t = now
        y_t = x_t + decay_t * later
        return y_t, y_t

    _, y = jax.lax.scan(step, jnp.zeros_like(x[0]) if after is None else after, (x, decay), reverse=True, unroll=8)
    return y


def td_error(reward: Array, value: Array, next_value: Array, terminated: Array, gamma: float) -> Array:
    """delta_t = r_t + gamma * (1 - terminated_t) * V(s'_t) - V(s_t): a time limit is not a death."""
    return reward + gamma * jnp.where(terminated, 0.0, next_value) - value


def gae(
    reward: Array, value: Array, next_value: Array, terminated: Array, ended: Array, gamma: float, lam: float
) -> tuple[Array, Array]:
    """Generalised advantage estimate of the policy that acted, and the critic's target.

    A_t = delta_t + gamma * lam * A_{t+1} inside one episode;  R_t = V(s_t) + A_t.  All arguments [T, ...].
    """
    return vtrace(reward, value, next_value, terminated, ended, jnp.ones_like(value), gamma, lam)


def vtrace(
    reward: Array,
    value: Array,
    next_value: Array,
    terminated: Array,
    ended: Array,
    ratio: Array,
    gamma: float,
    lam: float,
    after: Array | None = None,
) -> tuple[Array, Array]:
    """V-trace form of GAE: advantages of pi_k from data of mu, ``ratio`` = pi_k/mu, truncated at 1.

    h_t = min(1, ratio_t);  A_t = delta_t + gamma * lam * h_{t+1} * A_{t+1};  R_t = V(s_t) + h_t * A_t.
    The step's own ratio is not in A_t: the surrogate objective already carries it.  ``after`` [...] is h A of the step
    that follows the last one: 0 where the data end, else the trace that comes from the next batch.
    """
    h = jnp.minimum(1.0, ratio)
    h_next = jnp.concatenate([h[1:], jnp.ones_like(h[:1])])
    delta = td_error(reward, value, next_value, terminated, gamma)
    adv = backward_sum(delta, gamma * lam * h_next * jnp.where(ended, 0.0, 1.0), after)
    return adv, value + h * adv


def standardise(adv: Array, weight: Array, present: Array | None = None) -> Array:
    """(A - m) / sd with m = mean(w A) / mean(w) and sd = std(w A) + 1e-8, the std of the uncentred product.

    ``present`` is 0 for entries that count in no mean.  All arguments [B].
    """
    weighted = weight * adv
    return (adv - weighted.mean(where=present) / weight.mean(where=present)) / (weighted.std(where=present) + 1e-8)
