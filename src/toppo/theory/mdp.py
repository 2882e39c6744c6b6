"""Finite Markov decision processes, many at once, solved exactly in float64.

Axes: B (process), S (state), A (action).  A policy is an array of probabilities [B, S, A].
"""

from typing import NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from toppo.maths.surrogates import additive_bounds, clipped, linear

Array = NDArray[np.float64]


def clipped_around(ratio: jax.Array, adv: jax.Array, centre: jax.Array, clip_eps: float) -> jax.Array:
    """min(r A, clip(r, max(c - eps, 0), c + eps) A)"""
    return clipped(ratio, adv, *additive_bounds(centre, clip_eps))


LINEAR, CLIPPED = jax.jit(linear), jax.jit(clipped_around)


class MDP(NamedTuple):
    """transition [B, S, A, S], reward [B, S, A], gamma [B], rho0 [B, S]."""

    transition: Array
    reward: Array
    gamma: Array
    rho0: Array


class Solved(NamedTuple):
    """A policy and all it determines: resolvent sum_t gamma^t P_pi^t [B, S, S], v, q, adv, rho (from rho0), eta [B]."""

    policy: Array
    resolvent: Array
    v: Array
    q: Array
    adv: Array
    rho: Array
    eta: Array


class Instance(NamedTuple):
    """A process and the three policies of the paper's statements, not yet solved."""

    mdp: MDP
    mu: Array
    pi_k: Array
    pi: Array


class Case(NamedTuple):
    """A process and its three policies, solved."""

    mdp: MDP
    mu: Solved
    pi_k: Solved
    pi: Solved


def solve(mdp: MDP, policy: Array) -> Solved:
    """V = (I - gamma P_pi)^-1 R_pi;  Q = R + gamma P V;  A = Q - V;  rho = (1 - gamma) rho0 (I - gamma P_pi)^-1."""
    gamma = mdp.gamma[:, None]
    p_pi = np.einsum("bsa,bsat->bst", policy, mdp.transition)
    identity = np.eye(p_pi.shape[-1])
    resolvent = np.linalg.solve(identity - gamma[..., None] * p_pi, np.broadcast_to(identity, p_pi.shape))
    v = np.einsum("bst,bt->bs", resolvent, (policy * mdp.reward).sum(-1))
    q = mdp.reward + gamma[..., None] * np.einsum("bsat,bt->bsa", mdp.transition, v)
    rho = (1.0 - gamma) * np.einsum("bs,bst->bt", mdp.rho0, resolvent)
    return Solved(policy, resolvent, v, q, q - v[..., None], rho, (mdp.rho0 * v).sum(-1))


def solve_case(instance: Instance) -> Case:
    """Solve a process under its three policies."""
    mdp = instance.mdp
    return Case(mdp, solve(mdp, instance.mu), solve(mdp, instance.pi_k), solve(mdp, instance.pi))


def visitation_from(mdp: MDP, policy: Solved) -> Array:
    """rho^pi(. | s0): the discounted visitation started in each state.  [B, S0, S]"""
    return np.asarray((1.0 - mdp.gamma)[:, None, None] * policy.resolvent)


def under(weights: Array, values: Array) -> Array:
    """sum_a pi(a|s) x(s, a), or sum_s rho(s) x(s): the mean over the last axis."""
    return np.asarray((weights * values).sum(-1))


def tv(p: Array, q: Array) -> Array:
    """D_TV(p, q)(s) = 1/2 sum_a |p(a|s) - q(a|s)|  [B, S]"""
    return np.asarray(0.5 * np.abs(p - q).sum(-1))


def kl(p: Array, q: Array) -> Array:
    """D_KL(p, q)(s) = sum_a p ln(p/q), infinite where q lacks p's support  [B, S]

    Summed as p (x - ln(1 + x)) with x = q/p - 1, whose terms are all positive: no cancellation between close policies.
    """
    seen = p > 0.0
    x = np.where(seen, (q - p) / np.where(seen, p, 1.0), 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.where(seen, p * (x - np.log1p(x)), q).sum(-1))


def largest(x: Array) -> Array:
    """max |x| over all axes but the first."""
    return np.asarray(np.abs(x).reshape(len(x), -1).max(-1))


def surrogate(mu: Solved, policy: Array, adv: Array) -> Array:
    """E_{(s,a)~rho^mu}[ (pi/mu) A ], by the code that trains; mu has full support.  [B]"""
    with jax.enable_x64(True):
        per_pair = np.asarray(LINEAR(policy / mu.policy, adv))
    return np.asarray((mu.rho[..., None] * mu.policy * per_pair).sum((-1, -2)))


def clipped_surrogate(mu: Solved, pi_k: Array, policy: Array, clip_eps: float) -> Array:
    """E_{(s,a)~rho^mu} min(r A^mu, clip(r, l, u) A^mu), by the code that trains; pairs mu never takes are not seen."""
    seen = mu.policy > 0.0
    behind = np.where(seen, mu.policy, 1.0)
    ratio, centre = np.where(seen, policy, 1.0) / behind, np.where(seen, pi_k, 1.0) / behind
    with jax.enable_x64(True):
        per_pair = np.asarray(CLIPPED(ratio, mu.adv, centre, clip_eps))
    return np.asarray((mu.rho[..., None] * mu.policy * per_pair).sum((-1, -2)))
