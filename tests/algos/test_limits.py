"""Limits between siblings: with the newest batch only, the off-policy members are PPO and TRPO, bit for bit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support.problems import random_problem
from tests.support.training import learned, on_host, parameters, setup_for, shared_programs, train_all, trained
from toppo.algos import REGISTRY
from toppo.algos.disc import DISCConfig
from toppo.algos.oppo import OffPolicyPPOConfig
from toppo.algos.otrpo import OffPolicyTRPOConfig
from toppo.algos.ppo import PPOConfig
from toppo.algos.toppo import ToPPOConfig
from toppo.algos.trpo import TRPOConfig
from toppo.maths.trust_region import radius_after_drift


@pytest.fixture(scope="module")
def ppo_turns():
    return trained("ppo")


@pytest.fixture(scope="module")
def trpo_turns():
    return trained("trpo")


@pytest.mark.parametrize(
    ("algo", "settings"),
    [
        ("geppo", {"mean_age": 1.0, "adapt_lr": False}),
        ("oppo", {"n_old": 0}),
        ("oppo", {"n_policies": 1}),
        ("toppo", {"alpha": 0.0, "early_stop": False}),
        ("toppo", {"alpha": 0.0, "early_stop": False, "recompute_adv": True, "vtrace": True}),
    ],
)
def test_without_old_data_it_is_ppo(ppo_turns, algo, settings):
    turns = trained(algo, clip_range=0.2, **settings)
    assert parameters(turns) == parameters(ppo_turns)
    assert [t.metrics["train/policy_gradient_loss"] for t in turns] == [
        t.metrics["train/policy_gradient_loss"] for t in ppo_turns
    ]


LABELS = {
    "vtrace": {"recompute_adv": True, "vtrace": True},
    "newest critic": {"recompute_adv": True, "vtrace": False},
    "frozen": {"recompute_adv": False, "vtrace": False},
}


def trained_on_two_batches(algo, labels):
    """The newest batch and the one before it, with equal weights: there the draws of both algorithms are the same."""
    own = {
        "geppo": {"mean_age": 1.5, "uniform": True, "adapt_lr": False, "clip_range": 0.15},
        "toppo": {"n_policies": 2, "select": False, "early_stop": False, "clip_range": 0.15 / 1.5},
    }
    return trained(algo, **own[algo], **LABELS[labels])


@pytest.mark.parametrize("labels", LABELS)
def test_with_the_same_labels_on_the_same_two_batches_geppo_is_toppo(labels):
    assert learned(trained_on_two_batches("geppo", labels)) == learned(trained_on_two_batches("toppo", labels))


def test_the_three_labels_are_not_the_same():
    assert len({learned(trained_on_two_batches("toppo", labels)) for labels in LABELS}) == 3


@pytest.mark.parametrize("settings", [{"n_old": 0}, {"n_policies": 1, "adapt_radius": True}])
def test_without_old_data_otrpo_is_trpo(trpo_turns, settings):
    assert parameters(trained("otrpo", **settings)) == parameters(trpo_turns)


def test_without_old_data_toppos_trust_region_is_trpo(trpo_turns):
    turns = trained("toppo", alpha=0.0, improve="trust_region", delta=0.01)
    for a, b in zip(*(jax.tree.leaves(t[-1].state.learner.params) for t in (turns, trpo_turns)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_old_data_make_a_difference(ppo_turns):
    assert learned(trained("oppo")) != learned(ppo_turns)


@pytest.mark.parametrize("algo", ["oppo", "disc"])
def test_the_centre_is_exactly_one_on_the_newest_batch(algo):
    setup = setup_for(algo, iterations=2)
    state = train_all(setup)[-1].state
    programs = shared_programs(setup)
    memory = state.memory
    sample = programs.prepare(state.learner.params, memory[-1], jnp.float32(1), jnp.zeros_like(memory[-1].adv))
    assert np.all(np.asarray(sample.centre) == 1.0)
    older = programs.prepare(state.learner.params, memory[-1], jnp.float32(1), None)
    assert np.any(np.asarray(older.centre) != 1.0)


def objective_of(algo, config, problem):
    """The value of the objective after the first step, which the second epoch reports."""
    chosen = REGISTRY[algo]
    problem = problem._replace(opt=chosen.init_opt(config, problem.common, problem.policy))

    def improve(policy, opt, sample, order, lr):
        return chosen.improve(config, problem._replace(policy=policy, opt=opt, sample=sample, minibatches=order, lr=lr))

    arguments = (problem.policy, problem.opt, problem.sample, problem.minibatches, problem.lr)
    return on_host(jax.jit(improve)(*arguments))


def test_disc_with_one_dimension_is_ppo_up_to_the_mean_weight():
    problem = random_problem(64, dims=1, n_epochs=2)._replace(lr=np.float32(0.02), clip_eps=np.float32(0.2))
    first = problem._replace(minibatches=problem.minibatches[:1], common=random_problem(64, dims=1).common)
    one = objective_of("ppo", PPOConfig(), first)  # the policy after one step, where the ratio is no longer 1
    ppo = objective_of("ppo", PPOConfig(), problem)
    sample, net = problem.sample, problem.net
    ratio = np.exp(np.asarray(net.family.log_prob(net.policy(one.policy, sample.obs), sample.action)) - sample.logp)
    adv = (sample.adv - sample.adv.mean()) / sample.adv.std()
    weight = np.where(adv > 0, np.minimum(ratio, 1.2), np.maximum(ratio, 0.8))
    assert np.any(weight != ratio)
    np.testing.assert_allclose(-ppo.report["train/policy_gradient_loss"], (weight * adv).mean(), rtol=1e-4, atol=1e-6)
    # DISC's own first step is another one: divide by the mean weight at the same policy instead.
    moved = first._replace(policy=one.policy, lr=np.float32(0.0))
    disc = objective_of("disc", DISCConfig(alpha_is=0.0), moved)
    expected = (weight * adv).mean() / weight.mean()
    np.testing.assert_allclose(-disc.report["train/policy_gradient_loss"], expected, rtol=1e-4, atol=1e-6)


def naive_standardised(sample, product):
    m = (product * sample.adv).mean() / product.mean()
    return (sample.adv - m) / ((product * sample.adv).std() + 1e-8)


@pytest.mark.parametrize("algo", ["toppo", "geppo", "oppo"])
def test_the_objective_is_the_papers_sum(algo):
    """Value at a policy away from pi_k, on a mix of new and old data with unequal weights, in naive float64."""
    problem = random_problem(24, 40)._replace(clip_eps=np.float32(0.1), lr=np.float32(0.0))
    sample = problem.sample._replace(weight=np.where(problem.sample.newest == 1, 1.6, 0.64).astype(np.float32))
    away = jax.tree.map(lambda x: np.asarray(x + 0.05, np.float32), problem.policy)
    given = problem._replace(sample=sample, policy=away)
    config = {"toppo": ToPPOConfig(early_stop=False), "oppo": OffPolicyPPOConfig()}.get(algo, REGISTRY[algo].config())
    value = -objective_of(algo, config, given).report["train/policy_gradient_loss"]
    s = type(sample)(*(np.asarray(x, np.float64) if not isinstance(x, tuple) else x for x in sample))
    dist = problem.net.policy(away, sample.obs)
    ratio = np.exp(np.asarray(problem.net.family.log_prob(dist, sample.action), np.float64) - s.logp)
    adv = naive_standardised(s, s.centre * s.weight)
    low, high = ((1 - 0.1) * s.centre, (1 + 0.1) * s.centre) if algo == "oppo" else (s.centre - 0.1, s.centre + 0.1)
    terms = []
    for r, lo, hi, a, w in zip(ratio, low, high, adv, s.weight, strict=True):
        terms.append(w * min(r * a, min(max(r, lo), hi) * a))
    np.testing.assert_allclose(value, np.mean(terms), rtol=1e-4, atol=1e-6)


def test_toppos_trust_region_reckons_with_the_drift_of_the_data():
    problem = random_problem(40, 40)
    improved = objective_of("toppo", ToPPOConfig(improve="trust_region", delta=0.2), problem)
    assert improved.report["train/radius"] < 0.19  # the data are at a distance from pi_k already
    sample, net = problem.sample, problem.net
    kl = net.family.kl(sample.dist_mu, net.policy(improved.policy, sample.obs)).mean()
    np.testing.assert_allclose(improved.report["train/divergence"], kl, rtol=1e-4)


def test_the_radius_after_a_drift():
    radius = [round(float(radius_after_drift(0.01, jnp.float32(b))), 4) for b in (0.0, 0.005, 0.01, 0.03)]
    assert radius == [0.01, 0.005, 0.0038, 0.0021]
    for b in (0.002, 0.02):
        x = np.sqrt(float(radius_after_drift(0.01, jnp.float32(b))))
        assert (np.sqrt(b) + x) * x == pytest.approx(0.01, rel=1e-3)


def test_the_adaptive_radius_is_the_one_that_is_used():
    problem = random_problem(40, 40)
    drift = np.asarray(problem.net.family.kl(problem.sample.dist_mu, problem.sample.dist_k)).mean()
    improved = objective_of("otrpo", OffPolicyTRPOConfig(adapt_radius=True), problem)
    radius = float(radius_after_drift(0.01, jnp.float32(drift)))
    assert radius < 0.009
    np.testing.assert_allclose(improved.report["train/radius"], radius, rtol=1e-5)
    assert objective_of("trpo", TRPOConfig(), problem).report["train/radius"] == np.float32(0.01)


@pytest.mark.parametrize("algo", ["toppo", "oppo", "disc"])
def test_the_clip_fractions_count_what_ended_outside_the_range(algo):
    """Counted in naive float64 at a policy that does not move, on samples of which some are old and far."""
    problem = random_problem(60, 80)._replace(clip_eps=np.float32(0.2), lr=np.float32(0.0))
    away = jax.tree.map(lambda x: np.asarray(x + 0.05, np.float32), problem.policy)
    report = objective_of(algo, REGISTRY[algo].config(), problem._replace(policy=away)).report
    s, net = problem.sample, problem.net
    log_prob, dist = net.family.log_prob_per_dimension, net.policy(away, s.obs)
    rho = np.exp(np.asarray(log_prob(dist, s.action) - log_prob(s.dist_mu, s.action), np.float64))
    ratio, centre = rho.prod(-1), np.asarray(s.centre, np.float64)
    outside = {
        "toppo": np.abs(ratio - centre) > 0.2,
        "oppo": np.abs(ratio / centre - 1) > 0.2,
        "disc": (np.abs(rho - 1) > 0.2).any(-1),
    }
    assert len({x.tobytes() for x in outside.values()}) == 3  # the three ranges are not the same
    assert report["train/clip_fraction"] == pytest.approx(outside[algo][:60].mean())
    assert report["train/clip_fraction_old"] == pytest.approx(outside[algo][60:].mean())
