"""Labels of one batch, computed by the functions that training compiles, against naive sums in float64."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support import reference
from tests.support.training import forward, normalised, setup_for, train_all
from toppo.learn.programs import advantages_and_targets, relabel


@pytest.fixture(scope="module")
def trained():
    """A setup of DISC, the state after its last update, and an old batch in it."""
    setup = setup_for("disc", learning_rate=0.03)
    state = train_all(setup)[-1].state
    return setup, state, state.memory[0]


@pytest.mark.parametrize("sign_reward", [False, True])
def test_rewards_are_scaled_then_clipped(trained, sign_reward):
    setup, state, batch = trained
    setup = setup._replace(common=dataclasses.replace(setup.common, sign_reward=sign_reward))
    rng = np.random.default_rng(0)
    reward = rng.normal(size=batch.reward.shape) * 100
    batch = batch._replace(
        reward=reward.astype(np.float32), normaliser=batch.normaliser._replace(reward_scale=np.float32(0.1))
    )
    scaled = (np.sign(reward) if sign_reward else reward) * 0.1
    assert np.any(np.abs(scaled) > 10) != sign_reward
    params = state.learner.params
    value, following = (
        forward(params.value, normalised(batch, obs)).reshape(reward.shape) for obs in (batch.obs, batch.next_obs)
    )
    ones = np.ones(reward.shape)
    expected = reference.vtrace(
        np.clip(scaled, -10, 10), value, following, batch.terminated, batch.ended, ones, 0.9, setup.common.gae_lambda
    )
    found = advantages_and_targets(
        setup, params, jax.tree.map(jnp.asarray, batch), jnp.asarray(value, jnp.float32), ones, jnp.zeros(1)
    )
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)


def test_the_gap_of_an_old_batch_is_a_mean_over_action_dimensions(trained):
    """Mean |1 - rho_d| over samples and dimensions; with the joint ratio it would be another number."""
    setup, state, batch = trained
    params = state.learner.params
    _, gap, _ = relabel(setup, params, jax.tree.map(jnp.asarray, batch), batch.normaliser, jnp.zeros(1))
    mean = forward(params.policy.mean, normalised(batch, batch.obs))
    log_std = params.policy.log_std.astype(np.float64)
    action, mean_mu, log_std_mu = (
        x.astype(np.float64).reshape(mean.shape) for x in (batch.action, batch.dist.mean, batch.dist.log_std)
    )
    log_rho = (
        -0.5 * ((action - mean) / np.exp(log_std)) ** 2
        - log_std
        + 0.5 * ((action - mean_mu) / np.exp(log_std_mu)) ** 2
        + log_std_mu
    )
    per_dimension = np.abs(1 - np.exp(log_rho)).mean()
    joint = np.abs(1 - np.exp(log_rho.sum(-1))).mean()
    assert joint > 1.1 * per_dimension > 0.01
    assert float(gap) == pytest.approx(per_dimension, rel=1e-3)
