from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from toppo.maths.advantages import vtrace
from toppo.reproduce.two_action import two_action_values, vtrace_fixed_point

PHI = np.array([1e-6, 0.01, 0.1, 0.3, 0.5])


def vtrace_policy(pi, mu, rho_bar=1.0):
    """pi_rhobar(a) = min(rho_bar mu(a), pi(a)) / sum_b min(rho_bar mu(b), pi(b)).  [..., A] -> [..., A]"""
    truncated = np.minimum(rho_bar * mu, pi)
    return truncated / truncated.sum(-1, keepdims=True)


def test_the_papers_example():
    """However far apart pi and mu are, V-trace sees the average of left and right."""
    values = two_action_values(PHI)
    np.testing.assert_allclose(values.vtrace, 0.5, rtol=1e-12)
    np.testing.assert_array_equal(values.pi, 1 - PHI)
    np.testing.assert_array_equal(values.mu, PHI)
    uniform = vtrace_policy(np.stack([1 - PHI, PHI], -1), np.stack([PHI, 1 - PHI], -1))
    np.testing.assert_allclose(uniform, 0.5, rtol=1e-12)


def random_case(seed):
    rng = np.random.default_rng(seed)
    pi, mu = rng.dirichlet(np.ones(3), 2)
    return pi, mu, rng.normal(size=3)


@pytest.mark.parametrize("rho_bar", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("seed", range(4))
def test_the_fixed_point_is_the_value_of_the_truncated_policy(seed, rho_bar):
    pi, mu, reward = random_case(seed)
    expected = vtrace_policy(pi, mu, rho_bar) @ reward / (1 - 0.9)
    np.testing.assert_allclose(vtrace_fixed_point(pi, mu, reward, 0.9, rho_bar), expected, rtol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_the_training_code_stands_still_at_the_fixed_point(seed):
    """The mean of the critic's target over all paths of three steps of mu is V there, and nowhere else."""
    pi, mu, reward = random_case(seed)
    paths = np.array(list(product(range(3), repeat=3))).T  # [steps, paths]
    never = jnp.zeros(paths.shape, bool)

    def mean_target(value):
        v = jnp.full(paths.shape, value)
        _, targets = vtrace(jnp.asarray(reward[paths]), v, v, never, never, jnp.asarray((pi / mu)[paths]), 0.9, 1.0)
        return float(np.prod(mu[paths], axis=0) @ np.asarray(targets[0]))

    with jax.enable_x64(True):
        fixed = float(vtrace_fixed_point(pi, mu, reward, 0.9))
        assert mean_target(fixed) == pytest.approx(fixed, rel=1e-10)
        assert abs(mean_target(fixed + 1.0) - (fixed + 1.0)) > 0.01
