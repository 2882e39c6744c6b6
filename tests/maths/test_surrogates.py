import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toppo.maths.surrogates import (
    additive_bounds,
    clipped,
    lemma_4_1,
    linear,
    multiplicative_bounds,
    per_dimension_weight,
    total_variation,
)

RATIO = st.floats(0.0, 20.0, width=32)
EPS = st.floats(2.0**-7, 2.0, width=32)


def data(seed, *shape):
    rng = np.random.default_rng(seed)
    return rng.lognormal(sigma=0.5, size=shape), rng.lognormal(sigma=0.5, size=shape), rng.normal(size=shape)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("bounds", [additive_bounds, multiplicative_bounds])
@pytest.mark.parametrize("clip_eps", [0.05, 0.2, 1.5])
def test_clipped_surrogate_is_the_papers_formula(compiled, bounds, clip_eps):
    ratio, centre, adv = data(0, 200)

    def value(r, c, a):
        return clipped(r, a, *bounds(c, clip_eps))

    with jax.enable_x64(True):
        result = np.asarray((jax.jit(value) if compiled else value)(*map(jnp.asarray, (ratio, centre, adv))))
    for got, r, c, a in zip(result, ratio, centre, adv, strict=True):
        low, high = (
            (max(c - clip_eps, 0.0), c + clip_eps)
            if bounds is additive_bounds
            else ((1 - clip_eps) * c, (1 + clip_eps) * c)
        )
        inside = low if r < low else high if r > high else r
        assert got == pytest.approx(min(r * a, inside * a), rel=1e-12)


@pytest.mark.parametrize(
    ("ratio", "adv", "slope"),
    [(1.15, 1.0, 1.0), (1.25, 1.0, 0.0), (0.75, 1.0, 1.0), (0.75, -1.0, 0.0), (1.25, -1.0, -1.0), (0.9, -1.0, -1.0)],
)
def test_gradient_vanishes_only_where_the_clip_binds(ratio, adv, slope):
    grad = jax.grad(lambda r: clipped(r, jnp.float32(adv), *additive_bounds(jnp.float32(1.0), 0.2)))
    assert float(grad(jnp.float32(ratio))) == slope


@given(RATIO, RATIO, st.floats(-5, 5, width=32), EPS)
def test_the_lower_bound_at_zero_changes_no_value(ratio, centre, adv, clip_eps):
    r, c, a = (np.float32(x) for x in (ratio, centre, adv))
    low, high = additive_bounds(c, np.float32(clip_eps))
    with_max = float(clipped(r, a, low, high))
    assert with_max == float(clipped(r, a, c - np.float32(clip_eps), high))


@given(RATIO, st.floats(-5, 5, width=32), EPS)
def test_around_one_additive_and_multiplicative_agree(ratio, adv, clip_eps):
    one = np.float32(1.0)
    a, b = (clipped(np.float32(ratio), np.float32(adv), *f(one, np.float32(clip_eps))) for f in BOUNDS)
    assert float(a) == pytest.approx(float(b), abs=1e-6) or clip_eps > 1


BOUNDS = (additive_bounds, multiplicative_bounds)


def test_linear():
    assert linear(jnp.array([2.0, 3.0]), jnp.array([-1.0, 4.0])).tolist() == [-2.0, 12.0]


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("dims", [1, 3])
def test_per_dimension_weight_is_the_product_of_its_factors(compiled, dims):
    ratio, _, _ = data(1, 100, dims)
    adv = np.random.default_rng(2).normal(size=100)
    with jax.enable_x64(True):
        function = jax.jit(per_dimension_weight) if compiled else per_dimension_weight
        result = np.asarray(function(jnp.asarray(ratio), jnp.asarray(adv), 0.4))
    for got, row, a in zip(result, ratio, adv, strict=True):
        s, product = (1.0 if a > 0 else -1.0), 1.0
        for rho in row:
            product *= s * min(rho * s, min(max(rho, 0.6), 1.4) * s)
        assert got == pytest.approx(product, rel=1e-12)


def test_per_dimension_weight_with_one_dimension_is_ppo():
    ratio, _, adv = data(3, 500)
    one = clipped(jnp.asarray(ratio), jnp.asarray(adv), 0.6, 1.4)
    per_dimension = per_dimension_weight(jnp.asarray(ratio)[:, None], jnp.asarray(adv), 0.4) * adv
    np.testing.assert_allclose(one, per_dimension, rtol=1e-6)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])
def test_total_variation_is_the_weighted_mean(compiled):
    ratio, centre, _ = data(4, 77)
    weight = np.random.default_rng(5).random(77)
    expected = 0.5 * sum(w * abs(r - c) for w, r, c in zip(weight, ratio, centre, strict=True)) / 77
    with jax.enable_x64(True):
        function = jax.jit(total_variation) if compiled else total_variation
        assert float(function(*map(jnp.asarray, (ratio, centre, weight)))) == pytest.approx(expected, rel=1e-12)


def test_total_variation_estimates_the_distance_between_two_policies():
    # Three actions, data of mu: the expectation over mu of 0.5 |pi/mu - pi_k/mu| is 0.5 sum |pi - pi_k|.
    mu, pi_k, pi = np.array([0.5, 0.3, 0.2]), np.array([0.4, 0.4, 0.2]), np.array([0.2, 0.5, 0.3])
    exact = 0.5 * np.abs(pi - pi_k).sum()
    got = float(total_variation(jnp.asarray(pi / mu), jnp.asarray(pi_k / mu), jnp.asarray(3 * mu)))
    assert got == pytest.approx(exact, rel=1e-6)


def test_lemma_4_1():
    assert [round(lemma_4_1(0.2, n), 4) for n in (1, 2, 3, 4, 5, 6)] == [0.2, 0.1333, 0.1143, 0.1, 0.0889, 0.08]
