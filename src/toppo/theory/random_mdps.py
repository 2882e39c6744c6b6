"""Random processes and policies: sparsity, discount and the distance between policies are controlled."""

import numpy as np

from toppo.theory.mdp import MDP, Array, Instance

SHAPES = ((2, 2), (3, 2), (3, 3), (4, 3), (5, 2), (6, 4))
CONCENTRATIONS = (0.05, 0.3, 1.0)
MIN_PROBABILITY = 1e-7


def random_instances(rng: np.random.Generator, count: int, shape: tuple[int, int], gamma: Array) -> Instance:
    """``count`` processes of S states and A actions; mu is arbitrary, pi_k near mu, pi near one of the two."""
    states, actions = shape
    mdp = random_mdps(rng, count, shape, gamma)
    mu = random_policies(rng, count, states, actions)
    pi_k = nearby(rng, mu)
    pi = nearby(rng, np.where(rng.random((count, 1, 1)) < 0.5, mu, pi_k))
    return Instance(mdp, mu, pi_k, pi)


def random_mdps(rng: np.random.Generator, count: int, shape: tuple[int, int], gamma: Array) -> MDP:
    """Transitions Dirichlet at one of three sparsities, rewards normal (half of the processes: mostly zero)."""
    states, actions = shape
    concentration = rng.choice(CONCENTRATIONS, (count, 1, 1, 1))
    transition = normalised(rng.gamma(concentration, size=(count, states, actions, states)) + 1e-12)
    reward = rng.normal(size=(count, states, actions))
    often = rng.choice([0.3, 1.0], (count, 1, 1))
    given = rng.random(reward.shape) < often
    # A process without any reward says nothing: every statement is 0 = 0 there.
    given |= ~given.any((1, 2), keepdims=True)
    reward = np.where(given, reward, 0.0)
    return MDP(transition, reward, gamma, normalised(rng.gamma(0.3, size=(count, states)) + 1e-12))


def random_policies(rng: np.random.Generator, count: int, states: int, actions: int) -> Array:
    """Full support, from near deterministic to near uniform.  [B, S, A]"""
    concentration = rng.choice([0.3, 1.0, 5.0], (count, 1, 1))
    return full_support(rng.gamma(concentration, size=(count, states, actions)))


def nearby(rng: np.random.Generator, policy: Array) -> Array:
    """Mix with a random policy, the weight log-uniform in [1e-3, 1].  [B, S, A]"""
    count, states, actions = policy.shape
    weight = 10.0 ** rng.uniform(-3.0, 0.0, (count, 1, 1))
    return (1.0 - weight) * policy + weight * random_policies(rng, count, states, actions)


def discounts(rng: np.random.Generator, count: int, among: tuple[float, ...]) -> Array:
    """One discount per process.  [B]"""
    return np.asarray(rng.choice(among, count))


def batches(rng: np.random.Generator, count: int, among: tuple[float, ...]) -> list[Instance]:
    """``count`` instances in all, spread evenly over the shapes: one batch per shape."""
    shares = np.bincount(np.arange(count) % len(SHAPES), minlength=len(SHAPES))
    pairs = [(int(n), shape) for n, shape in zip(shares, SHAPES, strict=True) if n]
    return [random_instances(rng, n, shape, discounts(rng, n, among)) for n, shape in pairs]


def sharp_example(gamma: Array, delta: float = 0.05) -> Instance:
    """Two states, three actions, mu = pi_k: Lemma 2.1 needs the share (1-gamma)/(1-gamma+gamma delta) of its penalty.

    mu stays in s0; pi gives delta to an action of advantage +1 that leads to s1 for good, where pi does worse than mu.
    V^mu = 0, so that rewards are advantages.
    """
    stay, leave = [1.0, 0.0], [0.0, 1.0]
    transition = np.asarray([[stay, stay, leave], [leave, leave, leave]])
    reward = np.asarray([[1.0, -1.0, 1.0], [1.0, -1.0, -1.0]])
    mu = full_support(np.asarray([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0]]))
    pi = mu + delta * np.asarray([[0.0, -1.0, 1.0], [-1.0, 1.0, 0.0]])
    transition, reward, mu, pi = (np.broadcast_to(x, (len(gamma), *x.shape)) for x in (transition, reward, mu, pi))
    return Instance(MDP(transition, reward, gamma, np.tile(stay, (len(gamma), 1))), mu, mu, pi)


def normalised(weights: Array) -> Array:
    """Rows that sum to 1."""
    return np.asarray(weights / weights.sum(-1, keepdims=True))


def full_support(weights: Array) -> Array:
    """Rows that sum to 1 with no entry below 1e-7, so that every ratio is finite."""
    return normalised(np.maximum(normalised(weights + 1e-300), MIN_PROBABILITY))
