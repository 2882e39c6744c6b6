"""The only ways in which parameters change.  Objectives are maximised; the sign is turned here and nowhere else."""

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jax.flatten_util import ravel_pytree

from toppo.algos.contract import AdamResult, CriticProblem, PolicyProblem, PolicyUpdate, Sample, Tree
from toppo.algos.settings import Common
from toppo.maths.advantages import standardise
from toppo.maths.surrogates import linear, total_variation
from toppo.maths.trust_region import backtrack, bounded_step, conjugate_gradient, fisher_vector_product

MAX_NARROW = 64  # numbers of a sample

Surrogate = Callable[[Array, Array, Array, Array], Array]
"""ratio, centre, advantage [B], clip_eps [] -> [B], to be maximised"""


def adam(common: Common) -> optax.GradientTransformation:
    """Return Adam without its learning rate: the caller applies that, because it may change from update to update."""
    return optax.scale_by_adam(eps=common.adam_eps)


def adam_init(common: Common, params: Tree) -> Tree:
    """Return the optimiser's state for ``params``, over one flat vector."""
    return adam(common).init(ravel_pytree(params)[0])


def adam_epochs(
    objective: Callable[[Tree, Tree], tuple[Array, Tree]],
    params: Tree,
    problem: PolicyProblem | CriticProblem,
    data: Tree,
    lr: Array,
    should_continue: Callable[[Tree, Array], Array] | None = None,
    max_grad_norm: float = 0.0,
) -> AdamResult:
    """Take epochs of ascent on ``objective(params, minibatch)``, with the problem's optimiser and minibatches.

    The objective returns its value, and anything else of which the mean over all steps is wanted.  ``data`` has leaves
    [B, ...].  After every epoch ``should_continue(params, epochs)`` decides whether there is another one.
    """
    minibatches = problem.minibatches
    optimiser = adam(problem.common)
    # One flat vector makes Adam a single fused loop: a quarter off the time of an update with small networks.
    theta, unravel = ravel_pytree(params)
    gradient = jax.value_and_grad(lambda flat, batch: objective(unravel(flat), batch), has_aux=True)

    leaves, structure = jax.tree.flatten(data)

    def step(
        carry: tuple[Array, Tree], given: tuple[Array, Tree]
    ) -> tuple[tuple[Array, Tree], tuple[Array, Array, Tree]]:
        theta, opt = carry
        rows, narrow = given
        # A minibatch of wide rows stays in the processor's cache; a shuffled copy of all of them would not.
        found = [x[rows] if is_wide(x) else part for x, part in zip(leaves, narrow, strict=True)]
        batch = jax.tree.unflatten(structure, found)
        (value, extra), grad = gradient(theta, batch)
        norm = jnp.sqrt(jnp.vdot(grad, grad))
        if max_grad_norm > 0:
            grad = grad * jnp.minimum(1.0, max_grad_norm / (norm + 1e-12))
        direction, opt = optimiser.update(grad, opt)
        return (theta + lr * direction, opt), (value, norm, extra)

    def epoch(result: AdamResult) -> AdamResult:
        rows = minibatches[result.epochs]
        narrow = [None if is_wide(x) else x[rows] for x in leaves]
        (theta, opt), (values, norms, extras) = jax.lax.scan(step, (result.params, result.opt), (rows, narrow))
        extra = jax.tree.map(lambda mean, x: mean + (x.mean() - mean) / (result.epochs + 1), result.extra, extras)
        return AdamResult(
            params=theta,
            opt=opt,
            epochs=result.epochs + 1,
            objective=values.mean(),
            grad_norm=norms.mean(),
            extra=extra,
        )

    def is_unfinished(result: AdamResult) -> Array:
        more: Array = result.epochs < len(minibatches)
        if should_continue is None:
            return more
        return more & ((result.epochs == 0) | should_continue(unravel(result.params), result.epochs))

    zero = jnp.zeros((), theta.dtype)
    extra = jax.eval_shape(lambda: objective(params, jax.tree.map(lambda x: x[minibatches[0, 0]], data))[1])
    before = AdamResult(
        params=theta,
        opt=problem.opt,
        epochs=jnp.asarray(0),
        objective=zero,
        grad_norm=zero,
        extra=jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), extra),
    )
    result = jax.lax.while_loop(is_unfinished, epoch, before)
    return result._replace(params=unravel(result.params))


def is_wide(x: Array) -> bool:
    """Has each sample more numbers than a minibatch of them could keep in a processor's cache with all others?"""
    return x[0].size > MAX_NARROW


def measured_update(problem: PolicyProblem, policy: Tree) -> tuple[PolicyUpdate, Array]:
    """Return a new policy with its distance from pi_k and what to log; also pi/mu of every sample [B]."""
    sample = problem.sample
    net = problem.net
    dist = net.in_chunks(net.policy, policy, sample.obs)
    ratio = jnp.exp(net.family.log_prob(dist, sample.action) - sample.logp)
    update = PolicyUpdate(
        policy=policy,
        opt=problem.opt,
        lr_scale=problem.lr_scale,
        epochs=jnp.asarray(problem.common.n_epochs),
        tv=total_variation(ratio, sample.centre, sample.weight),
        dist=dist if net.joint else None,
        report={
            "train/approx_kl": net.family.kl(sample.dist_k, dist).mean(),
            "train/entropy_loss": -net.family.entropy(dist).mean(),
            "train/std": net.family.std(dist).mean(),
        },
    )
    return update, ratio


