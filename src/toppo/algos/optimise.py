"""The only ways in which parameters change.  Objectives are maximised; the sign is turned here and nowhere else."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from jax.flatten_util import ravel_pytree

from toppo.algos.contract import AdamResult, CriticProblem, PolicyProblem, PolicyUpdate, Sample
from toppo.algos.settings import Common
from toppo.learn.nets import apply_in_chunks
from toppo.maths.advantages import standardise
from toppo.maths.surrogates import clipped, linear, total_variation
from toppo.maths.trust_region import backtrack, bounded_step, conjugate_gradient, fisher_vector_product


def adam(common: Common) -> optax.GradientTransformation:
    """Adam's direction; the learning rate is applied by the caller, since it may change from update to update."""
    return optax.scale_by_adam(eps=common.adam_eps)


def adam_init(common: Common, params: Any) -> Any:
    """Optimiser state for ``params``, over one flat vector."""
    return adam(common).init(ravel_pytree(params)[0])


def permutations(common: Common, size: int, rng: np.random.Generator) -> np.ndarray:
    """A permutation of ``size`` samples per epoch, cut into equal minibatches; a smaller remainder is dropped.

    -> [epochs, minibatches, size // minibatches]
    """
    rows = rng.permuted(np.tile(np.arange(size, dtype=np.int32), (common.n_epochs, 1)), axis=1)
    part = size // common.n_minibatches
    return rows[:, : part * common.n_minibatches].reshape(common.n_epochs, common.n_minibatches, part)


def adam_epochs(
    objective: Callable[[Any, Any], tuple[Array, Any]],
    params: Any,
    opt: Any,
    data: Any,
    order: Array,
    lr: Array,
    common: Common,
    go_on: Callable[[Any, Array], Array],
    max_grad_norm: float = 0.0,
) -> AdamResult:
    """Epochs of minibatch ascent on ``objective(params, minibatch)`` while ``go_on(params, epochs_run)`` holds.

    The objective gives its value and anything else worth a mean over all steps.  ``data`` has leaves [B, ...] and
    ``order`` [epochs, minibatches, size] holds indices into them.
    """
    # One flat vector makes Adam a single fused loop: a quarter off the time of an update with small networks.
    theta, unravel = ravel_pytree(params)
    gradient = jax.value_and_grad(lambda flat, batch: objective(unravel(flat), batch), has_aux=True)

    def step(carry: tuple[Array, Any], batch: Any) -> tuple[tuple[Array, Any], tuple[Array, Array, Any]]:
        theta, opt = carry
        (value, extra), grad = gradient(theta, batch)
        norm = jnp.sqrt(jnp.vdot(grad, grad))
        if max_grad_norm > 0:
            grad = grad * jnp.minimum(1.0, max_grad_norm / (norm + 1e-12))
        direction, opt = adam(common).update(grad, opt)
        return (theta + lr * direction, opt), (value, norm, extra)

    def epoch(done: AdamResult) -> AdamResult:
        batches = jax.tree.map(lambda x: x[order[done.epochs]], data)
        (theta, opt), (values, norms, extras) = jax.lax.scan(step, (done.params, done.opt), batches)
        extra = jax.tree.map(lambda mean, x: mean + (x.mean() - mean) / (done.epochs + 1), done.extra, extras)
        return AdamResult(theta, opt, done.epochs + 1, values.mean(), norms.mean(), extra)

    def again(done: AdamResult) -> Array:
        return (done.epochs < len(order)) & ((done.epochs == 0) | go_on(unravel(done.params), done.epochs))

    zero = jnp.zeros((), theta.dtype)
    extra = jax.eval_shape(lambda: objective(params, jax.tree.map(lambda x: x[order[0, 0]], data))[1])
    nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), extra)
    done = jax.lax.while_loop(again, epoch, AdamResult(theta, opt, jnp.asarray(0), zero, zero, nothing))
    return done._replace(params=unravel(done.params))


class Measured(NamedTuple):
    """A policy on the active data."""

    tv: Array  # total variation from pi_k
    dist: Any  # its distribution at every state, if it shares a trunk with the critic
    ratio: Array  # pi/mu
    report: dict[str, Array]  # what to log


def measure(problem: PolicyProblem, policy: Any) -> Measured:
    """What has become of the policy, and how far it is from pi_k."""
    sample, net = problem.sample, problem.net
    dist = apply_in_chunks(net.policy, policy, sample.obs)
    ratio = jnp.exp(net.family.log_prob(dist, sample.action) - sample.logp)
    tv = total_variation(ratio, sample.centre, sample.weight)
    report = {
        "train/approx_kl": net.family.kl(sample.dist_k, dist).mean(),
        "train/entropy_loss": -net.family.entropy(dist).mean(),
        "train/std": net.family.std(dist).mean(),
    }
    return Measured(tv, dist if net.joint else None, ratio, report)


