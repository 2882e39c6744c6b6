"""Finite Markov decision processes, many at once, solved exactly in float64.

Axes: B (process), S (state), A (action).  A policy is an array of probabilities [B, S, A].
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from toppo.maths.surrogates import additive_bounds, clipped, linear

Array = NDArray[np.float64]


@jax.jit
def clipped_around(ratio: jax.Array, adv: jax.Array, centre: jax.Array, clip_eps: float) -> jax.Array:
    """min(r A, clip(r, max(c - eps, 0), c + eps) A)"""
    return clipped(ratio, adv, *additive_bounds(centre, clip_eps))


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


class Case(NamedTuple):
    """A process and the three policies of the paper's statements, solved."""

    mdp: MDP
    mu: Solved
    pi_k: Solved
    pi: Solved


def solve(mdp: MDP, policy: Array) -> Solved:
    """V = (I - gamma P_pi)^-1 R_pi;  Q = R + gamma P V;  A = Q - V;  rho = (1 - gamma) rho0 (I - gamma P_pi)^-1."""
    gamma = mdp.gamma[:, None]
    p_pi = np.einsum("bsa,bsat->bst", policy, mdp.transition)
    eye = np.eye(p_pi.shape[-1])
    resolvent = np.linalg.solve(eye - gamma[..., None] * p_pi, np.broadcast_to(eye, p_pi.shape))
    v = np.einsum("bst,bt->bs", resolvent, (policy * mdp.reward).sum(-1))
    q = mdp.reward + gamma[..., None] * np.einsum("bsat,bt->bsa", mdp.transition, v)
    return Solved(
        policy=policy,
        resolvent=resolvent,
        v=v,
        q=q,
        adv=q - v[..., None],
        rho=(1.0 - gamma) * np.einsum("bs,bst->bt", mdp.rho0, resolvent),
        eta=(mdp.rho0 * v).sum(-1),
    )


def solve_case(mdp: MDP, mu: Array, pi_k: Array, pi: Array) -> Case:
    """Solve a process under its three policies."""
    return Case(mdp=mdp, mu=solve(mdp, mu), pi_k=solve(mdp, pi_k), pi=solve(mdp, pi))


def with_mu_towards(case: Case, target: Array, weight: Array) -> Case:
    """Replace mu by (1 - weight) pi_k + weight target; weight [B]."""
    return case._replace(mu=solve(case.mdp, case.pi_k.policy + weight[:, None, None] * (target - case.pi_k.policy)))


def expectation(probabilities: Array, values: Array) -> Array:
    """sum_a pi(a|s) x(s, a), or sum_s rho(s) x(s): the mean over the last axis."""
    return np.asarray((probabilities * values).sum(-1))


def tv(p: Array, q: Array) -> Array:
    """D_TV(p, q)(s) = 1/2 sum_a |p(a|s) - q(a|s)|  [B, S]"""
    return np.asarray(0.5 * np.abs(p - q).sum(-1))


def kl(p: Array, q: Array) -> Array:
    """D_KL(p, q)(s) = sum_a p ln(p/q), infinite where q lacks p's support  [B, S]

    The sum is p (x - ln(1 + x)) with x = q/p - 1.  Its terms are all positive, so close policies do not cancel.
    """
    support = p > 0.0
    x = np.where(support, (q - p) / np.where(support, p, 1.0), 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.where(support, p * (x - np.log1p(x)), q).sum(-1))


def max_tv(p: Array, q: Array) -> Array:
    """delta_max^{p,q} = max_s TV(p, q)(s)  [B]"""
    return np.asarray(tv(p, q).max(-1))


def mean_tv(mu: Solved, policy: Array) -> Array:
    """delta^{mu,pi} = E_{s~rho^mu} TV(mu, pi)(s)  [B]"""
    return expectation(mu.rho, tv(mu.policy, policy))


def mean_kl(mu: Solved, policy: Array) -> Array:
    """E_{s~rho^mu} KL(mu, pi)(s), which the filter of ToPPO compares with alpha  [B]"""
    return expectation(mu.rho, kl(mu.policy, policy))


def max_abs(x: Array) -> Array:
    """max |x| over all axes but the first."""
    return np.asarray(np.abs(x).reshape(len(x), -1).max(-1))


def surrogate(mu: Solved, policy: Array, adv: Array) -> Array:
    """E_{(s,a)~rho^mu}[ (pi/mu) A ], by the code that trains; mu has full support.  [B]"""
    with jax.enable_x64(True):
        per_pair = np.asarray(linear(jnp.asarray(policy / mu.policy), jnp.asarray(adv)))
    return np.asarray((mu.rho[..., None] * mu.policy * per_pair).sum((-1, -2)))


def clipped_surrogate(mu: Solved, pi_k: Array, policy: Array, clip_eps: float) -> Array:
    """E_{(s,a)~rho^mu} min(r A^mu, clip(r, l, u) A^mu), by the code that trains; mu may lack actions.  [B]"""
    support = mu.policy > 0.0
    ratio = np.divide(policy, mu.policy, out=np.ones(policy.shape), where=support)
    centre = np.divide(pi_k, mu.policy, out=np.ones(pi_k.shape), where=support)
    with jax.enable_x64(True):
        per_pair = np.asarray(clipped_around(ratio, mu.adv, centre, clip_eps))
    return np.asarray((mu.rho[..., None] * mu.policy * per_pair).sum((-1, -2)))
