"""The estimators that train, tied to exact advantages: their mean over every path of small absorbing processes."""

from collections.abc import Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from toppo.maths.advantages import gae, vtrace
from toppo.theory.mdp import MDP, Array, solve
from toppo.theory.random_mdps import full_support, normalised
from toppo.theory.statement import Sides, identity

Step = tuple[int, int, int]

compiled_gae, compiled_vtrace = jax.jit(gae), jax.jit(vtrace)


class Paths(NamedTuple):
    """All paths from every pair, padded to equal length: steps [T, n], probability given the first pair [n]."""

    state: NDArray[np.int64]
    action: NDArray[np.int64]
    next_state: NDArray[np.int64]
    probability: Array


def absorbing_mdp(rng: np.random.Generator, states: int = 4, actions: int = 2, gamma: float = 0.9) -> MDP:
    """Every step leads to a later state; the last state pays nothing and is never left.  B = 1"""
    later = np.triu(np.ones((states, states)), 1)
    later[-1, -1] = 1.0
    transition = normalised(rng.gamma(0.7, size=(states, actions, states)) * later[:, None] + 1e-9 * later[:, None])
    reward = rng.normal(size=(states, actions))
    reward[-1] = 0.0
    rho0 = normalised(np.append(np.ones(states - 1), 0.0))
    return MDP(transition[None], reward[None], np.asarray([gamma]), rho0[None])


def walk(mdp: MDP, policy: Array, state: int, action: int) -> Iterator[tuple[list[Step], float]]:
    """Each path from a pair to the end, and its probability under ``policy`` [S, A]."""
    end = policy.shape[0] - 1
    for reached in range(policy.shape[0]):
        chance = float(mdp.transition[0, state, action, reached])
        if chance == 0.0:
            continue
        if reached == end:
            yield [(state, action, reached)], chance
            continue
        for a in range(policy.shape[1]):
            for tail, rest in walk(mdp, policy, reached, a):
                yield [(state, action, reached), *tail], chance * float(policy[reached, a]) * rest


def all_paths(mdp: MDP, policy: Array) -> Paths:
    """Every path from every pair (s, a) of the states that can be left."""
    states, actions = policy.shape
    found = [path for s in range(states - 1) for a in range(actions) for path in walk(mdp, policy, s, a)]
    end = (states - 1, 0, states - 1)
    steps = np.asarray([[*path, *[end] * (states - 1 - len(path))] for path, _ in found]).transpose(2, 1, 0)
    return Paths(steps[0], steps[1], steps[2], np.asarray([chance for _, chance in found]))


def mean_advantage(mdp: MDP, mu: Array, value: Array, lam: float, pi_k: Array | None = None) -> Array:
    """E[ estimate | s, a ] over all paths of mu: GAE, or V-trace towards ``pi_k``.  [S-1, A]"""
    paths = all_paths(mdp, mu)
    reward = mdp.reward[0][paths.state, paths.action]
    terminated = paths.next_state == mu.shape[0] - 1
    gamma = float(mdp.gamma[0])
    with jax.enable_x64(True):
        known = [jnp.asarray(x) for x in (reward, value[paths.state], value[paths.next_state], terminated, terminated)]
        if pi_k is None:
            adv, _ = compiled_gae(*known, gamma, lam)
        else:
            adv, _ = compiled_vtrace(*known, jnp.asarray((pi_k / mu)[paths.state, paths.action]), gamma, lam)
        first = np.asarray(adv)[0]
    total = np.zeros((mu.shape[0] - 1, mu.shape[1]))
    np.add.at(total, (paths.state[0], paths.action[0]), paths.probability * first)
    return total


def truncated_policy(mu: Array, pi_k: Array) -> Array:
    """pi_rhobar of section 4.2 at truncation 1: proportional to min(mu, pi_k)."""
    return normalised(np.minimum(mu, pi_k))


def gae_identity(rng: np.random.Generator, count: int = 20) -> Sides:
    """E_mu[GAE] = A^mu for any lambda if the critic is V^mu, and Q^mu - V for lambda = 1 and any critic V  [2 count]"""
    left, right = [], []
    for _ in range(count):
        mdp, mu = absorbing_mdp(rng), full_support(rng.gamma(1.0, size=(4, 2)))
        exact = solve(mdp, mu[None])
        critic = np.append(rng.normal(size=3), 0.0)
        left += [mean_advantage(mdp, mu, exact.v[0], float(rng.random())), mean_advantage(mdp, mu, critic, 1.0)]
        right += [exact.adv[0, :-1], exact.q[0, :-1] - critic[:-1, None]]
    return identity(np.asarray(left), np.asarray(right), np.ones(2 * count))


def vtrace_identity(rng: np.random.Generator, count: int = 20) -> Sides:
    """E_mu[V-trace] = A^{pi_rhobar} for any lambda if the critic is V^{pi_rhobar}, pi_rhobar ~ min(mu, pi_k)"""
    left, right = [], []
    for _ in range(count):
        mdp = absorbing_mdp(rng)
        mu, pi_k = full_support(rng.gamma(1.0, size=(2, 4, 2)))
        exact = solve(mdp, truncated_policy(mu, pi_k)[None])
        left.append(mean_advantage(mdp, mu, exact.v[0], float(rng.random()), pi_k))
        right.append(exact.adv[0, :-1])
    return identity(np.asarray(left), np.asarray(right), np.ones(count))
