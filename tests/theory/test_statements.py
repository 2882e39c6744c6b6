"""Every statement on 2,000 processes and under search, each with its negative controls."""

from functools import cache

import numpy as np
import pytest

from toppo.theory import sharper_bounds
from toppo.theory.catalogue import STATEMENTS
from toppo.theory.lemma_4_1 import definition_3_1, equal_loss, equal_loss_second_order, mean_distance, worst_penalties
from toppo.theory.lemmas import lemma_2_1, lemma_3_1
from toppo.theory.random_mdps import random_batches, sharp_example
from toppo.theory.run import Result, check, named_rng
from toppo.theory.statement import Sides, bound_violated, penalty_share, relative_error, violated

SEED = 1
FALSE = {"merged", "ppo-theorem", "ppo-theorem-sign", "pointwise-deterministic"}
BY_KEY = {statement.key: statement for statement in STATEMENTS}
IDENTITIES = [key for key, statement in BY_KEY.items() if statement.kind == "identity"]
TRUE_BOUNDS = [key for key, statement in BY_KEY.items() if statement.kind == "bound" and key not in FALSE]
SCALED = [key for key in TRUE_BOUNDS if not key.startswith(("ppo", "pointwise", "theorem"))]
NEEDED = ["lemma-2-1", "lemma-3-1", "merged-from-a-third", "strengthened", "averaged", "second-order"]


@cache
def result(key: str) -> Result:
    return check(BY_KEY[key], 2000, SEED)


def with_scaled_penalty(sides: Sides, factor: float) -> Sides:
    """The same claim with its penalty times ``factor``; 0 removes the penalty."""
    return Sides(sides.smaller + (1.0 - factor) * sides.penalty, sides.larger, factor * sides.penalty)


@pytest.mark.parametrize("key", IDENTITIES)
def test_identity_to_ten_digits(key: str) -> None:
    found = result(key)
    assert found.holds
    assert len(found.scores) == 2000
    assert found.scores.max() < 1e-10
    assert found.worst is not None
    assert found.worst.score < 1e-10


@pytest.mark.parametrize("key", TRUE_BOUNDS)
def test_true_bound_survives(key: str) -> None:
    found = result(key)
    assert found.holds
    assert (found.violations, len(found.scores)) == (0, 2000)
    assert found.worst is not None
    assert found.worst.score < 1.0 + 1e-6
    assert found.counterexample == ()


@pytest.mark.parametrize("key", sorted(FALSE))
def test_false_statement_is_found_false(key: str) -> None:
    found = result(key)
    assert not found.holds
    assert found.violations > 0
    assert found.worst is not None
    assert found.worst.violated
    assert found.worst.score > 1.2
    assert found.counterexample


@pytest.mark.parametrize("key", [*NEEDED, "certificate-floor"])
def test_without_its_penalty_a_bound_fails(key: str) -> None:
    batches = random_batches(named_rng(SEED, key), 300, BY_KEY[key].discounts)
    sides = [BY_KEY[key].sides(batch) for batch in batches]
    assert sum(int(bound_violated(with_scaled_penalty(s, 0.0)).sum()) for s in sides) > 10
    assert sum(int(bound_violated(s).sum()) for s in sides) == 0


@pytest.mark.parametrize("key", SCALED)
def test_below_its_measured_tightness_a_bound_fails(key: str) -> None:
    found = result(key).worst
    assert found is not None
    sides = BY_KEY[key].sides(found.case)
    assert bound_violated(with_scaled_penalty(sides, 0.99 * found.score))[0]
    assert not bound_violated(with_scaled_penalty(sides, 1.01 * found.score))[0]


def test_beyond_its_radius_theorem_3_1_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = random_batches(np.random.default_rng(SEED), 300, (0.5, 0.9))
    assert sum(int(bound_violated(sharper_bounds.theorem_3_1.sides(case)).sum()) for case in cases) == 0
    monkeypatch.setattr(sharper_bounds, "INSIDE", 10.0)
    assert sum(int(bound_violated(sharper_bounds.theorem_3_1.sides(case)).sum()) for case in cases) > 10


def test_an_identity_with_a_wrong_factor_fails() -> None:
    statement = BY_KEY["corollary-a1-q"]
    sides = statement.sides(random_batches(np.random.default_rng(SEED), 60, (0.9,))[0])
    assert not violated(statement, sides).any()
    assert violated(statement, sides._replace(larger=sides.larger / 0.9)).any()


@pytest.mark.parametrize("delta", [0.1, 0.01])
def test_trpo_coefficient_cannot_be_lowered(delta: float) -> None:
    gamma = np.asarray([0.1, 0.5, 0.9])
    case = sharp_example(gamma, delta)
    share = (1.0 - gamma) / (1.0 - gamma + gamma * delta)
    for bound in (lemma_2_1, lemma_3_1, sharper_bounds.second_order_bound):
        np.testing.assert_allclose(penalty_share(bound.sides(case)), share, atol=1e-3)


def test_linear_term_of_lemma_3_1_is_loose_by_the_factor_computed() -> None:
    found = result("lemma-3-1-linear").worst
    assert found is not None
    for gamma, score in found.by_discount.items():
        assert score <= (1.0 - gamma) / (1.0 + gamma) + 1e-9
        assert score > 0.95 * (1.0 - gamma) / (1.0 + gamma)


def test_merged_form_fails_only_below_a_third() -> None:
    found = result("merged").worst
    assert found is not None
    assert {gamma for gamma, score in found.by_discount.items() if score > 1.0 + 1e-6} == {0.1}


def test_floor_is_below_the_certificate_and_meets_it_at_no_distance() -> None:
    case = random_batches(np.random.default_rng(SEED), 60, (0.9,))[3]
    case = case._replace(mu=case.pi_k)
    sides = sharper_bounds.certificate_floor.sides(case)
    np.testing.assert_allclose(sides.smaller, sides.larger, atol=1e-9)


def test_lemma_4_1() -> None:
    rng = np.random.default_rng(0)
    assert relative_error(mean_distance.sides(rng)).max() < 1e-15
    assert (penalty_share(equal_loss.sides(rng)) > 1.0).all()
    assert (penalty_share(equal_loss_second_order.sides(rng)) > 1.0).all()
    toppo, ppo = worst_penalties(5, 0.995, False)
    assert toppo / ppo == pytest.approx(2.1728, abs=1e-4)


def test_clip_at_zero_changes_nothing() -> None:
    assert relative_error(definition_3_1.sides(np.random.default_rng(0))).max() == 0.0
