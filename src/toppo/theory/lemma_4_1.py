"""Statements that need no process: Lemma 4.1's arithmetic and conclusion, and the clip range of Definition 3.1."""

import jax
import jax.numpy as jnp
import numpy as np

from toppo.maths.surrogates import additive_bounds, clipped, lemma_4_1
from toppo.theory.statement import DISCOUNTS, Sides, at_most, identity, statement

PPO_EPS = 0.2
MEMORY_SIZES = tuple(range(2, 51))


@statement("lemma-4-1", "Lemma 4.1, arithmetic", "N = 2 .. 50", kind="identity")
def mean_distance(_: np.random.Generator) -> Sides:
    """mean_i 1/2 [eps/2 + (i + 1) eps/2] = eps^PPO/2, i = 1 .. N-1, eps by Lemma 4.1, for N = 2 .. 50  [49]"""
    steps = [lemma_4_1(PPO_EPS, size) / 2.0 for size in MEMORY_SIZES]
    left = [0.5 * (s + np.mean(np.arange(1.0, n) + 1.0) * s) for n, s in zip(MEMORY_SIZES, steps, strict=True)]
    return identity(np.asarray(left), np.full(len(left), PPO_EPS / 2.0), np.ones(len(left)))


@statement("lemma-4-1-loss", "Lemma 4.1, equal loss", "loss <= PPO's, by Lemma 3.1")
def equal_loss(_: np.random.Generator) -> Sides:
    """Lemma 4.1, conclusion: penalty of ToPPO <= penalty of PPO, with the linear term of Lemma 3.1  [343]"""
    return compare_penalties(first_order=True)


@statement("lemma-4-1-second", "Lemma 4.1, equal loss", "the same, by second order")
def equal_loss_second_order(_: np.random.Generator) -> Sides:
    """Lemma 4.1, conclusion: penalty of ToPPO <= penalty of PPO, by the second-order bound  [343]"""
    return compare_penalties(first_order=False)


def compare_penalties(first_order: bool) -> Sides:
    """Compare the penalties for N = 2 .. 50 and all discounts, if each update moves by eps/2."""
    penalties = [worst_penalties(n, gamma, first_order) for n in MEMORY_SIZES for gamma in DISCOUNTS]
    toppo, ppo = np.asarray(penalties).T
    return at_most(toppo, ppo)


def worst_penalties(size: int, gamma: float, first_order: bool) -> tuple[float, float]:
    """The mean penalty of ToPPO's two batches and that of PPO's one, in units of max |A|."""
    step = lemma_4_1(PPO_EPS, size) / 2.0
    quadratic = 4.0 * gamma / (1.0 - gamma) ** 2
    age = np.arange(1.0, size)  # in updates, of the old batches
    linear_term = 2.0 * (1.0 + gamma) / (1.0 - gamma) ** 2 * age * step
    data_term = linear_term if first_order else quadratic * (age * step) ** 2
    old = np.mean(data_term + quadratic * ((age + 1.0) * step) ** 2)
    return 0.5 * (quadratic * step**2 + float(old)), quadratic * (PPO_EPS / 2.0) ** 2


@statement("definition-3-1", "Definition 3.1", "max(c - eps, 0) clips as c - eps", source="ours", kind="identity")
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
