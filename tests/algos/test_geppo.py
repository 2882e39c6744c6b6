import numpy as np
import pytest
from scipy.optimize import minimize

from tests.support import reference
from tests.support.training import setup_for, train_all, trained
from toppo.algos.contract import Segment
from toppo.algos.geppo import GePPOConfig, draw, policy_weights

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
    drawn = draw(GePPOConfig(), MEMORY, [0.0] * 4, 0.0, np.random.default_rng(0))
    assert drawn.clip_eps == pytest.approx(0.1)
    assert [s.obs for s in drawn.segments] == [3, 2, 1, 0]
    np.testing.assert_allclose(drawn.weights, [1.6, 1.2, 0.8, 0.4])
    young = draw(GePPOConfig(), MEMORY[:2], [0.0] * 2, 0.0, np.random.default_rng(0))
    np.testing.assert_allclose(young.weights, [2 * 4 / 7, 2 * 3 / 7])
    assert draw(
        GePPOConfig(uniform=True), MEMORY[:3], [0.0] * 3, 0.0, np.random.default_rng(0)
    ).clip_eps == pytest.approx(0.1)


def test_the_learning_rate_adapts():
    turns = trained("geppo", iterations=4, learning_rate=1e-5)
    rates = [t.metrics["train/learning_rate"] for t in turns]
    np.testing.assert_allclose(rates, [1e-5 * 1.03**i for i in (1, 2, 3, 4)], rtol=1e-5)
    assert [t.metrics["memory/size"] for t in turns] == [1, 2, 3, 4]


def test_every_stored_batch_is_labelled_anew_by_pi_k_and_its_critic():
    """V-trace in naive float64, with the parameters before the update and the normaliser that each batch kept."""
    setup = setup_for("geppo", iterations=4)
    turns = train_all(setup)
    params, memory, net = turns[2].state.learner.params, turns[3].state.memory, setup.net
    assert [int(b.iteration) for b in memory] == [1, 2, 3]
    for batch in memory:
        scale = batch.normaliser
        obs, following = (np.clip((x[:, 0] - scale.mean) * scale.inv_std, -10, 10) for x in (batch.obs, batch.next_obs))
        value, next_value = (np.asarray(net.value(params.value, x), float)[:, None] for x in (obs, following))
        logp = np.asarray(net.family.log_prob(net.policy(params.policy, obs), batch.action[:, 0]))
        ratio = np.exp(logp - batch.logp[:, 0])[:, None].astype(float)
        assert (np.abs(ratio - 1).max() > 0.1) == (batch is not memory[-1])
        reward = np.clip(batch.reward * scale.reward_scale, -10, 10).astype(float)
        adv, ret = reference.vtrace(
            reward, value, next_value, batch.terminated, batch.ended, ratio, setup.common.gamma, setup.common.gae_lambda
        )
        np.testing.assert_allclose(batch.adv, adv, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(batch.ret, ret, rtol=1e-3, atol=1e-4)
