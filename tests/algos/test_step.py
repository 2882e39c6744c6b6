"""The trust-region step against a dense solve, and what its line search promises."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from tests.support.problems import random_problem
from toppo.algos.optimise import TrustRegion, trust_region_update
from toppo.maths.trust_region import bounded_step


def improve(problem, region, from_mu=False):
    static = {"common": problem.common, "net": problem.net}
    arrays = {k: v for k, v in problem._asdict().items() if k not in static}
    return jax.jit(lambda arrays: trust_region_update(type(problem)(**static, **arrays), region, from_mu))(arrays)


def dense_fisher(problem, theta, unravel):
    """Mean over states of J^T diag(1 / std^2) J for the means, and 2 for every log standard deviation."""
    net, obs = problem.net, problem.sample.obs
    jac_mean = np.asarray(jax.jacobian(lambda t: net.policy(unravel(t), obs).mean)(theta))  # [B, D, P]
    jac_log_std = np.asarray(jax.jacobian(lambda t: net.policy(unravel(t), obs).log_std)(theta))
    inverse = np.exp(-2 * np.asarray(net.policy(problem.policy, obs).log_std))
    fisher = np.einsum("bdp,bd,bdq->pq", jac_mean, inverse, jac_mean)
    return (fisher + 2 * np.einsum("bdp,bdq->pq", jac_log_std, jac_log_std)) / len(obs)


@pytest.mark.parametrize("old", [0, 30])
def test_the_step_is_that_of_a_dense_solve(old):
    with jax.enable_x64(True):
        problem = random_problem(30, old, dtype=np.float64)
        theta, unravel = ravel_pytree(problem.policy)
        moved, _ = ravel_pytree(improve(problem, TrustRegion(1e-4, cg_iterations=200, slack=1e9)).policy)
        s, net = problem.sample, problem.net
        product = s.centre * s.weight
        adv = (s.adv - (product * s.adv).mean() / product.mean()) / ((product * s.adv).std() + 1e-8)
        score = jax.jacobian(lambda t: net.family.log_prob(net.policy(unravel(t), s.obs), s.action))(theta)
        gradient = np.einsum("b,bp->p", s.centre * adv, np.asarray(score)) / len(adv)
        matrix = dense_fisher(problem, theta, unravel) + 0.01 * np.eye(len(theta))
        x = np.linalg.solve(matrix, gradient)
        expected = np.sqrt(2 * 1e-4 / (x @ matrix @ x)) * x
    np.testing.assert_allclose(
        moved - theta, expected, rtol=1e-3, atol=1e-5
    )  # conjugate gradient stops at a residual of 1e-5


def test_a_bounded_step_solves_its_problem():
    """The gradient of the objective is a multiple of the bound's, and the bound is met exactly."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        root, g, k = rng.normal(size=(6, 6)), rng.normal(size=6), 0.3 * rng.normal(size=6)
        fisher, cost = root @ root.T + np.eye(6), 0.02
        direction, _ = bounded_step(
            lambda v, f=fisher: jnp.asarray(f) @ v, lambda b, f=fisher: jnp.linalg.solve(f, b), jnp.asarray(g), 0.1,
            jnp.asarray(cost), jnp.asarray(k),
        )  # fmt: skip
        d = np.asarray(direction, np.float64)
        assert cost + k @ d + d @ fisher @ d / 2 == pytest.approx(0.1, rel=1e-3)
        slope = k + fisher @ d
        multiple = (g @ slope) / (slope @ slope)
        assert multiple > 0
        np.testing.assert_allclose(g, multiple * slope, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("cost", [0.5, 0.1])
def test_without_room_there_is_no_step(cost):
    eye = lambda v: v  # noqa: E731
    direction, _ = bounded_step(eye, eye, jnp.ones(3), 0.1, jnp.asarray(cost), jnp.zeros(3))
    assert direction.tolist() == [0.0] * 3
    assert bounded_step(eye, eye, jnp.zeros(3), 0.1)[0].tolist() == [0.0] * 3


def test_an_accepted_step_keeps_its_promises():
    accepted = 0
    for seed in range(6):
        problem = random_problem(200, seed=seed)
        improved = improve(problem, TrustRegion(0.01))
        s, net = problem.sample, problem.net
        dist = net.policy(improved.policy, s.obs)
        kl = float(net.family.kl(s.dist_k, dist).mean())
        adv = (s.adv - s.adv.mean()) / s.adv.std()
        gain = np.mean(np.exp(np.asarray(net.family.log_prob(dist, s.action)) - s.logp) * adv) - adv.mean()
        assert kl <= 0.015
        assert gain >= -1e-6
        accepted += int(improved.report["train/accepted"])
        assert float(improved.report["train/divergence"]) == pytest.approx(kl, rel=1e-3)
    assert accepted >= 5


def test_a_failing_line_search_leaves_the_policy_alone():
    problem = random_problem(50)
    improved = improve(problem, TrustRegion(0.01, slack=1e-7))
    assert improved.report["train/accepted"] == 0
    assert improved.report["train/backtracks"] == 9
    for a, b in zip(jax.tree.leaves(problem.policy), jax.tree.leaves(improved.policy), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def test_toppos_bound_holds_for_mu():
    """Where the old policy is far from pi_k already, the step is shorter, and KL(mu || pi) stays under the bound."""
    problem = random_problem(100, 100)
    net, s = problem.net, problem.sample
    start = float(net.family.kl(s.dist_mu, s.dist_k).mean())
    region = TrustRegion(1.5 * start, slack=1.0)
    improved = improve(problem, region, from_mu=True)
    assert improved.report["train/accepted"] == 1
    end = float(net.family.kl(s.dist_mu, net.policy(improved.policy, s.obs)).mean())
    assert end <= 1.5 * start
    free = improve(problem, TrustRegion(1.5 * start, slack=1e9))  # TRPO's bound of the same size is another one
    assert float(net.family.kl(s.dist_mu, net.policy(free.policy, s.obs)).mean()) > 1.5 * start
