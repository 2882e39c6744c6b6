"""The mean of the advantage estimators that train, over every path of small processes, is the exact advantage."""

from collections.abc import Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from toppo.maths.advantages import gae, vtrace
from toppo.theory.mdp import MDP, Array, solve
from toppo.theory.random_mdps import full_support, normalised
from toppo.theory.statement import Sides, identity, statement

compiled_gae = jax.jit(gae)
compiled_vtrace = jax.jit(vtrace)


class Paths(NamedTuple):
    """All paths from every pair, padded to equal length [T, n], and their probabilities given the first pair [n]."""

    state: NDArray[np.int64]
    action: NDArray[np.int64]
    next_state: NDArray[np.int64]
    probability: Array


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
    states, actions = policy.shape
    for reached in range(states):
        chance = float(mdp.transition[0, state, action, reached])
        step = (state, action, reached)
        if chance == 0.0:
            continue
        if reached == states - 1:
            yield [step], chance
            continue
        for a in range(actions):
            for tail, rest in paths_from(mdp, policy, reached, a):
                yield [step, *tail], chance * float(policy[reached, a]) * rest


def all_paths(mdp: MDP, policy: Array) -> Paths:
    """List every path from every pair (s, a) of the states that can be left."""
    states, actions = policy.shape
    pairs = [(s, a) for s in range(states - 1) for a in range(actions)]
    found = [path for pair in pairs for path in paths_from(mdp, policy, *pair)]
    padding = (states - 1, 0, states - 1)
    steps = np.asarray([[*path, *[padding] * (states - 1 - len(path))] for path, _ in found]).transpose(2, 1, 0)
    return Paths(
        state=steps[0], action=steps[1], next_state=steps[2], probability=np.asarray([chance for _, chance in found])
    )


def mean_advantage(mdp: MDP, mu: Array, value: Array, lam: float, pi_k: Array | None = None) -> Array:
    """E[ estimate | s, a ] over all paths of mu: GAE, or V-trace towards ``pi_k``.  [S-1, A]"""
    paths = all_paths(mdp, mu)
    reward = mdp.reward[0][paths.state, paths.action]
    terminated = paths.next_state == mu.shape[0] - 1
    gamma = float(mdp.gamma[0])
    with jax.enable_x64(True):
        columns = (reward, value[paths.state], value[paths.next_state], terminated, terminated)
        segment = [jnp.asarray(column) for column in columns]
        if pi_k is None:
            adv, _ = compiled_gae(*segment, gamma, lam)
        else:
            adv, _ = compiled_vtrace(*segment, jnp.asarray((pi_k / mu)[paths.state, paths.action]), gamma, lam)
        first = np.asarray(adv)[0]
    total = np.zeros((mu.shape[0] - 1, mu.shape[1]))
    np.add.at(total, (paths.state[0], paths.action[0]), paths.probability * first)
    return total


def truncated_policy(mu: Array, pi_k: Array) -> Array:
    """pi_rhobar of section 4.2 at truncation 1: proportional to min(mu, pi_k)."""
    return normalised(np.minimum(mu, pi_k))


@statement("gae", "GAE of the code", "mean over all paths = A^mu", source="ours", kind="identity")
def gae_identity(rng: np.random.Generator, count: int = 20) -> Sides:
    """E_mu[GAE] = A^mu for any lambda if the critic is V^mu, and Q^mu - V for lambda = 1 and any critic V  [2 count]"""
    left = []
    right = []
    for _ in range(count):
        mdp = absorbing_mdp(rng)
        mu = full_support(rng.gamma(1.0, size=(4, 2)))
        exact = solve(mdp, mu[None])
        critic = np.append(rng.normal(size=3), 0.0)
        left += [mean_advantage(mdp, mu, exact.v[0], float(rng.random())), mean_advantage(mdp, mu, critic, 1.0)]
        right += [exact.adv[0, :-1], exact.q[0, :-1] - critic[:-1, None]]
    return identity(np.asarray(left), np.asarray(right), np.ones(2 * count))


@statement("vtrace", "V-trace of the code", "mean over all paths = A^pi_rhobar", source="ours", kind="identity")
def vtrace_identity(rng: np.random.Generator, count: int = 20) -> Sides:
    """E_mu[V-trace] = A^{pi_rhobar} for any lambda if the critic is V^{pi_rhobar}, pi_rhobar ~ min(mu, pi_k)"""
    left = []
    right = []
    for _ in range(count):
        mdp = absorbing_mdp(rng)
        mu, pi_k = full_support(rng.gamma(1.0, size=(2, 4, 2)))
        exact = solve(mdp, truncated_policy(mu, pi_k)[None])
        left.append(mean_advantage(mdp, mu, exact.v[0], float(rng.random()), pi_k))
        right.append(exact.adv[0, :-1])
    return identity(np.asarray(left), np.asarray(right), np.ones(count))
