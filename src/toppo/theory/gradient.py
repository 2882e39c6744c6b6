"""Which way the surrogate points: its gradient at pi_k against the policy gradient, by the distance of the data."""

from itertools import pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from toppo.maths.surrogates import additive_bounds, clipped
from toppo.theory.lemmas import mean_kl
from toppo.theory.mdp import MDP, Array, Solved, solve
from toppo.theory.random_mdps import full_support, random_mdps, random_policies

SHAPE = (4, 3)
DISCOUNTS = (0.9, 0.99)
CLIP_EPS = 0.1
EDGES = 10.0 ** np.linspace(-5.0, 0.5, 12)


class Cosines(NamedTuple):
    """Per process: E_{rho^mu} KL(mu, pi_k); cosines with the true gradient of the surrogates with A^mu, A^{pi_k}."""

    kl: Array
    own: Array
    current: Array


class Bin(NamedTuple):
    """Median, 5th percentile and share of negative cosines between two distances."""

    low: float
    high: float
    processes: int
    own: tuple[float, float, float]
    current: tuple[float, float, float]


def study(rng: np.random.Generator, processes: int) -> Cosines:
    """Random processes; mu is pi_k with its log-probabilities disturbed by noise of log-uniform size."""
    gamma = np.asarray(rng.choice(DISCOUNTS, processes))
    mdp = random_mdps(rng, processes, SHAPE, gamma)
    policy = random_policies(rng, processes, *SHAPE)
    noise = 10.0 ** rng.uniform(-2.3, 0.7, (processes, 1, 1)) * rng.normal(size=policy.shape)
    pi_k, mu = solve(mdp, policy), solve(mdp, full_support(policy * np.exp(noise)))
    truth = return_gradient(mdp, policy)
    own = surrogate_gradient(mu, policy, mu.adv)
    current = surrogate_gradient(mu, policy, pi_k.adv)
    return Cosines(mean_kl(mu, policy), cosine(own, truth), cosine(current, truth))


def surrogate_gradient(mu: Solved, pi_k: Array, adv: Array) -> Array:
    """d/dlogits at pi_k of E_{rho^mu} min(r A, clip(r, l, u) A), the objective that trains.  [B, S, A]"""
    known = (mu.rho[..., None] * mu.policy, mu.policy, pi_k, adv)
    with jax.enable_x64(True):
        return np.asarray(OBJECTIVE_GRADIENT(jnp.log(jnp.asarray(pi_k)), *(jnp.asarray(x) for x in known)))


def return_gradient(mdp: MDP, policy: Array) -> Array:
    """d eta / dlogits, by differentiating the linear solve itself.  [B, S, A]"""
    with jax.enable_x64(True):
        return np.asarray(RETURN_GRADIENT(jnp.log(jnp.asarray(policy)), *(jnp.asarray(part) for part in mdp)))


def objective(logits: jax.Array, weight: jax.Array, mu: jax.Array, pi_k: jax.Array, adv: jax.Array) -> jax.Array:
    """The clipped surrogate of all processes together; each has its own logits, so gradients stay apart.  []"""
    low, high = additive_bounds(pi_k / mu, CLIP_EPS)
    return (weight * clipped(jax.nn.softmax(logits) / mu, adv, low, high)).sum()


def total_return(
    logits: jax.Array, transition: jax.Array, reward: jax.Array, gamma: jax.Array, rho0: jax.Array
) -> jax.Array:
    """The sum of eta over all processes.  []"""
    pi = jax.nn.softmax(logits)
    system = jnp.eye(pi.shape[1]) - gamma[:, None, None] * jnp.einsum("bsa,bsat->bst", pi, transition)
    values: jax.Array = jnp.linalg.solve(system, (pi * reward).sum(-1)[..., None])[..., 0]
    return (rho0 * values).sum()


OBJECTIVE_GRADIENT = jax.jit(jax.grad(objective))
RETURN_GRADIENT = jax.jit(jax.grad(total_return))


def cosine(x: Array, y: Array) -> Array:
    """The cosine of the angle between two gradients of each process; NaN where one is zero.  [B]"""
    x, y = x.reshape(len(x), -1), y.reshape(len(y), -1)
    lengths = np.linalg.norm(x, axis=-1) * np.linalg.norm(y, axis=-1)
    return np.asarray(np.where(lengths > 1e-14, (x * y).sum(-1) / np.maximum(lengths, 1e-14), np.nan))


def binned(cosines: Cosines, edges: Array = EDGES) -> list[Bin]:
    """Cosines by distance; bins of fewer than 20 processes are left out."""
    bins = []
    for low, high in pairwise(edges):
        inside = (cosines.kl >= low) & (cosines.kl < high) & np.isfinite(cosines.own) & np.isfinite(cosines.current)
        if inside.sum() >= 20:
            own, current = summary(cosines.own[inside]), summary(cosines.current[inside])
            bins.append(Bin(float(low), float(high), int(inside.sum()), own, current))
    return bins


def summary(x: Array) -> tuple[float, float, float]:
    """Median, 5th percentile, share below zero."""
    return float(np.median(x)), float(np.quantile(x, 0.05)), float((x < 0.0).mean())
