import numpy as np
import pytest
from scipy.optimize import minimize

from tests.algos.small import run
from toppo.algos.geppo import GePPOConfig, draw, policy_weights
from toppo.types import Segment

MEMORY = tuple(Segment(*[i] * 12) for i in range(4))


def test_the_published_weights():
    np.testing.assert_allclose(policy_weights(GePPOConfig()), [0.4, 0.3, 0.2, 0.1], atol=1e-12)
    np.testing.assert_allclose(
        policy_weights(GePPOConfig(mean_age=3.0)), [0.25, 0.214, 0.179, 0.143, 0.107, 0.071, 0.036], atol=5e-4
    )
    assert policy_weights(GePPOConfig(mean_age=1.0)).tolist() == [1.0]
    np.testing.assert_allclose(policy_weights(GePPOConfig(uniform=True)), [1 / 3] * 3)


@pytest.mark.parametrize("bound", [1.2, 1.5, 2.1, 2.7, 3.4])
def test_the_weights_are_the_optimum_that_a_solver_finds(bound):
    ages = np.arange(1, 13)
    found = minimize(
        lambda nu: nu @ nu,
        np.full(12, 1 / 12),
        jac=lambda nu: 2 * nu,
        bounds=[(0, 1)] * 12,
        constraints=[
            {"type": "eq", "fun": lambda nu: nu.sum() - 1},
            {"type": "ineq", "fun": lambda nu: bound - ages @ nu},
        ],
        options={"maxiter": 500, "ftol": 1e-14},
    ).x
    nu = policy_weights(GePPOConfig(mean_age=bound))
    padded = np.concatenate([nu, np.zeros(12 - len(nu))])
    np.testing.assert_allclose(padded, found, atol=0.012 if found[found > 1e-6].min() < 0.01 else 1e-4)


def test_the_clip_range_is_halved_and_the_weights_have_mean_one():
    drawn = draw(GePPOConfig(), MEMORY, [0.0] * 4, np.random.default_rng(0))
    assert drawn.clip_eps == pytest.approx(0.1)
    assert [s.obs for s in drawn.segments] == [3, 2, 1, 0]
    np.testing.assert_allclose(drawn.weights, [1.6, 1.2, 0.8, 0.4])
    young = draw(GePPOConfig(), MEMORY[:2], [0.0] * 2, np.random.default_rng(0))
    np.testing.assert_allclose(young.weights, [2 * 4 / 7, 2 * 3 / 7])
    assert draw(GePPOConfig(uniform=True), MEMORY[:3], [0.0] * 3, np.random.default_rng(0)).clip_eps == pytest.approx(
        0.1
    )


def test_the_learning_rate_adapts():
    turns = run("geppo", iterations=4, lr=1e-5)
    rates = [t.metrics["train/learning_rate"] for t in turns]
    np.testing.assert_allclose(rates, [1e-5 * 1.03**i for i in (1, 2, 3, 4)], rtol=1e-5)
    assert [t.metrics["memory/size"] for t in turns] == [1, 2, 3, 4]
