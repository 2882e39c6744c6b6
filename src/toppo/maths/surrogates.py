"""Surrogate objectives, per sample, to be maximised.

``ratio`` is pi/mu, ``centre`` is pi_k/mu (1 on data that pi_k collected itself), ``adv`` an advantage.
"""

import jax.numpy as jnp
from jax import Array


def linear(ratio: Array, adv: Array) -> Array:
    """r A"""
    return ratio * adv


def clipped(ratio: Array, adv: Array, low: Array, high: Array) -> Array:
    """min(r A, clip(r, low, high) A)"""
    return jnp.minimum(ratio * adv, jnp.clip(ratio, low, high) * adv)


def additive_bounds(centre: Array, clip_eps: Array | float) -> tuple[Array, Array]:
    """max(c - eps, 0), c + eps  (Definition 3.1 of the paper; as r >= 0, the max changes no value)"""
    return jnp.maximum(centre - clip_eps, 0.0), centre + clip_eps


def multiplicative_bounds(centre: Array, clip_eps: Array | float) -> tuple[Array, Array]:
    """(1 - eps) c, (1 + eps) c"""
    return (1.0 - clip_eps) * centre, (1.0 + clip_eps) * centre


def lemma_4_1(ppo_eps: float, size: int) -> float:
    """eps^ToPPO = 4 eps^PPO / (|M| + 4), or eps^PPO if M holds the newest batch only (Lemma 4.1 of the paper)."""
    return ppo_eps if size == 1 else 4 * ppo_eps / (size + 4)


def per_dimension_weight(ratio: Array, adv: Array, clip_eps: Array | float) -> Array:
    """W = prod_d sgn(A) min(rho_d sgn(A), clip(rho_d, 1-eps, 1+eps) sgn(A)).  ratio [..., D], adv [...] -> [...]

    sgn(0) is 1, so that W is never 0, and neither is a mean of it that one divides by.
    """
    sign = jnp.where(adv < 0, -1.0, 1.0)[..., None]
    return jnp.prod(sign * jnp.minimum(ratio * sign, jnp.clip(ratio, 1.0 - clip_eps, 1.0 + clip_eps) * sign), axis=-1)


def total_variation(ratio: Array, centre: Array, weight: Array) -> Array:
    """0.5 mean(w |r - c|): an unbiased estimate of E_s TV(pi_k, pi) from mu's samples.  [B] -> []"""
    return 0.5 * jnp.mean(weight * jnp.abs(ratio - centre))
