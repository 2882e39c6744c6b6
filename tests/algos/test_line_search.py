"""The line search of a trust region: each of its two conditions alone shortens a step."""

import jax
import pytest

from tests.support.problems import random_problem
from toppo.algos.optimise import TrustRegion, trust_region_update

ANY_KL = 1e9  # a slack that every step keeps to


def report(problem, region):
    static = {"common": problem.common, "net": problem.net}
    arrays = {name: value for name, value in problem._asdict().items() if name not in static}
    update = jax.jit(lambda arrays: trust_region_update(type(problem)(**static, **arrays), region))(arrays)
    return {name.removeprefix("train/"): float(value) for name, value in update.report.items()}


@pytest.mark.parametrize("seed", [0, 2])
def test_a_step_that_lowers_the_surrogate_is_shortened(seed):
    """So far from pi_k the surrogate is no longer what its gradient promised."""
    problem = random_problem(40, seed=seed)
    full = report(problem, TrustRegion(delta=1.0, slack=ANY_KL, backtracks=1))
    assert full["accepted"] == 0
    found = report(problem, TrustRegion(delta=1.0, slack=ANY_KL, backtracks=40))
    assert found["accepted"] == 1
    assert found["backtracks"] >= 1
    assert found["surrogate_gain"] > 0


@pytest.mark.parametrize("seed", [0, 3])  # the KL of the full step is below delta, and above it
def test_a_step_is_accepted_up_to_the_slack_times_delta(seed):
    problem = random_problem(200, seed=seed)
    full = report(problem, TrustRegion(delta=0.01, slack=ANY_KL))
    assert full["backtracks"] == 0
    needed = full["divergence"] / 0.01
    assert (needed < 1) == (seed == 0)
    just_enough = report(problem, TrustRegion(delta=0.01, slack=1.001 * needed))
    assert just_enough["backtracks"] == 0
    assert just_enough["divergence"] == pytest.approx(full["divergence"], rel=1e-5)
    too_little = report(problem, TrustRegion(delta=0.01, slack=0.999 * needed))
    assert too_little["backtracks"] == 1
    assert 0 < too_little["divergence"] < 0.999 * full["divergence"]
