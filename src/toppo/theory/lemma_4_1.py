"""Statements that need no process: Lemma 4.1's arithmetic and conclusion, and the clip range of Definition 3.1."""

import jax
import jax.numpy as jnp
import numpy as np

from toppo.maths.surrogates import additive_bounds, clipped, lemma_4_1
from toppo.theory.mdp import Array
from toppo.theory.statement import DISCOUNTS, Sides, at_most, identity

PPO_EPS = 0.2
LENGTHS = tuple(range(2, 51))


def lemma_4_1_arithmetic() -> Sides:
    """mean_i 1/2 [eps/2 + (i + 1) eps/2] = eps^PPO/2, i = 1 .. N-1, for N = 2 .. 50  [49]"""
    left = [0.5 * (lemma_4_1(PPO_EPS, n) / 2.0 + np.mean(ages(n) + 1.0) * lemma_4_1(PPO_EPS, n) / 2.0) for n in LENGTHS]
    return identity(np.asarray(left), np.full(len(LENGTHS), PPO_EPS / 2.0), np.ones(len(LENGTHS)))


def lemma_4_1_loss(first_order: bool) -> Sides:
    """Penalty at ToPPO's worst distances <= that at PPO's, if each update moves by eps/2; N = 2 .. 50, all discounts.

    ``first_order``: by Lemma 3.1 with its linear term; otherwise by the second-order bound.
    """
    sides = [penalties(n, gamma, first_order) for n in LENGTHS for gamma in DISCOUNTS]
    toppo, ppo = np.asarray(sides).T
    return at_most(toppo, ppo)


def penalties(length: int, gamma: float, first_order: bool) -> tuple[float, float]:
    """The mean penalty of ToPPO's two batches and that of PPO's one, in units of max |A|."""
    step, quadratic = lemma_4_1(PPO_EPS, length) / 2.0, 4.0 * gamma / (1.0 - gamma) ** 2
    age = ages(length)
    linear_term = 2.0 * (1.0 + gamma) / (1.0 - gamma) ** 2 * age * step
    data_term = linear_term if first_order else quadratic * (age * step) ** 2
    old = np.mean(data_term + quadratic * ((age + 1.0) * step) ** 2)
    return 0.5 * (quadratic * step**2 + float(old)), quadratic * (PPO_EPS / 2.0) ** 2


def ages(length: int) -> Array:
    """1 .. N-1: how many updates ago the old batches of a memory of N were collected."""
    return np.arange(1.0, length)


def definition_3_1(rng: np.random.Generator, count: int = 100_000) -> Sides:
    """The clipped objective with lower bound max(c - eps, 0) = the one with c - eps, for ratios r, c >= 0  [count]"""
    ratio, centre = np.exp(rng.normal(scale=2.0, size=(2, count)))
    adv = rng.normal(size=count)
    clip_eps = rng.choice([0.05, 0.1, 0.2, 1.5], count)
    with jax.enable_x64(True):
        low, high = additive_bounds(jnp.asarray(centre), jnp.asarray(clip_eps))
        with_max = np.asarray(clipped(jnp.asarray(ratio), jnp.asarray(adv), low, high))
        without = np.asarray(clipped(jnp.asarray(ratio), jnp.asarray(adv), jnp.asarray(centre - clip_eps), high))
    return identity(with_max, without, np.ones(count))
