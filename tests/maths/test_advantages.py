import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support import reference
from toppo.maths.advantages import backward_sum, gae, standardise, td_error, vtrace

SHAPES = [(1, 1), (7, 3), (33, 2)]
BOTH = pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])


def run(function, compiled, *arguments):
    """The function in float64, so that it can be compared with the loops to rounding."""
    with jax.enable_x64(True):
        call = jax.jit(function) if compiled else function
        return jax.tree.map(np.asarray, call(*map(jnp.asarray, arguments)))


@BOTH
@pytest.mark.parametrize("shape", SHAPES)
def test_gae_is_the_sum_of_the_paper(compiled, shape):
    for seed, (gamma, lam) in enumerate([(0.99, 0.95), (0.0, 0.5), (0.9, 0.0), (0.995, 1.0)]):
        batch = reference.random_batch(seed, *shape)
        adv, ret = run(gae, compiled, *batch.values(), gamma, lam)
        expected, targets = reference.vtrace(**batch, ratio=np.ones(shape), gamma=gamma, lam=lam)
        np.testing.assert_allclose(adv, expected, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(ret, targets, rtol=1e-12, atol=1e-12)


@BOTH
@pytest.mark.parametrize("shape", SHAPES)
def test_vtrace_is_the_sum_of_the_paper(compiled, shape):
    for seed in range(4):
        batch = reference.random_batch(seed, *shape)
        ratio = np.random.default_rng(seed + 100).lognormal(sigma=0.7, size=shape)
        adv, ret = run(vtrace, compiled, *batch.values(), ratio, 0.97, 0.9)
        expected, targets = reference.vtrace(**batch, ratio=ratio, gamma=0.97, lam=0.9)
        np.testing.assert_allclose(adv, expected, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(ret, targets, rtol=1e-12, atol=1e-12)


def test_float32_is_close_enough_to_float64():
    batch = reference.random_batch(3, 256, 4)
    adv, _ = gae(*(jnp.asarray(x, bool if x.dtype == bool else jnp.float32) for x in batch.values()), 0.995, 0.97)
    assert adv.dtype == jnp.float32
    expected, _ = reference.vtrace(**batch, ratio=np.ones((256, 4)), gamma=0.995, lam=0.97)
    np.testing.assert_allclose(adv, expected, rtol=1e-4, atol=1e-4)


def test_a_time_limit_is_not_a_death():
    # One step, r = 1, V(s) = 2, V(s') = 10, gamma = 1/2: alive 1 + 5 - 2 = 4, dead 1 - 2 = -1.
    one = jnp.ones((1, 1))
    arguments = (one, 2 * one, 10 * one)
    limit, _ = gae(*arguments, jnp.zeros((1, 1), bool), jnp.ones((1, 1), bool), 0.5, 0.9)
    death, _ = gae(*arguments, jnp.ones((1, 1), bool), jnp.ones((1, 1), bool), 0.5, 0.9)
    assert (float(limit[0, 0]), float(death[0, 0])) == (4.0, -1.0)


def test_gae_by_hand():
    # gamma = lam = 1/2; r = 1 2 3, V = 1 1 1, V' = 1 1 4, no ending: delta = .5 1.5 4; A_2 = 4,
    # A_1 = 1.5 + 4 / 4 = 2.5, A_0 = .5 + 2.5 / 4 = 1.125.
    column = lambda *x: jnp.array(x, jnp.float32)[:, None]  # noqa: E731
    no = jnp.zeros((3, 1), bool)
    adv, ret = gae(column(1, 2, 3), column(1, 1, 1), column(1, 1, 4), no, no, 0.5, 0.5)
    assert adv[:, 0].tolist() == [1.125, 2.5, 4.0]
    assert ret[:, 0].tolist() == [2.125, 3.5, 5.0]


def test_gae_does_not_leak_over_an_ending_by_hand():
    # The same numbers with a time limit after the second step: A_1 = delta_1 = 1.5, A_0 = .5 + .25 * 1.5 = .875.
    column = lambda *x: jnp.array(x, jnp.float32)[:, None]  # noqa: E731
    no, ended = jnp.zeros((3, 1), bool), jnp.array([[False], [True], [False]])
    adv, _ = gae(column(1, 2, 3), column(1, 1, 1), column(1, 1, 4), no, ended, 0.5, 0.5)
    assert adv[:, 0].tolist() == [0.875, 1.5, 4.0]


def test_vtrace_by_hand_with_ratios_half_two_one():
    # The deltas .5 1.5 4 again, ratios .5 2 1, so h = .5 1 1.  A_2 = 4, A_1 = 1.5 + .25 * 1 * 4 = 2.5 and
    # A_0 = .5 + .25 * 1 * 2.5 = 1.125 (the own ratio is not in A_t); R = V + h A = 1.5625, 3.5, 5.
    column = lambda *x: jnp.array(x, jnp.float32)[:, None]  # noqa: E731
    no = jnp.zeros((3, 1), bool)
    batch = (column(1, 2, 3), column(1, 1, 1), column(1, 1, 4), no, no)
    adv, ret = vtrace(*batch, column(0.5, 2, 1), 0.5, 0.5)
    assert adv[:, 0].tolist() == [1.125, 2.5, 4.0]
    assert ret[:, 0].tolist() == [1.5625, 3.5, 5.0]
    # The small ratio on the second step cuts the first step's trace: A_0 = .5 + .25 * .5 * A_1.
    adv, ret = vtrace(*batch, column(2, 0.5, 1), 0.5, 0.5)
    assert adv[:, 0].tolist() == [0.8125, 2.5, 4.0]
    assert ret[:, 0].tolist() == [1.8125, 2.25, 5.0]


def test_vtrace_at_ratio_one_is_gae():
    batch = [jnp.asarray(x) for x in reference.random_batch(11, 50, 3).values()]
    for ratio in (1.0, 7.0):
        for a, b in zip(vtrace(*batch, jnp.full((50, 3), ratio), 0.99, 0.95), gae(*batch, 0.99, 0.95), strict=True):
            assert a.tobytes() == b.tobytes()


def test_td_error_and_backward_sum_take_any_number_of_axes():
    rng = np.random.default_rng(0)
    x, decay = rng.normal(size=(5, 2, 3)), rng.random((5, 2, 3))
    expected, later = np.zeros_like(x), np.zeros((2, 3))
    for t in reversed(range(5)):
        later = expected[t] = x[t] + decay[t] * later
    np.testing.assert_allclose(run(backward_sum, True, x, decay), expected, rtol=1e-12)
    delta = td_error(jnp.ones(4), jnp.zeros(4), jnp.full(4, jnp.inf), jnp.ones(4, bool), 0.9)
    assert delta.tolist() == [1.0] * 4  # what a dead state would be worth is never looked at


@BOTH
@pytest.mark.parametrize("size", [2, 3, 64])
def test_standardise_is_the_weighted_rule(compiled, size):
    rng = np.random.default_rng(size)
    adv, weight = rng.normal(size=size) * 3 + 1, rng.lognormal(size=size)
    product = [w * a for w, a in zip(weight, adv, strict=True)]
    mean = (sum(product) / size) / (sum(weight) / size)
    centre = sum(product) / size
    spread = (sum((p - centre) ** 2 for p in product) / size) ** 0.5 + 1e-8
    np.testing.assert_allclose(run(standardise, compiled, adv, weight), (adv - mean) / spread, rtol=1e-11)


def test_standardise_survives_equal_advantages():
    assert standardise(jnp.full(4, 2.0), jnp.ones(4)).tolist() == [0.0] * 4
