"""What ToPPO's memory adds to the paper's box: several batches, weights by age, centred advantages."""

import jax.numpy as jnp
import numpy as np
import pytest

import toppo
from tests.support.problems import random_problem
from toppo.algos.contract import Segment, Trajectory
from toppo.algos.optimise import adam_init
from toppo.algos.steps import label_gae
from toppo.algos.toppo import ToPPOConfig, draw, improve, keep, label

RNG = np.random.default_rng(0)


def memory_of(*iterations: int) -> tuple[Segment, ...]:
    return tuple(Segment(*[np.float32(k)] * 12) for k in iterations)


def drawn(config: ToPPOConfig, *iterations: int) -> dict[int, float]:
    found = draw(config, memory_of(*iterations), [0.0] * len(iterations), 0.0, RNG)
    return {int(batch.iteration): weight for batch, weight in zip(found.segments, found.weights, strict=True)}


def test_weights_fall_with_the_age_of_a_batch():
    config = ToPPOConfig(n_old=3, n_policies=4, age_weights=True)
    assert drawn(config, 5, 6, 7, 8) == pytest.approx({8: 1.6, 7: 1.2, 6: 0.8, 5: 0.4})
    assert drawn(config, 8) == {8: 1.0}


def test_a_batch_that_outlived_others_has_the_least_weight():
    config = ToPPOConfig(n_old=2, n_policies=3, age_weights=True)
    assert drawn(config, 1, 8, 9) == pytest.approx({9: 1.5, 8: 1.0, 1: 0.5})


def test_without_weights_all_count_the_same():
    assert drawn(ToPPOConfig(n_old=2), 7, 8, 9) == {9: 1.0, 8: 1.0, 7: 1.0}


def test_the_papers_box_draws_one_old_batch():
    assert len(drawn(ToPPOConfig(), 5, 6, 7, 8)) == 2


def test_centred_advantages_have_mean_zero_and_the_same_targets():
    shape = (7, 3)
    reward, value, next_value = (jnp.asarray(RNG.random(shape, np.float32)) for _ in range(3))
    nothing = jnp.zeros(shape, bool)
    path = Trajectory(reward, value, next_value, nothing, nothing, jnp.ones(shape), 0.9, 0.8, jnp.zeros(3))
    adv, ret = label(ToPPOConfig(centre_adv=True), path)
    plain, target = label_gae(None, path)
    np.testing.assert_allclose(adv, np.asarray(plain, np.float64) - np.mean(plain, dtype=np.float64), atol=1e-6)
    assert abs(float(adv.mean())) < 1e-6 < abs(float(plain.mean()))
    np.testing.assert_array_equal(ret, target)
    np.testing.assert_array_equal(label(ToPPOConfig(), path)[0], plain)


def kept(kl: list[float], **settings: object) -> list[int]:
    memory = memory_of(*range(len(kl)))
    return [int(batch.iteration) for batch in keep(ToPPOConfig(n_policies=4, **settings), memory, kl)]


@pytest.mark.parametrize("unit", [1e-6, 0.02, 300.0])
def test_alpha_that_sets_itself_has_no_unit(unit):
    assert kept([4.1 * unit, 3.9 * unit, 2.0 * unit, unit], alpha="auto") == [1, 2, 3]
    assert kept([9.0 * unit, 4.0 * unit, unit], alpha="auto") == [1, 2]  # updates in one direction
    assert kept([0.0, 0.0], alpha="auto") == [0, 1]  # no update has moved


def test_alpha_as_a_number_is_a_bound_on_the_kl():
    assert kept([0.2, 0.04, 0.02, 0.01], alpha=0.03) == [2, 3]
    assert kept([0.2, 0.04, 0.02, 0.01], alpha=0.0) == []


@pytest.mark.parametrize("alpha", [-0.1, "x"])
def test_no_other_alpha(alpha):
    with pytest.raises((ValueError, TypeError), match="alpha"):
        toppo.ToPPO("CartPole-v1", alpha=alpha)


@pytest.mark.parametrize("ent_coef", [0.0, 0.1])
@pytest.mark.parametrize("newest", [0.0, 1.0])
def test_the_standard_deviation_learns_from_the_newest_batch_alone(newest, ent_coef):
    problem = random_problem(32, old=32)
    sample = problem.sample._replace(newest=jnp.full(64, newest))
    opt = adam_init(problem.common, problem.policy)
    problem = problem._replace(opt=opt, sample=sample, ent_coef=ent_coef)
    both, alone = (improve(ToPPOConfig(std_on_old=old, early_stop=False), problem).policy for old in (True, False))
    assert not np.array_equal(both.log_std, problem.policy.log_std)
    expected = both.log_std if newest else problem.policy.log_std
    np.testing.assert_array_equal(alone.log_std, expected)
    assert not np.array_equal(alone.mean[0].w, problem.policy.mean[0].w)


def test_the_adapted_learning_rate_never_exceeds_its_own_value():
    problem = random_problem(32, old=32)
    problem = problem._replace(opt=adam_init(problem.common, problem.policy))

    def scale(lr: float, before: float) -> float:
        changed = problem._replace(lr=jnp.float32(lr), lr_scale=jnp.float32(before))
        return float(improve(ToPPOConfig(adapt_lr=True), changed).lr_scale)

    assert scale(1e-6, 1.0) == 1.0  # the update is far too small
    assert scale(1e-6, 0.5) == pytest.approx(0.515)
    assert scale(1.0, 1.0) == pytest.approx(1 / 1.03)
