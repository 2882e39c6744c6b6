"""The mean of the advantage estimators that train, over every path of small processes, is the exact advantage."""

from collections.abc import Iterator

import jax
import numpy as np
from numpy.typing import NDArray

from toppo.maths.advantages import gae, vtrace
from toppo.theory.mdp import MDP, Array, solve
from toppo.theory.random_mdps import full_support, normalised
from toppo.theory.statement import Sides, identity, statement

compiled_gae = jax.jit(gae)
compiled_vtrace = jax.jit(vtrace)


def absorbing_mdp(rng: np.random.Generator, states: int = 4, actions: int = 2, gamma: float = 0.9) -> MDP:
    """Draw a process in which every step leads to a later state; the last one pays nothing and is never left.  B = 1"""
    later = np.triu(np.ones((states, states)), 1)
    later[-1, -1] = 1.0
    transition = normalised(rng.gamma(0.7, size=(states, actions, states)) * later[:, None] + 1e-9 * later[:, None])
    reward = rng.normal(size=(states, actions))
    reward[-1] = 0.0
    rho0 = normalised(np.append(np.ones(states - 1), 0.0))
    return MDP(transition=transition[None], reward=reward[None], gamma=np.asarray([gamma]), rho0=rho0[None])


def paths_from(mdp: MDP, policy: Array, state: int, action: int) -> Iterator[tuple[list[tuple[int, int, int]], float]]:
    """Yield each path from a pair to the end, and its probability under ``policy`` [S, A]."""
    last = len(policy) - 1
    chances = mdp.transition[0, state, action]
    for reached in np.flatnonzero(chances).tolist():
        step = (state, action, reached)
        if reached == last:
            yield [step], chances[reached]
            continue
        for a, probability in enumerate(policy[reached]):
            for tail, rest in paths_from(mdp, policy, reached, a):
                yield [step, *tail], chances[reached] * probability * rest


def all_paths(mdp: MDP, policy: Array) -> tuple[NDArray[np.int64], Array]:
    """List paths from every pair: their steps (s, a, s') [3, T, n], padded, and probabilities given the pair [n]."""
    last = len(policy) - 1
    found = [path for pair in np.ndindex(last, policy.shape[1]) for path in paths_from(mdp, policy, *pair)]
    steps = [path + [(last, 0, last)] * (last - len(path)) for path, _ in found]
    return np.asarray(steps).transpose(2, 1, 0), np.asarray([probability for _, probability in found])


def mean_advantage(mdp: MDP, mu: Array, value: Array, lam: float, pi_k: Array | None = None) -> Array:
    """E[ estimate | s, a ] over all paths of mu: GAE, or V-trace towards ``pi_k``.  [S-1, A]"""
    (state, action, next_state), probability = all_paths(mdp, mu)
    terminated = next_state == len(mu) - 1
    segment = (mdp.reward[0][state, action], value[state], value[next_state], terminated, terminated)
    with jax.enable_x64(True):
        if pi_k is None:
            adv, _ = compiled_gae(*segment, mdp.gamma[0], lam)
        else:
            adv, _ = compiled_vtrace(*segment, (pi_k / mu)[state, action], mdp.gamma[0], lam)
    total = np.zeros((len(mu) - 1, mu.shape[1]))
    np.add.at(total, (state[0], action[0]), probability * np.asarray(adv[0]))
    return total


def truncated_policy(mu: Array, pi_k: Array) -> Array:
    """pi_rhobar of section 4.2 at truncation 1: proportional to min(mu, pi_k)."""
    return normalised(np.minimum(mu, pi_k))


@statement("gae", "GAE of the code", "mean over all paths = A^mu", source="ours", kind="identity")
def gae_identity(rng: np.random.Generator, count: int = 20) -> Sides:
    """E_mu[GAE] = A^mu for any lambda if the critic is V^mu, and Q^mu - V for lambda = 1 and any critic V  [2 count]"""
    pairs = []
    for _ in range(count):
        mdp = absorbing_mdp(rng)
        mu = full_support(rng.gamma(1.0, size=(4, 2)))
        exact = solve(mdp, mu[None])
        critic = np.append(rng.normal(size=3), 0.0)
        pairs.append((mean_advantage(mdp, mu, exact.v[0], float(rng.random())), exact.adv[0, :-1]))
        pairs.append((mean_advantage(mdp, mu, critic, 1.0), exact.q[0, :-1] - critic[:-1, None]))
    mean, expected = np.swapaxes(pairs, 0, 1)
    return identity(mean, expected, np.ones(2 * count))


@statement("vtrace", "V-trace of the code", "mean over all paths = A^pi_rhobar", source="ours", kind="identity")
def vtrace_identity(rng: np.random.Generator, count: int = 20) -> Sides:
    """E_mu[V-trace] = A^{pi_rhobar} for any lambda if the critic is V^{pi_rhobar}, pi_rhobar ~ min(mu, pi_k)"""
    pairs = []
    for _ in range(count):
        mdp = absorbing_mdp(rng)
        mu, pi_k = full_support(rng.gamma(1.0, size=(2, 4, 2)))
        exact = solve(mdp, truncated_policy(mu, pi_k)[None])
        pairs.append((mean_advantage(mdp, mu, exact.v[0], float(rng.random()), pi_k), exact.adv[0, :-1]))
    mean, expected = np.swapaxes(pairs, 0, 1)
    return identity(mean, expected, np.ones(count))