def clip_fractions(sample: Sample, outside: Array) -> dict[str, Array]:
    """The part of the newest and of the older samples that ended ``outside`` the clip range [B]."""
    old = (1.0 - sample.newest) * (sample.weight > 0)
    return {
        "train/clip_fraction": (outside * sample.newest).sum() / sample.newest.sum(),
        "train/clip_fraction_old": (outside * old).sum() / jnp.maximum(old.sum(), 1.0),
    }


def adam_improve(
    problem: PolicyProblem, bounds: Callable[[Array, Array], tuple[Array, Array]], early_stop: bool, adapt: bool
) -> PolicyUpdate:
    """Adam epochs on the mean of the clipped surrogate with advantages standardised per minibatch.

    ``bounds(centre, clip_eps)`` is the clip range.  ``early_stop`` ends the epochs once the total variation from pi_k
    exceeds clip_eps / 2; ``adapt`` lets it move the learning rate's factor.  If policy and critic share a trunk, the
    critic's loss is part of the objective.
    """
    net, common = problem.net, problem.common

    def gain(dist: Any, batch: Sample) -> Array:
        ratio = jnp.exp(net.family.log_prob(dist, batch.action) - batch.logp)
        adv = standardise(batch.adv, batch.centre * batch.weight)
        surrogate = clipped(ratio, adv, *bounds(batch.centre, problem.clip_eps))
        bonus = common.ent_coef * net.family.entropy(dist).mean() if common.ent_coef else 0.0
        return jnp.mean(batch.weight * surrogate) + bonus

    def objective(policy: Any, batch: Sample) -> tuple[Array, Any]:
        if net.joint is None:
            return gain(net.policy(policy, batch.obs), batch), ()
        dist, value = net.joint(policy, batch.obs)
        improvement = gain(dist, batch)
        loss = jnp.mean(batch.weight * squared_error(value, batch.ret, batch.value, common.clip_range_vf))
        return improvement - common.vf_coef * loss, (improvement, loss)

    def inside(policy: Any, _: Array) -> Array:
        return measure(problem, policy).tv <= problem.clip_eps / 2

    done = adam_epochs(
        objective,
        problem.policy,
        problem.opt,
        problem.sample._replace(dist_k=None, dist_mu=None),
        problem.order,
        problem.lr * problem.lr_scale,
        common,
        inside if early_stop else always,
        common.max_grad_norm,
    )
    tv, dist, ratio, report = measure(problem, done.params)
    report |= {"train/policy_gradient_loss": -done.objective, "train/grad_norm_policy": done.grad_norm}
    low, high = bounds(problem.sample.centre, problem.clip_eps)
    report |= clip_fractions(problem.sample, (ratio < low) | (ratio > high))
    if net.joint:
        report |= {"train/policy_gradient_loss": -done.extra[0], "train/value_loss": done.extra[1]}
    lr_scale = adapt_lr(problem.lr_scale, tv, problem.clip_eps) if adapt else problem.lr_scale
    return PolicyUpdate(done.params, done.opt, lr_scale, done.epochs, tv, dist, report)


def always(params: Any, epochs: Array) -> Array:
    """Go on with the epochs, whatever happens."""
    return jnp.asarray(True)


def adapt_lr(lr_scale: Array, tv: Array, clip_eps: Array) -> Array:
    """Shrink the factor by 1.03 when TV > eps/2, grow it by 1.03 when TV < eps/4."""
    bound = clip_eps / 2
    return jnp.where(tv > bound, lr_scale / 1.03, jnp.where(tv < 0.5 * bound, lr_scale * 1.03, lr_scale))


def adapt_penalty(alpha: Array, penalty: Array, target: float) -> Array:
    """Double a penalty's weight when the penalty is above 1.5 target, halve it when below target / 1.5; 0 stays 0."""
    factor = jnp.where(penalty > 1.5 * target, 2.0, jnp.where(penalty < target / 1.5, 0.5, 1.0))
    return jnp.where(alpha > 0, jnp.clip(alpha * factor, 2.0**-10, 64.0), 0.0)


class TrustRegion(NamedTuple):
    """A bound on the mean KL, and how the step under it is found."""

    delta: float | Array
    cg_iterations: int = 20
    damping: float = 0.01
    slack: float = 1.5
    shrink: float = 2**-0.5
    backtracks: int = 10


