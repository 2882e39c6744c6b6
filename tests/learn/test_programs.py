"""The programs of an iteration, each by itself, against naive NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support.training import setup_for, train_all
from toppo.learn import programs
from toppo.learn.programs import Programs, explained_variance, next_values


@pytest.fixture(scope="module")
def trained():
    """A setup, the state after four iterations of off-policy PPO, and its memory of three old batches."""
    setup = setup_for("oppo", iterations=4, learning_rate=0.05)
    return setup, train_all(setup)[-1].state


def test_a_sample_of_an_old_batch_has_the_ratio_of_two_policies_and_that_of_the_newest_has_one(trained):
    setup, state = trained
    params = state.learner.params
    old = state.memory[0]
    sample = programs.prepare(setup, params, old, jnp.float32(0.5), None)
    inputs = np.clip((old.obs[:, 0] - old.normaliser.mean) * old.normaliser.inv_std, -10, 10)
    dist = setup.net.policy(params.policy, inputs)
    ratio = np.exp(np.asarray(setup.net.family.log_prob(dist, old.action[:, 0])) - old.logp[:, 0])
    np.testing.assert_allclose(sample.centre, ratio, rtol=1e-4)
    assert np.abs(ratio - 1).max() > 0.01
    assert set(np.asarray(sample.weight)) == {0.5}
    assert set(np.asarray(sample.newest)) == {0.0}
    newest = programs.prepare(setup, params, old, jnp.float32(1), jnp.zeros_like(old.adv))
    assert set(np.asarray(newest.centre)) == {1.0}
    assert set(np.asarray(newest.newest)) == {1.0}
    both = programs.concatenate((newest, sample))
    assert np.asarray(both.adv).tolist() == np.concatenate([newest.adv, sample.adv]).tolist()


def test_the_mean_kl_is_the_mean_over_states_of_mu_from_pi(trained):
    setup, state = trained
    policy = state.learner.params.policy
    for batch in state.memory:
        inputs = np.clip((batch.obs[:, 0] - batch.normaliser.mean) * batch.normaliser.inv_std, -10, 10)
        dist = setup.net.policy(policy, inputs)
        m, s = (np.asarray(x, np.float64)[:, 0] for x in batch.dist)
        mean, log_std = (np.asarray(x, np.float64) for x in dist)
        kl = (0.5 * (((m - mean) ** 2 + np.exp(2 * s)) / np.exp(2 * log_std) + 2 * log_std - 2 * s - 1)).sum(-1).mean()
        found = float(programs.mean_kl(setup, policy, batch))
        assert found == pytest.approx(kl, rel=1e-3)
        again = jax.tree.map(lambda x: jnp.concatenate([jnp.zeros_like(x), x]), dist)  # the second of two batches
        assert float(programs.known_mean_kl(setup, again, np.int32(1), batch)) == pytest.approx(found, rel=1e-5)


def test_a_compiled_program_is_the_function_of_its_name(trained):
    setup, state = trained
    compiled = Programs(setup)
    batch = state.memory[0]
    policy = state.learner.params.policy
    assert float(compiled.mean_kl(policy, batch)) == pytest.approx(float(programs.mean_kl(setup, policy, batch)))


def test_gradients_over_many_rows_or_numbers_are_compiled_for_the_same_bytes_on_all_cores():
    class Rows:
        def __init__(self, count):
            self.ret = np.zeros(count)

    def program(answer):
        return lambda *arguments: answer

    small = np.zeros((1, 4, 64), np.int32)
    large = np.zeros((1, 1, 256), np.int32)
    narrow = [np.zeros((8, 8))]
    wide = [np.zeros((256, 256))]
    update = programs.GradientProgram(program("fast"), program("deterministic"), whole_batch=False)
    assert update(narrow, (), Rows(256), small) == "fast"
    assert update(narrow, (), Rows(256), large) == "deterministic"
    assert update(wide, (), Rows(256), small) == "deterministic"
    assert update(narrow, (), Rows(2**16), small) == "deterministic"
    assert update._replace(whole_batch=True)(narrow, (), Rows(256), small) == "deterministic"


def test_the_explained_variance_by_hand():
    ret = jnp.array([1.0, 2.0, 3.0])
    assert float(explained_variance(ret, ret)) == 1.0
    assert float(explained_variance(jnp.zeros(3), ret)) == 0.0
    assert float(explained_variance(jnp.array([1.0, 2.0, 2.0]), ret)) == pytest.approx(1 - (2 / 9) / (2 / 3))
    assert float(explained_variance(ret, jnp.ones(3))) == 0.0


def test_next_values_are_those_of_the_next_step_or_of_the_stored_observations():
    class Segment:
        ended = jnp.array([[False, True], [True, False], [True, False]])
        terminated = jnp.array([[False, False], [False, False], [True, False]])

    value = jnp.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    stored = jnp.array([10.0, 20.0, 30.0, 40.0])  # after the last step of each, then of the two truncated episodes
    found = np.asarray(next_values(value, stored, Segment))
    assert found[0].tolist() == [3.0, 30.0]
    assert found[1].tolist() == [40.0, 6.0]
    assert found[2, 1] == 20.0