def clip_fractions(sample: Sample, clipped: Array) -> dict[str, Array]:
    """Return the fractions of the newest and of the old samples that are ``clipped`` [B]."""
    old = (1.0 - sample.newest) * (sample.weight > 0)
    return {
        "train/clip_fraction": (clipped * sample.newest).sum() / sample.newest.sum(),
        "train/clip_fraction_old": (clipped * old).sum() / jnp.maximum(old.sum(), 1.0),
    }


def entropy_bonus(problem: PolicyProblem, dist: Tree) -> Array | float:
    """ent_coef * mean entropy"""
    coef = problem.ent_coef
    return coef * problem.net.family.entropy(dist).mean() if isinstance(coef, Array) or coef else 0.0


def adam_update(
    problem: PolicyProblem,
    surrogate: Surrogate,
    early_stop: bool = False,
    adapt_lr: bool = False,
    max_lr_scale: float = math.inf,
    std_on_old: bool = True,
) -> PolicyUpdate:
    """Take Adam epochs on the mean of a surrogate, with advantages standardised per minibatch.

    ``early_stop`` ends the epochs once the total variation from pi_k exceeds clip_eps / 2; ``adapt_lr`` lets it move
    the factor of the learning rate, up to ``max_lr_scale``.  Without ``std_on_old`` the standard deviation of a
    Gaussian learns from the newest batch alone, entropy bonus included.  If policy and critic share a trunk, the
    critic's loss is part of the objective.
    """
    net = problem.net
    common = problem.common

    def mean_surrogate(dist: Tree, batch: Sample) -> Array:
        if not std_on_old:
            dist = net.family.fixed_std(dist, batch.newest == 0)
        ratio = jnp.exp(net.family.log_prob(dist, batch.action) - batch.logp)
        adv = standardise(batch.adv, batch.centre * batch.weight)
        gain = surrogate(ratio, batch.centre, adv, problem.clip_eps)
        return jnp.mean(batch.weight * gain) + entropy_bonus(problem, dist)

    def objective(policy: Tree, batch: Sample) -> tuple[Array, Tree]:
        if net.joint is None:
            return mean_surrogate(net.policy(policy, batch.obs), batch), ()
        dist, value = net.joint(policy, batch.obs)
        gain = mean_surrogate(dist, batch)
        loss = jnp.mean(batch.weight * squared_error(value, batch.ret, batch.value, common.clip_range_vf))
        return gain - common.vf_coef * loss, (gain, loss)

    def within_tv_bound(policy: Tree, epochs: Array) -> Array:
        return measured_update(problem, policy)[0].tv <= problem.clip_eps / 2

    data = problem.sample._replace(dist_k=None, dist_mu=None)
    lr = problem.lr * problem.lr_scale
    should_continue = within_tv_bound if early_stop else None
    result = adam_epochs(objective, problem.policy, problem, data, lr, should_continue, common.max_grad_norm)
    update, ratio = measured_update(problem, result.params)
    is_clipped = changes(surrogate, ratio, problem.sample.centre, problem.clip_eps)
    report = update.report | clip_fractions(problem.sample, is_clipped)
    report |= {"train/policy_gradient_loss": -result.objective, "train/grad_norm_policy": result.grad_norm}
    if net.joint:
        report |= {"train/policy_gradient_loss": -result.extra[0], "train/value_loss": result.extra[1]}
    lr_scale = problem.lr_scale
    if adapt_lr:
        lr_scale = adapted_lr(lr_scale, update.tv, problem.clip_eps, max_lr_scale)
    return update._replace(opt=result.opt, lr_scale=lr_scale, epochs=result.epochs, report=report)


def changes(surrogate: Surrogate, ratio: Array, centre: Array, clip_eps: Array) -> Array:
    """Return where a surrogate is not r A, for an advantage of 1 or of -1: there the ratio is clipped.  [B] -> [B]"""
    one = jnp.ones_like(ratio)
    above = surrogate(ratio, centre, one, clip_eps) != ratio
    below = surrogate(ratio, centre, -one, clip_eps) != -ratio
    return above | below


def adapted_lr(lr_scale: Array, tv: Array, clip_eps: Array, largest: float = math.inf) -> Array:
    """Divide the factor by 1.03 when TV > eps/2, multiply it by 1.03 when TV < eps/4."""
    bound = clip_eps / 2
    raised = jnp.minimum(lr_scale * 1.03, largest)
    return jnp.where(tv > bound, lr_scale / 1.03, jnp.where(tv < 0.5 * bound, raised, lr_scale))


