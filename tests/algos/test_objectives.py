"""Small parts of the algorithms, by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support.problems import random_problem
from toppo.algos import REGISTRY, oppo, toppo
from toppo.algos.contract import CriticProblem, Trajectory
from toppo.algos.optimise import adam_init, fit_least_squares
from toppo.algos.steps import newest_and_random
from toppo.maths.advantages import gae, vtrace


def value_at_pi_k(algo, **settings):
    """The objective at a policy that does not move, and the policy's mean entropy."""
    problem = random_problem(24, 8, **settings)._replace(lr=jnp.float32(0.0))
    chosen = REGISTRY[algo]
    config = chosen.config()
    problem = problem._replace(opt=chosen.init_opt(config, problem.common, problem.policy))
    update = jax.jit(lambda sample: chosen.improve(config, problem._replace(sample=sample)))(problem.sample)
    entropy = problem.net.family.entropy(problem.net.policy(problem.policy, problem.sample.obs)).mean()
    return -float(update.report["train/policy_gradient_loss"]), float(entropy)


@pytest.mark.parametrize("algo", ["ppo", "disc"])
def test_entropy_is_added_to_what_is_maximised(algo):
    without, entropy = value_at_pi_k(algo)
    with_bonus, _ = value_at_pi_k(algo, ent_coef=0.1)
    assert entropy > 0.5
    assert with_bonus - without == pytest.approx(0.1 * entropy, rel=1e-4)


def test_the_critic_fits_weighted_squares():
    p = random_problem(24, 8)
    weight = jnp.where(p.sample.newest == 1, 1.6, 0.4)
    critic = p.net.init(0).value
    problem = CriticProblem(
        common=p.common,
        net=p.net,
        critic=critic,
        opt=adam_init(p.common, critic),
        sample=p.sample._replace(weight=weight),
        minibatches=p.minibatches,
        lr=jnp.float32(0.0),
        epochs=jnp.int32(1),
        clip_range=0.0,
    )
    error = np.asarray(p.sample.ret, np.float64) - np.asarray(p.net.value(critic, p.sample.obs), np.float64)
    expected = -0.5 * np.mean(np.asarray(weight) * error**2)
    assert float(fit_least_squares(problem).objective) == pytest.approx(expected, rel=1e-5)


def test_toppos_adaptive_clip_range_is_that_of_lemma_4_1():
    config = toppo.ToPPOConfig(clip_range=0.1, adapt_eps=True)
    drawn = [toppo.draw(config, tuple(range(size)), [0.0] * size, 0.0, np.random.default_rng(0)) for size in (1, 2, 4)]
    assert [d.clip_eps for d in drawn] == pytest.approx([0.2, 0.8 / 6, 0.1])


def test_old_batches_are_drawn_once_each_and_never_the_newest():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        newest, *old = newest_and_random((0, 1, 2, 3), 2, rng)
        assert newest == 3
        assert len(set(old)) == 2
        assert set(old) <= {0, 1, 2}
        assert sorted(newest_and_random((0, 1, 2, 3), 9, rng)) == [0, 1, 2, 3]


@pytest.mark.parametrize("corrected", [False, True])
def test_off_policy_ppo_corrects_traces_only_if_asked(corrected):
    rng = np.random.default_rng(0)
    reward, value, next_value, ratio = jnp.asarray(rng.random((4, 6, 2)), jnp.float32)
    ends = {"terminated": reward < 0.1, "ended": reward < 0.3}
    path = Trajectory(
        reward=reward, value=value, next_value=next_value, **ends, ratio=ratio, gamma=0.9, lam=0.8, after=jnp.zeros(2)
    )
    found = oppo.label(oppo.OffPolicyPPOConfig(vtrace=corrected), path)
    by_gae = gae(reward, value, next_value, **ends, gamma=0.9, lam=0.8)
    by_vtrace = vtrace(reward, value, next_value, **ends, ratio=ratio, gamma=0.9, lam=0.8)
    assert not np.allclose(by_gae[0], by_vtrace[0])
    np.testing.assert_array_equal(found, by_vtrace if corrected else by_gae)