def trust_region_improve(problem: PolicyProblem, region: TrustRegion, from_mu: bool = False) -> PolicyUpdate:
    """One step to  max mean( w r A )  subject to  mean( w KL(pi_k || pi) ) <= delta,  advantages standardised once.

    With ``from_mu`` the bound is on KL(mu || pi), which is not 0 at pi_k where the data are older.  The step is the
    natural gradient's, shortened until the KL is at most ``slack`` delta and the surrogate no worse than before.
    """
    sample, net, common = problem.sample, problem.net, problem.common
    theta, unravel = ravel_pytree(problem.policy)
    adv = standardise(sample.adv, sample.centre * sample.weight)

    def surrogate(theta: Array) -> Array:
        dist = net.policy(unravel(theta), sample.obs)
        ratio = jnp.exp(net.family.log_prob(dist, sample.action) - sample.logp)
        bonus = common.ent_coef * net.family.entropy(dist).mean() if common.ent_coef else 0.0
        return jnp.mean(sample.weight * linear(ratio, adv)) + bonus

    def divergence_from(start: Any) -> Callable[[Array], Array]:
        return lambda theta: jnp.mean(sample.weight * net.family.kl(start, net.policy(unravel(theta), sample.obs)))

    product = fisher_vector_product(divergence_from(sample.dist_k), theta, region.damping)
    divergence = divergence_from(sample.dist_mu if from_mu else sample.dist_k)
    before, gradient = jax.value_and_grad(surrogate)(theta)
    drift = jax.value_and_grad(divergence)(theta) if from_mu else ()
    step = bounded_step(
        product, lambda b: conjugate_gradient(product, b, region.cg_iterations), gradient, region.delta, *drift
    )

    def accept(theta: Array) -> Array:
        ok: Array = (divergence(theta) <= region.slack * region.delta) & (surrogate(theta) >= before)
        return ok

    found = backtrack(accept, theta, step.direction, region.shrink, region.backtracks)
    policy = unravel(found.theta)
    tv, dist, _, report = measure(problem, policy)
    report |= {
        "train/accepted": jnp.any(found.theta != theta).astype(theta.dtype),
        "train/backtracks": found.tried - 1,
        "train/divergence": divergence(found.theta),
        "train/grad_norm_policy": jnp.sqrt(jnp.vdot(gradient, gradient)),
        "train/policy_gradient_loss": -surrogate(found.theta),
        "train/radius": step.room,
        "train/surrogate_gain": surrogate(found.theta) - before,
    }
    return PolicyUpdate(policy, problem.opt, problem.lr_scale, jnp.asarray(common.n_epochs), tv, dist, report)


def least_squares(problem: CriticProblem) -> AdamResult:
    """The critic after the same epochs as the policy: ascent on -0.5 mean( w (R - V)^2 )."""
    sample, net = problem.sample, problem.net

    def objective(critic: Any, batch: tuple[Array, Array, Array]) -> tuple[Array, tuple[()]]:
        obs, ret, weight = batch
        return -0.5 * jnp.mean(weight * jnp.square(ret - net.value(critic, obs))), ()

    return regress_on(problem, objective, (sample.obs, sample.ret, sample.weight))


def clipped_least_squares(problem: CriticProblem, clip_eps: float) -> AdamResult:
    """Ascent on -coef mean( w max( (V - R)^2, (V_k + clip(V - V_k, -eps, eps) - R)^2 ) ) / (2 mean w)."""
    sample, net, coef = problem.sample, problem.net, problem.common.vf_coef

    def objective(critic: Any, batch: tuple[Array, Array, Array, Array]) -> tuple[Array, tuple[()]]:
        obs, ret, weight, before = batch
        loss = squared_error(net.value(critic, obs), ret, before, clip_eps)
        return -coef * jnp.mean(weight * loss) / weight.mean(), ()

    before = apply_in_chunks(net.value, problem.critic, sample.obs)
    return regress_on(problem, objective, (sample.obs, sample.ret, sample.weight, before))


def squared_error(value: Array, ret: Array, before: Array, clip_eps: float) -> Array:
    """0.5 max( (V - R)^2, (V_k + clip(V - V_k, -eps, eps) - R)^2 ), or 0.5 (V - R)^2 if eps is 0."""
    error = jnp.square(value - ret)
    if clip_eps > 0:
        near = before + jnp.clip(value - before, -clip_eps, clip_eps)
        error = jnp.maximum(error, jnp.square(near - ret))
    return 0.5 * error


def regress_on(problem: CriticProblem, objective: Callable[[Any, Any], tuple[Array, Any]], data: Any) -> AdamResult:
    """Minibatch ascent of the critic on ``objective(critic, minibatch of data)``, as many epochs as the policy took."""

    def go_on(critic: Any, epochs: Array) -> Array:
        return epochs < problem.epochs

    return adam_epochs(objective, problem.critic, problem.opt, data, problem.order, problem.lr, problem.common, go_on)