class TrustRegion(NamedTuple):
    """A bound on the mean KL, and how the step under it is found."""

    delta: float | Array
    cg_iterations: int = 20
    damping: float = 0.01
    slack: float = 1.5
    shrink: float = 2**-0.5
    backtracks: int = 10


def trust_region_update(problem: PolicyProblem, region: TrustRegion, from_mu: bool = False) -> PolicyUpdate:
    """Take one step to  max mean( w r A )  subject to  mean( w KL(pi_k || pi) ) <= delta.

    Advantages are standardised once.  With ``from_mu`` the bound is on KL(mu || pi), which is not 0 at pi_k if the data
    are older.  The step is the natural gradient's, shortened until the KL is at most ``slack`` delta and the surrogate
    is not lower than before.
    """
    sample = problem.sample
    net = problem.net
    theta, unravel = ravel_pytree(problem.policy)
    adv = standardise(sample.adv, sample.centre * sample.weight)

    def mean_surrogate(theta: Array) -> Array:
        dist = net.policy(unravel(theta), sample.obs)
        ratio = jnp.exp(net.family.log_prob(dist, sample.action) - sample.logp)
        return jnp.mean(sample.weight * linear(ratio, adv)) + entropy_bonus(problem, dist)

    def mean_kl_from(start: Tree) -> Callable[[Array], Array]:
        return lambda theta: jnp.mean(sample.weight * net.family.kl(start, net.policy(unravel(theta), sample.obs)))

    product = fisher_vector_product(mean_kl_from(sample.dist_k), theta, region.damping)
    mean_kl = mean_kl_from(sample.dist_mu if from_mu else sample.dist_k)
    before, gradient = jax.value_and_grad(mean_surrogate)(theta)
    cost = jax.value_and_grad(mean_kl)(theta) if from_mu else ()
    solve = partial(conjugate_gradient, product, iterations=region.cg_iterations)
    direction, room = bounded_step(product, solve, gradient, region.delta, *cost)

    def is_acceptable(theta: Array) -> Array:
        ok: Array = (mean_kl(theta) <= region.slack * region.delta) & (mean_surrogate(theta) >= before)
        return ok

    found = backtrack(is_acceptable, theta, direction, region.shrink, region.backtracks)
    policy = unravel(found.theta)
    update, _ = measured_update(problem, policy)
    report = update.report | {
        "train/accepted": jnp.any(found.theta != theta).astype(theta.dtype),
        "train/backtracks": found.tried - 1,
        "train/divergence": mean_kl(found.theta),
        "train/grad_norm_policy": jnp.sqrt(jnp.vdot(gradient, gradient)),
        "train/policy_gradient_loss": -mean_surrogate(found.theta),
        "train/radius": room,
        "train/surrogate_gain": mean_surrogate(found.theta) - before,
    }
    return update._replace(report=report)


def fit_least_squares(problem: CriticProblem) -> AdamResult:
    """Fit the critic for as many epochs as the policy took: ascent on -0.5 mean( w (R - V)^2 )."""
    sample = problem.sample

    def objective(critic: Tree, batch: tuple[Tree, Array, Array]) -> tuple[Array, tuple[()]]:
        obs, ret, weight = batch
        return -0.5 * jnp.mean(weight * jnp.square(ret - problem.net.value(critic, obs))), ()

    return _fit(problem, objective, (sample.obs, sample.ret, sample.weight))


def fit_clipped_least_squares(problem: CriticProblem) -> AdamResult:
    """Ascent on -vf_coef mean( w max( (V - R)^2, (V_k + clip(V - V_k, -eps, eps) - R)^2 ) ) / (2 mean w)."""
    sample = problem.sample
    net = problem.net

    def objective(critic: Tree, batch: tuple[Tree, Array, Array, Array]) -> tuple[Array, tuple[()]]:
        obs, ret, weight, before = batch
        loss = squared_error(net.value(critic, obs), ret, before, problem.clip_range)
        return -problem.common.vf_coef * jnp.mean(weight * loss) / weight.mean(), ()

    before = net.in_chunks(net.value, problem.critic, sample.obs)
    return _fit(problem, objective, (sample.obs, sample.ret, sample.weight, before))


def squared_error(value: Array, ret: Array, before: Array, clip_eps: Array | float) -> Array:
    """0.5 max( (V - R)^2, (V_k + clip(V - V_k, -eps, eps) - R)^2 ), or 0.5 (V - R)^2 if eps is 0."""
    error = jnp.square(value - ret)
    if isinstance(clip_eps, Array) or clip_eps > 0:
        near = before + jnp.clip(value - before, -clip_eps, clip_eps)
        error = jnp.maximum(error, jnp.square(near - ret))
    return 0.5 * error


def _fit(problem: CriticProblem, objective: Callable[[Tree, Tree], tuple[Array, Tree]], data: Tree) -> AdamResult:
    def should_continue(critic: Tree, epochs: Array) -> Array:
        return epochs < problem.epochs

    return adam_epochs(objective, problem.critic, problem, data, problem.lr, should_continue)
