"""The angle between the surrogate's gradient at pi_k and the policy gradient, by the distance of the data."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from toppo.theory.mdp import MDP, Array, Solved, clipped_around, mean_kl, solve
from toppo.theory.random_mdps import full_support, random_mdps, random_policies

SHAPE = (4, 3)
DISCOUNTS = (0.9, 0.99)
CLIP_EPS = 0.1
MIN_PER_BIN = 20
EDGES = 10.0 ** np.linspace(-5.0, 0.5, 12)


class Cosines(NamedTuple):
    """E_{rho^mu} KL(mu, pi_k), and the cosines of the surrogates with A^mu (own) and A^{pi_k} (current).  [B]"""

    kl: Array
    own: Array
    current: Array


class Bin(NamedTuple):
    """Median, 5th percentile and share of negative cosines in one range of distances."""

    low: float
    high: float
    processes: int
    own: tuple[float, float, float]
    current: tuple[float, float, float]


def study(rng: np.random.Generator, processes: int) -> Cosines:
    """Compare gradients on random processes; mu is pi_k with log-probabilities disturbed by log-uniform noise."""
    mdp = random_mdps(rng, processes, SHAPE, gamma=rng.choice(DISCOUNTS, processes))
    policy = random_policies(rng, processes, *SHAPE)
    noise = 10.0 ** rng.uniform(-2.3, 0.7, (processes, 1, 1)) * rng.normal(size=policy.shape)
    mu = solve(mdp, full_support(policy * np.exp(noise)))
    truth = return_gradient(mdp, policy)
    own = surrogate_gradient(mu, policy, mu.adv)
    current = surrogate_gradient(mu, policy, solve(mdp, policy).adv)
    return Cosines(kl=mean_kl(mu, policy), own=cosine(own, truth), current=cosine(current, truth))


def surrogate_gradient(mu: Solved, pi_k: Array, adv: Array) -> Array:
    """d/dlogits at pi_k of E_{rho^mu} min(r A, clip(r, l, u) A), the objective that trains.  [B, S, A]"""

    def objective(logits: jax.Array) -> jax.Array:
        ratio = jax.nn.softmax(logits) / mu.policy
        per_pair = clipped_around(ratio, jnp.asarray(adv), jnp.asarray(pi_k / mu.policy), CLIP_EPS)
        return jnp.sum(mu.rho[..., None] * mu.policy * per_pair)

    return logit_gradient(objective, pi_k)


def return_gradient(mdp: MDP, policy: Array) -> Array:
    """d eta / dlogits, by automatic differentiation of the linear solve.  [B, S, A]"""

    def total_return(logits: jax.Array) -> jax.Array:
        pi = jax.nn.softmax(logits)
        system = jnp.eye(pi.shape[1]) - mdp.gamma[:, None, None] * jnp.einsum("bsa,bsat->bst", pi, mdp.transition)
        values = jnp.linalg.solve(system, (pi * mdp.reward).sum(-1)[..., None])[..., 0]
        return jnp.sum(mdp.rho0 * values)

    return logit_gradient(total_return, policy)


def logit_gradient(total: Callable[[jax.Array], jax.Array], policy: Array) -> Array:
    """Differentiate a sum over all processes: each has its own logits, so their gradients do not mix.  [B, S, A]"""
    with jax.enable_x64(True):
        return np.asarray(jax.grad(total)(jnp.log(policy)))


def cosine(x: Array, y: Array) -> Array:
    """The cosine of the angle between two gradients of each process; NaN where one is zero.  [B]"""
    lengths = np.linalg.norm(x, axis=(1, 2)) * np.linalg.norm(y, axis=(1, 2))
    return np.asarray(np.where(lengths > 1e-14, (x * y).sum((1, 2)) / np.maximum(lengths, 1e-14), np.nan))


def binned(cosines: Cosines, edges: Array = EDGES) -> Iterator[Bin]:
    """Summarise cosines by distance, without the bins of fewer than 20 processes."""
    known = np.isfinite(cosines.own) & np.isfinite(cosines.current)
    for low, high in pairwise(edges):
        inside = known & (cosines.kl >= low) & (cosines.kl < high)
        if inside.sum() >= MIN_PER_BIN:
            yield Bin(
                low=float(low),
                high=float(high),
                processes=int(inside.sum()),
                own=summary(cosines.own[inside]),
                current=summary(cosines.current[inside]),
            )


def summary(x: Array) -> tuple[float, float, float]:
    """Median, 5th percentile, share below zero."""
    return float(np.median(x)), float(np.quantile(x, 0.05)), float((x < 0.0).mean())
