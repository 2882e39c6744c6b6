"""Exact solutions: a chain solved by hand, and definitions written out naively."""

import numpy as np
import pytest

from toppo.theory.lemmas import lemma_3_1, performance_difference
from toppo.theory.mdp import MDP, Array, Case, clipped_surrogate, kl, mean_kl, solve, solve_case, surrogate
from toppo.theory.random_mdps import random_cases, sharp_example
from toppo.theory.sharper_bounds import second_order_bound, strengthened


def chain(gamma: float = 0.5) -> MDP:
    """In s0, a0 stays for nothing and a1 leads to s1 for 1; s1 pays 2 for ever."""
    stay = [1.0, 0.0]
    leave = [0.0, 1.0]
    transition = np.asarray([[[stay, leave], [leave, leave]]])
    reward = np.asarray([[[0.0, 1.0], [2.0, 2.0]]])
    return MDP(transition=transition, reward=reward, gamma=np.asarray([gamma]), rho0=np.asarray([stay]))


def leaving(p: float) -> Array:
    return np.asarray([[[1.0 - p, p], [0.5, 0.5]]])


def chain_case() -> Case:
    return solve_case(chain(), mu=leaving(0.5), pi_k=leaving(0.75), pi=leaving(1.0))


def test_chain_solved_by_hand() -> None:
    mu = solve(chain(), leaving(0.5))
    np.testing.assert_allclose(mu.v, [[2.0, 4.0]], atol=1e-14)
    np.testing.assert_allclose(mu.q, [[[1.0, 3.0], [4.0, 4.0]]], atol=1e-14)
    np.testing.assert_allclose(mu.adv, [[[-1.0, 1.0], [0.0, 0.0]]], atol=1e-14)
    np.testing.assert_allclose(mu.rho, [[2.0 / 3.0, 1.0 / 3.0]], atol=1e-14)
    np.testing.assert_allclose(mu.eta, [2.0], atol=1e-14)


def test_bounds_on_the_chain_by_hand() -> None:
    case = chain_case()
    gain = 3.0 - 18.0 / 7.0
    for bound, right, penalty in (
        (lemma_3_1, -3.0, 3.0 + 4.0 / 3.0),
        (strengthened, -1.0, 1.0 + 4.0 / 3.0),
        (second_order_bound, -1.0, 4.0 / 3.0 + 1.0 / 3.0),
    ):
        sides = bound.sides(case)
        np.testing.assert_allclose(sides.larger, gain, atol=1e-13)
        np.testing.assert_allclose(sides.smaller, right, atol=1e-13)
        np.testing.assert_allclose(sides.penalty, penalty, atol=1e-13)
    both = performance_difference.sides(case)
    np.testing.assert_allclose([both.smaller, both.larger], gain, atol=1e-13)


def test_solution_against_iteration() -> None:
    rng = np.random.default_rng(0)
    case = random_cases(rng, 20, (4, 3), np.full(20, 0.8))
    mdp = case.mdp
    policy = case.pi.policy
    at = mdp.rho0
    v = np.zeros((20, 4))
    rho = np.zeros((20, 4))
    for t in range(200):
        rho = rho + 0.2 * 0.8**t * at
        at = np.einsum("bs,bsa,bsat->bt", at, policy, mdp.transition)
        v = (policy * (mdp.reward + 0.8 * np.einsum("bsat,bt->bsa", mdp.transition, v))).sum(-1)
    exact = solve(mdp, policy)
    np.testing.assert_allclose(exact.v, v, atol=1e-12)
    np.testing.assert_allclose(exact.rho, rho, atol=1e-12)
    np.testing.assert_allclose((policy * exact.adv).sum(-1), 0.0, atol=1e-12)


def test_ten_thousand_processes_at_once() -> None:
    rng = np.random.default_rng(0)
    case = random_cases(rng, 10_000, (5, 3), np.full(10_000, 0.95))
    np.testing.assert_allclose(case.pi.rho.sum(-1), 1.0, atol=1e-12)


def test_surrogates_are_sums_over_pairs() -> None:
    case = random_cases(np.random.default_rng(1), 5, (3, 2), np.full(5, 0.9))
    mu = case.mu
    expected_linear = np.zeros(5)
    expected_clipped = np.zeros(5)
    for pair in np.ndindex(mu.policy.shape):
        weight = mu.rho[pair[:2]] * mu.policy[pair]
        adv = mu.adv[pair]
        r = case.pi.policy[pair] / mu.policy[pair]
        c = case.pi_k.policy[pair] / mu.policy[pair]
        expected_linear[pair[0]] += weight * r * adv
        expected_clipped[pair[0]] += weight * min(r * adv, min(max(r, c - 0.1), c + 0.1) * adv)
    np.testing.assert_allclose(surrogate(mu, case.pi.policy, mu.adv), expected_linear, atol=1e-12)
    clipped = clipped_surrogate(mu, case.pi_k.policy, case.pi.policy, 0.1)
    np.testing.assert_allclose(clipped, expected_clipped, atol=1e-12)


def test_kl_of_close_and_of_singular_policies() -> None:
    p = np.asarray([[[0.5, 0.5]]])
    q = np.asarray([[[0.5 + 1e-7, 0.5 - 1e-7]]])
    assert kl(p, q)[0, 0] == pytest.approx(2e-14, rel=1e-6)
    corner = np.asarray([[[1.0, 0.0]]])
    assert kl(corner, p)[0, 0] == pytest.approx(np.log(2.0))
    assert np.isinf(kl(p, corner)[0, 0])
    case = chain_case()
    assert mean_kl(case.mu, case.pi_k.policy)[0] == pytest.approx(2.0 / 3.0 * 0.5 * np.log(0.25 / 0.1875))


def test_sharp_example_is_as_computed() -> None:
    gamma = np.asarray([0.1, 0.5, 0.9, 0.99])
    case = sharp_example(gamma, 0.05)
    np.testing.assert_allclose(case.mu.v, 0.0, atol=1e-4)
    np.testing.assert_allclose(np.abs(case.mu.adv).max((1, 2)), 1.0, atol=1e-4)
