import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from toppo.maths.moments import merge, no_data, normalise, standard_deviation, summary

NUMBERS = st.floats(-1e6, 1e6)
PARTS = st.lists(st.integers(0, 7), min_size=1, max_size=6)


@given(PARTS, st.data())
def test_merged_statistics_are_those_of_all_data(sizes, data):
    parts = [data.draw(arrays(np.float64, (n, 2), elements=NUMBERS)) for n in sizes]
    moments = no_data((2,))
    for part in parts:
        moments = merge(moments, summary(part))
    everything = np.concatenate(parts)
    assert moments.n == len(everything)
    if len(everything) >= 1:
        np.testing.assert_allclose(moments.mean, everything.mean(0), rtol=1e-9, atol=1e-6)
    if len(everything) >= 2:
        # Sums of squares of numbers near 1e6 carry an error of about 1e-16 * 1e12 * n.
        np.testing.assert_allclose(moments.var, everything.var(0, ddof=1), rtol=1e-9, atol=1e-2)


@pytest.mark.parametrize("sizes", [(1,), (1, 1), (1, 5), (5, 1), (1024, 1024, 3)])
def test_merge_follows_the_rule_of_the_authors_code(sizes):
    rng, count, mean, var = np.random.default_rng(1), 0, 0.0, 1.0
    moments = no_data(())
    for n in sizes:
        x = rng.normal(3, 2, n)
        total, centre = count + n, sum(x) / n
        squares = sum((v - centre) ** 2 for v in x)
        within = var * (count - 1) if count > 1 else 0.0
        var = (squares + within + (n / total) * count * (centre - mean) ** 2) / max(1, total - 1)
        mean, count = (n * centre + count * mean) / total, total
        moments = merge(moments, summary(x))
        np.testing.assert_allclose((moments.n, moments.mean, moments.var), (count, mean, var), rtol=1e-11)


def test_by_hand():
    # 1, 3 then 5: mean 3, variance ((-2)^2 + 0 + 2^2) / 2 = 4.
    moments = merge(merge(no_data(()), summary(np.array([1.0, 3.0]))), summary(np.array([5.0])))
    assert (moments.n, float(moments.mean), float(moments.var)) == (3.0, 3.0, 4.0)


def test_no_data_changes_nothing():
    before = merge(no_data((2,)), summary(np.arange(6.0).reshape(3, 2)))
    assert merge(before, summary(np.zeros((0, 2)))) is before
    empty = no_data((2,))
    assert standard_deviation(empty).tolist() == [1.0, 1.0]
    assert standard_deviation(merge(empty, summary(np.array([[5.0, 7.0]])))).tolist() == [1.0, 1.0]


def test_standard_deviation_has_a_floor():
    assert standard_deviation(merge(no_data(()), summary(np.full(10, 3.0)))) == 1e-8


def test_float32_data_is_summed_in_float64():
    data = (1e4 + np.random.default_rng(0).normal(size=100_000)).astype(np.float32)
    moments = no_data(())
    for part in np.split(data, 100):
        moments = merge(moments, summary(part))
    np.testing.assert_allclose(moments.var, data.astype(np.float64).var(ddof=1), rtol=1e-9)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])
def test_normalise_clips_at_ten(compiled):
    x, shift, factor = np.array([0.0, 3.0, 100.0, -100.0]), np.float64(1.0), np.float64(2.0)
    with jax.enable_x64(True):
        function = jax.jit(normalise) if compiled else normalise
        assert np.asarray(function(jnp.asarray(x), shift, factor)).tolist() == [-2.0, 4.0, 10.0, -10.0]
