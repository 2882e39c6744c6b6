"""Early stop measures how far the policy has come from pi_k, not from the policies that collected the data."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support.problems import random_problem
from toppo.algos import REGISTRY
from toppo.algos.optimise import adam_init, adam_update, measured_update

EPOCHS = 4


@pytest.fixture
def problem():
    """Old data at a distance from pi_k that would end the epochs, if it counted."""
    found = random_problem(32, 32, n_epochs=EPOCHS, n_minibatches=2)
    distance = 0.5 * jnp.mean(jnp.abs(found.sample.centre - 1.0))
    return found._replace(clip_eps=jnp.float32(distance), opt=adam_init(found.common, found.policy))


def epochs(algo, problem, lr):
    config = REGISTRY[algo].config(early_stop=True)

    def improve(policy, opt, sample, minibatches):
        arrays = {"policy": policy, "opt": opt, "sample": sample, "minibatches": minibatches}
        return REGISTRY[algo].improve(config, problem._replace(lr=jnp.float32(lr), **arrays))

    return int(jax.jit(improve)(problem.policy, problem.opt, problem.sample, problem.minibatches).epochs)


def test_pi_k_is_at_no_distance_from_itself(problem):
    sample = problem.sample
    ratio = np.asarray(sample.centre, np.float64)
    assert 0.5 * np.abs(ratio - 1).mean() > problem.clip_eps / 2
    assert measured_update(problem, problem.policy)[0].tv == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("algo", ["toppo", "geppo"])
def test_a_policy_that_stays_near_pi_k_takes_all_its_epochs_on_data_that_are_far_from_it(problem, algo):
    assert epochs(algo, problem, lr=1e-6) == EPOCHS
    assert epochs(algo, problem, lr=1.0) == 1


def test_the_epochs_end_as_soon_as_the_distance_exceeds_half_the_clip_range(problem):
    def update(epochs, clip_eps, early_stop):
        given = problem._replace(
            lr=jnp.float32(3e-3), clip_eps=jnp.float32(clip_eps), minibatches=problem.minibatches[:epochs]
        )
        return adam_update(given, lambda ratio, centre, adv, clip_eps: ratio * adv, early_stop)

    first, second, third = (float(update(epochs, 0.0, early_stop=False).tv) for epochs in (1, 2, 3))
    assert first < second < third < 2 * second
    for after_first, after_second in ((0.9, 1.1), (1.1, 0.9)):  # just below a distance, just above it
        assert int(update(EPOCHS, 2 * first * after_first, early_stop=True).epochs) == (1 if after_first < 1 else 2)
        assert int(update(EPOCHS, 2 * second * after_second, early_stop=True).epochs) == (2 if after_second < 1 else 3)
