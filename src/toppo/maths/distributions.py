"""Action distributions: a NamedTuple of parameters, and a Family of functions on it.

The last axis of every parameter is the action's own; all others are batch axes.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

LOG_2PI = 1.8378770664093453


class Gaussian(NamedTuple):
    """Diagonal normal: both [..., D]."""

    mean: Array
    log_std: Array


class Categorical(NamedTuple):
    """Unnormalised log-probabilities [..., A]."""

    logits: Array


class Family(NamedTuple):
    """What an algorithm may ask of a distribution.  ``kl(p, q)`` is KL(p || q)."""

    sample: Callable[[Any, Array], Array]  # given standard normal noise, or Gumbel noise for choices
    log_prob: Callable[[Any, Array], Array]
    log_prob_per_dimension: Callable[[Any, Array], Array]  # [..., D], one entry if the action is a single choice
    entropy: Callable[[Any], Array]
    kl: Callable[[Any, Any], Array]
    std: Callable[[Any], Array]
    fixed_std: Callable[[Any, Array], Any]  # the same; where the second is true, no gradient reaches a Gaussian's std


def gaussian_log_prob_per_dimension(dist: Gaussian, action: Array) -> Array:
    """log N(a_d; mean_d, std_d)  [..., D]"""
    z = (action - dist.mean) * jnp.exp(-dist.log_std)
    return -0.5 * (z * z + LOG_2PI) - dist.log_std


def gaussian_log_prob(dist: Gaussian, action: Array) -> Array:
    """Sum over the action's dimensions.  [..., D] -> [...]"""
    return gaussian_log_prob_per_dimension(dist, action).sum(-1)


def gaussian_entropy(dist: Gaussian) -> Array:
    """sum_d (log std_d + 0.5 log(2 pi e))"""
    return (dist.log_std + 0.5 * (LOG_2PI + 1.0)).sum(-1)


def gaussian_kl(p: Gaussian, q: Gaussian) -> Array:
    """KL(p || q) = 0.5 sum( ((m_p - m_q)^2 + s_p^2) / s_q^2 + 2 ln s_q - 2 ln s_p - 1 )"""
    log_ratio = p.log_std - q.log_std
    shift = (p.mean - q.mean) * jnp.exp(-q.log_std)
    return 0.5 * (shift * shift + jnp.exp(2.0 * log_ratio) - 2.0 * log_ratio - 1.0).sum(-1)


def gaussian_fixed_std(dist: Gaussian, fixed: Array) -> Gaussian:
    """Return the same distribution, without a gradient to the standard deviation where ``fixed`` is true.  [...]"""
    constant = jax.lax.stop_gradient(dist.log_std)
    return dist._replace(log_std=jnp.where(fixed[..., None], constant, dist.log_std))


def categorical_log_prob(dist: Categorical, action: Array) -> Array:
    """log p(a); actions are whole numbers.  [..., A], [...] -> [...]"""
    logp = jax.nn.log_softmax(dist.logits)
    return jnp.take_along_axis(logp, action[..., None].astype(jnp.int32), axis=-1)[..., 0]


def categorical_entropy(dist: Categorical) -> Array:
    """-sum_a p ln p"""
    logp = jax.nn.log_softmax(dist.logits)
    return -(jnp.exp(logp) * logp).sum(-1)


def categorical_kl(p: Categorical, q: Categorical) -> Array:
    """KL(p || q) = sum_a p_a (ln p_a - ln q_a)"""
    log_p = jax.nn.log_softmax(p.logits)
    return (jnp.exp(log_p) * (log_p - jax.nn.log_softmax(q.logits))).sum(-1)


def choices_family(choices: Sequence[int]) -> Family:
    """Independent categorical choices, their logits one after another [..., sum(choices)]; actions [..., D]"""
    ends = np.cumsum(choices[:-1]).tolist()

    def parts(dist: Categorical) -> list[Categorical]:
        return [Categorical(logits) for logits in jnp.split(dist.logits, ends, axis=-1)]

    def per_dimension(dist: Categorical, action: Array) -> Array:
        return jnp.stack([categorical_log_prob(p, action[..., d]) for d, p in enumerate(parts(dist))], axis=-1)

    return Family(
        sample=lambda dist, noise: jnp.stack(
            [p.logits.argmax(-1) for p in parts(Categorical(dist.logits + noise))], -1
        ),
        log_prob=lambda dist, action: per_dimension(dist, action).sum(-1),
        log_prob_per_dimension=per_dimension,
        entropy=lambda dist: jnp.stack([categorical_entropy(p) for p in parts(dist)]).sum(0),
        kl=lambda p, q: jnp.stack([categorical_kl(a, b) for a, b in zip(parts(p), parts(q), strict=True)]).sum(0),
        std=CATEGORICAL.std,
        fixed_std=CATEGORICAL.fixed_std,
    )


GAUSSIAN = Family(
    sample=lambda dist, noise: dist.mean + jnp.exp(dist.log_std) * noise,
    log_prob=gaussian_log_prob,
    log_prob_per_dimension=gaussian_log_prob_per_dimension,
    entropy=gaussian_entropy,
    kl=gaussian_kl,
    std=lambda dist: jnp.exp(dist.log_std).mean(-1),
    fixed_std=gaussian_fixed_std,
)
CATEGORICAL = Family(
    sample=lambda dist, noise: (dist.logits + noise).argmax(-1),
    log_prob=categorical_log_prob,
    log_prob_per_dimension=lambda dist, action: categorical_log_prob(dist, action)[..., None],
    entropy=categorical_entropy,
    kl=categorical_kl,
    std=lambda dist: jnp.zeros(dist.logits.shape[:-1], dist.logits.dtype),
    fixed_std=lambda dist, fixed: dist,
)
