"""Random processes and policies, with controlled sparsity, discount and distance between policies."""

import numpy as np

from toppo.theory.mdp import MDP, Array, Case, solve_case

SHAPES = ((2, 2), (3, 2), (3, 3), (4, 3), (5, 2), (6, 4))
CONCENTRATIONS = (0.05, 0.3, 1.0)
MIN_PROBABILITY = 1e-7


def random_cases(rng: np.random.Generator, count: int, shape: tuple[int, int], gamma: Array) -> Case:
    """Draw ``count`` processes of shape (S, A): mu is arbitrary, pi_k near mu, pi near one of the two."""
    mdp = random_mdps(rng, count, shape, gamma)
    mu = random_policies(rng, count, *shape)
    pi_k = nearby(rng, mu)
    pi = nearby(rng, np.where(rng.random((count, 1, 1)) < 0.5, mu, pi_k))
    return solve_case(mdp, mu, pi_k, pi)


def random_mdps(rng: np.random.Generator, count: int, shape: tuple[int, int], gamma: Array) -> MDP:
    """Draw Dirichlet transitions at one of three sparsities, and normal rewards, dense or mostly zero."""
    states, actions = shape
    concentration = rng.choice(CONCENTRATIONS, (count, 1, 1, 1))
    transition = normalised(rng.gamma(concentration, size=(count, states, actions, states)) + 1e-12)
    reward = rng.normal(size=(count, states, actions))
    density = rng.choice([0.3, 1.0], (count, 1, 1))
    rewarded = rng.random(reward.shape) < density
    # In a process without any reward every statement is 0 = 0.
    rewarded |= ~rewarded.any((1, 2), keepdims=True)
    rho0 = normalised(rng.gamma(0.3, size=(count, states)) + 1e-12)
    return MDP(transition=transition, reward=np.where(rewarded, reward, 0.0), gamma=gamma, rho0=rho0)


def random_policies(rng: np.random.Generator, count: int, states: int, actions: int) -> Array:
    """Draw policies of full support, from near deterministic to near uniform.  [B, S, A]"""
    concentration = rng.choice([0.3, 1.0, 5.0], (count, 1, 1))
    return full_support(rng.gamma(concentration, size=(count, states, actions)))


def nearby(rng: np.random.Generator, policy: Array) -> Array:
    """Mix a policy with a random one, with a weight log-uniform in [1e-3, 1].  [B, S, A]"""
    weight = 10.0 ** rng.uniform(-3.0, 0.0, (len(policy), 1, 1))
    return (1.0 - weight) * policy + weight * random_policies(rng, *policy.shape)


def random_batches(rng: np.random.Generator, count: int, discounts: tuple[float, ...]) -> list[Case]:
    """Draw ``count`` cases, spread evenly over the shapes: one batch per shape."""
    counts = np.bincount(np.arange(count) % len(SHAPES), minlength=len(SHAPES))
    return [
        random_cases(rng, int(n), shape, np.asarray(rng.choice(discounts, n)))
        for n, shape in zip(counts, SHAPES, strict=True)
        if n
    ]


def sharp_example(gamma: Array, delta: float = 0.05) -> Case:
    """Two states, three actions, mu = pi_k: Lemma 2.1 needs the share (1-gamma)/(1-gamma+gamma delta) of its penalty.

    mu stays in s0.  pi gives delta to an action of advantage +1 that leads to s1 for good, where pi does worse than mu.
    V^mu = 0, so rewards are advantages.
    """
    stay = [1.0, 0.0]
    leave = [0.0, 1.0]
    transition = np.asarray([[stay, stay, leave], [leave, leave, leave]])
    reward = np.asarray([[1.0, -1.0, 1.0], [1.0, -1.0, -1.0]])
    mu = full_support(np.asarray([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0]]))
    pi = mu + delta * np.asarray([[0.0, -1.0, 1.0], [-1.0, 1.0, 0.0]])
    transition, reward, mu, pi = (np.broadcast_to(x, (len(gamma), *x.shape)) for x in (transition, reward, mu, pi))
    mdp = MDP(transition=transition, reward=reward, gamma=gamma, rho0=np.tile(stay, (len(gamma), 1)))
    return solve_case(mdp, mu, mu, pi)


def normalised(weights: Array) -> Array:
    """Scale rows to sum to 1."""
    return np.asarray(weights / weights.sum(-1, keepdims=True))


def full_support(weights: Array) -> Array:
    """Scale rows to sum to 1 with no entry below 1e-7, so that every ratio is finite."""
    return normalised(np.maximum(normalised(weights + 1e-300), MIN_PROBABILITY))
