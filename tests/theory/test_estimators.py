"""GAE and V-trace as they train, against exact advantages: every path of a small absorbing process."""

import numpy as np
import pytest

from toppo.theory.estimators import (
    absorbing_mdp,
    all_paths,
    gae_identity,
    mean_advantage,
    truncated_policy,
    vtrace_identity,
)
from toppo.theory.mdp import Array, solve
from toppo.theory.random_mdps import full_support
from toppo.theory.statement import relative_error


def policies(seed: int) -> tuple[np.random.Generator, Array, Array]:
    rng = np.random.default_rng(seed)
    mu, pi_k = full_support(rng.gamma(1.0, size=(2, 4, 2)))
    return rng, mu, pi_k


def test_paths_are_all_there() -> None:
    rng, mu, _ = policies(0)
    (state, action, _), probability = all_paths(absorbing_mdp(rng), mu)
    total = np.zeros((3, 2))
    np.add.at(total, (state[0], action[0]), probability)
    np.testing.assert_allclose(total, 1.0, atol=1e-12)
    # From s2 one path per action, from s1 1 + 2 of them, from s0 1 + 2 + 2 * 3.
    assert [(state[0] == s).sum() for s in range(3)] == [18, 6, 2]


def test_identities() -> None:
    rng = np.random.default_rng(3)
    assert relative_error(gae_identity.sides(rng)).max() < 1e-10
    assert relative_error(vtrace_identity.sides(rng)).max() < 1e-10


def test_vtrace_between_equal_policies_is_gae() -> None:
    rng, mu, _ = policies(1)
    mdp = absorbing_mdp(rng)
    critic = np.append(rng.normal(size=3), 0.0)
    np.testing.assert_allclose(
        mean_advantage(mdp, mu, critic, 0.7, mu), mean_advantage(mdp, mu, critic, 0.7), atol=1e-12
    )


def test_a_wrong_critic_biases_gae_below_lambda_one() -> None:
    rng, mu, _ = policies(2)
    mdp = absorbing_mdp(rng)
    critic = np.append(rng.normal(size=3), 0.0)
    exact = solve(mdp, mu[None]).q[0, :-1] - critic[:-1, None]
    assert np.abs(mean_advantage(mdp, mu, critic, 0.5) - exact).max() > 1e-2


def test_vtrace_is_not_the_advantage_of_pi_k() -> None:
    rng, mu, pi_k = policies(6)
    mdp = absorbing_mdp(rng)
    exact = solve(mdp, pi_k[None])
    estimate = mean_advantage(mdp, mu, exact.v[0], 1.0, pi_k)
    assert np.abs(estimate - exact.adv[0, :-1]).max() > 1e-2


@pytest.mark.parametrize("phi", [0.3, 0.01])
def test_truncated_policy_of_opposite_policies_is_uniform(phi: float) -> None:
    mu = np.asarray([[phi, 1.0 - phi]])
    pi_k = np.asarray([[1.0 - phi, phi]])
    np.testing.assert_allclose(truncated_policy(mu, pi_k), 0.5)
