"""Statistics against rliable, which the field uses, and against sums done by hand."""

import warnings

import numpy as np
import pytest

from toppo.report.statistics import (
    Estimate,
    band,
    bootstrap,
    difference,
    iqm,
    mean,
    optimality_gap,
    performance_profile,
    pooled,
    probability_of_improvement,
    profile_band,
)

RNG = np.random.default_rng(7)
# Runs x tasks: plain, skewed, tied, few runs and many.
SCORES = {
    "normal": RNG.normal(1.0, 0.3, (10, 5)),
    "skewed": RNG.lognormal(0.0, 1.0, (8, 3)),
    "tied": RNG.integers(0, 3, (6, 4)).astype(float),
    "five runs": RNG.normal(0.5, 1.0, (5, 7)),
    "twenty runs": RNG.exponential(1.0, (20, 2)),
}


@pytest.fixture(scope="module")
def rliable():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        library = pytest.importorskip("rliable.library", reason="no rliable")
        return library, pytest.importorskip("rliable.metrics", reason="no rliable")


def tasks(scores: np.ndarray) -> list[np.ndarray]:
    return list(scores.T)


@pytest.mark.parametrize("name", SCORES)
def test_aggregates_are_rliables(rliable, name):
    _, metrics = rliable
    scores = SCORES[name]
    assert pooled(iqm)(tasks(scores)) == pytest.approx(metrics.aggregate_iqm(scores), rel=1e-12)
    assert pooled(mean)(tasks(scores)) == pytest.approx(metrics.aggregate_mean(scores), rel=1e-12)
    assert pooled(optimality_gap)(tasks(scores)) == pytest.approx(metrics.aggregate_optimality_gap(scores), rel=1e-12)
    other = RNG.permuted(scores, axis=0) + 0.1
    ours = probability_of_improvement([*tasks(scores), *tasks(other)])
    assert ours == pytest.approx(metrics.probability_of_improvement(scores, other), rel=1e-12)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SCORES)
def test_intervals_are_rliables(rliable, name):
    """Where they end differs by the noise of the draws only."""
    library, metrics = rliable
    scores = SCORES[name]
    for ours, theirs in ((iqm, metrics.aggregate_iqm), (optimality_gap, metrics.aggregate_optimality_gap)):
        found = bootstrap(tasks(scores), pooled(ours))
        np.random.seed(1)  # rliable draws from NumPy's global generator, whatever it is given
        _, limits = library.get_interval_estimates({"a": scores}, lambda x, f=theirs: np.array([f(x)]), reps=1000)
        low, high = limits["a"].ravel()
        width = high - low
        # 1,000 draws place a 2.5% quantile within about 1/40 of the width (one standard error).
        assert abs(found.low - low) < 0.1 * width
        assert abs(found.high - high) < 0.1 * width


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SCORES)
def test_intervals_are_rliables_within_a_hundredth_of_their_width(rliable, name):
    library, metrics = rliable
    scores = SCORES[name]
    found = bootstrap(tasks(scores), pooled(iqm), 50_000)
    np.random.seed(1)
    _, limits = library.get_interval_estimates(
        {"a": scores}, lambda x: np.array([metrics.aggregate_iqm(x)]), reps=50_000
    )
    low, high = limits["a"].ravel()
    # Of tied scores the mean of a half takes few values: an end may lie on the next of these.
    close = (0.1 if name == "tied" else 0.01) * (high - low)
    assert max(abs(found.low - low), abs(found.high - high)) <= close


def test_the_profile_is_rliables(rliable):
    library, _ = rliable
    levels = np.linspace(0, 2, 21)
    for scores in SCORES.values():
        expected = [library.run_score_deviation(scores, level) for level in levels]
        np.testing.assert_allclose(performance_profile(tasks(scores), levels), expected, rtol=1e-12)


@pytest.mark.filterwarnings("ignore")
def test_the_profiles_interval_is_rliables(rliable):
    library, _ = rliable
    levels, scores = np.linspace(-0.5, 2, 6), SCORES["normal"]
    np.random.seed(1)
    _, limits = library.create_performance_profile({"a": scores}, levels, reps=1000)
    # A share of 50 runs moves in fiftieths; the noise of 1,000 draws is below one.
    np.testing.assert_allclose(profile_band(tasks(scores), levels), limits["a"], atol=0.021)


def test_runs_are_resampled_within_their_task():
    """Two tasks without any spread inside have no interval, though the runs differ between them."""
    found = bootstrap([np.zeros(6), np.ones(6)], pooled(mean))
    assert (found.low, found.high) == (0.5, 0.5)
    together = bootstrap([np.array([0.0] * 6 + [1.0] * 6)], pooled(mean))
    assert together.low < 0.5 < together.high


def test_the_bootstrap_is_the_naive_one():
    scores, rng = np.array([3.0, 1.0, 4.0, 1.0, 5.0]), np.random.default_rng(3)
    means = sorted(sum(scores[rng.integers(5)] for _ in range(5)) / 5 for _ in range(20_000))
    found = bootstrap([scores], pooled(mean))
    assert found.value == pytest.approx(2.8)
    assert found.low == pytest.approx(means[500], abs=0.1)
    assert found.high == pytest.approx(means[-501], abs=0.1)
    assert found == bootstrap([scores], pooled(mean))


def test_no_interval_from_fewer_than_five_runs():
    few = bootstrap([np.arange(4.0)], pooled(mean))
    assert few == (1.5, None, None, 4)
    assert few.side == 0
    assert bootstrap([np.arange(9.0), np.arange(4.0)], difference).low is None
    assert bootstrap([np.arange(5.0) + 9, np.arange(5.0)], difference).side == 1
    assert bootstrap([np.arange(5.0), np.arange(5.0) + 9], difference).side == -1
    assert bootstrap([np.arange(5.0), np.arange(5.0)], difference).side == 0


def test_the_middle_half_by_hand():
    assert iqm(np.array([0.0, 1.0, 3.0, 100.0])) == 2.0
    assert iqm(np.array([0.0, 1.0, 5.0])) == 2.0  # three runs: nothing is trimmed
    assert optimality_gap(np.array([0.5, 2.0])) == 0.25
    assert probability_of_improvement([np.array([1.0, 2.0]), np.array([1.0, 0.0])]) == pytest.approx(7 / 8)


def test_a_band_is_the_bootstrap_of_every_point():
    rows = RNG.normal(size=(7, 4))
    low, high = band(rows, iqm, 20_000)
    for i in range(4):
        alone = bootstrap([rows[:, i]], pooled(iqm))
        assert (low[i], high[i]) == pytest.approx((alone.low, alone.high), abs=0.02)


def test_an_interval_takes_a_side_only_if_0_is_not_in_it():
    intervals = [(0.1, 2.0), (-2.0, -0.1), (-0.1, 2.0), (-2.0, 0.1), (None, None)]
    sides = [Estimate(value=low or 1.0, low=low, high=high, runs=5).side for low, high in intervals]
    assert sides == [1, -1, 0, 0, 0]
