"""The only ways in which parameters change.  Objectives are maximised; the sign is turned here and nowhere else."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jax.flatten_util import ravel_pytree

from toppo.maths.advantages import standardise
from toppo.maths.surrogates import total_variation
from toppo.types import Common, Improved, Problem, Sample


class Ascent(NamedTuple):
    """Result of ``adam_epochs``: parameters, optimiser, epochs run, and means over the last epoch."""

    params: Any
    opt: Any
    epochs: Array
    objective: Array
    grad_norm: Array


def adam(common: Common) -> optax.GradientTransformation:
    """Adam's direction; the learning rate is applied by the caller, since it may change from update to update."""
    return optax.scale_by_adam(eps=common.adam_eps)


def adam_init(common: Common, params: Any) -> Any:
    """Optimiser state for ``params``, over one flat vector."""
    return adam(common).init(ravel_pytree(params)[0])


def minibatches(order: Array, count: int) -> Array:
    """Cut a permutation [B] into ``count`` equal parts; a smaller remainder is dropped.  -> [count, B // count]"""
    size = order.shape[0] // count
    return order[: size * count].reshape(count, size)


def adam_epochs(
    objective: Callable[[Any, Any], Array],
    params: Any,
    opt: Any,
    data: Any,
    order: Array,
    lr: Array,
    common: Common,
    go_on: Callable[[Any, Array], Array],
    max_grad_norm: float = 0.0,
) -> Ascent:
    """Epochs of minibatch ascent on ``objective(params, minibatch)`` while ``go_on(params, epochs_run)`` holds.

    ``data`` has leaves [B, ...]; ``order`` [epochs, B] holds a permutation per epoch.
    """
    # One flat vector makes Adam a single fused loop: a quarter off the time of an update with small networks.
    theta, unravel = ravel_pytree(params)
    gradient = jax.value_and_grad(lambda flat, batch: objective(unravel(flat), batch))

    def step(carry: tuple[Array, Any], batch: Any) -> tuple[tuple[Array, Any], tuple[Array, Array]]:
        theta, opt = carry
        value, grad = gradient(theta, batch)
        norm = jnp.sqrt(jnp.vdot(grad, grad))
        if max_grad_norm > 0:
            grad = grad * jnp.minimum(1.0, max_grad_norm / (norm + 1e-12))
        direction, opt = adam(common).update(grad, opt)
        return (theta + lr * direction, opt), (value, norm)

    def epoch(carry: tuple[Array, Any, Array, Array, Array]) -> tuple[Array, Any, Array, Array, Array]:
        theta, opt, done, _, _ = carry
        parts = minibatches(order[done], common.minibatches)
        shuffled = jax.tree.map(lambda x: x[parts], data)
        (theta, opt), (values, norms) = jax.lax.scan(step, (theta, opt), shuffled)
        return theta, opt, done + 1, values.mean(), norms.mean()

    def again(carry: tuple[Array, Any, Array, Array, Array]) -> Array:
        theta, _, done, _, _ = carry
        return (done < order.shape[0]) & ((done == 0) | go_on(unravel(theta), done))

    zero = jnp.zeros((), theta.dtype)
    theta, opt, done, value, norm = jax.lax.while_loop(again, epoch, (theta, opt, jnp.asarray(0), zero, zero))
    return Ascent(unravel(theta), opt, done, value, norm)


def measure(problem: Problem, policy: Any) -> tuple[Array, dict[str, Array]]:
    """How far ``policy`` is from pi_k on the active data: total variation, and what to log."""
    sample, net = problem.sample, problem.net
    dist = net.policy(policy, sample.obs)
    ratio = jnp.exp(net.family.log_prob(dist, sample.action) - sample.logp)
    tv = total_variation(ratio, sample.centre, sample.weight)
    outside = jnp.abs(ratio - sample.centre) > problem.clip_eps
    old = 1.0 - sample.newest
    return tv, {
        "train/approx_kl": net.family.kl(sample.dist_k, dist).mean(),
        "train/clip_fraction": (outside * sample.newest).sum() / sample.newest.sum(),
        "train/clip_fraction_old": (outside * old).sum() / jnp.maximum(old.sum(), 1.0),
        "train/entropy_loss": -net.family.entropy(dist).mean(),
        "train/std": net.family.std(dist).mean(),
    }


def adam_improve(problem: Problem, surrogate: Callable[[Sample, Array], Array], early_stop: bool) -> Improved:
    """Adam epochs on the mean of ``surrogate(sample, ratio)`` with standardised advantages (1.6 of the paper's code).

    ``early_stop`` ends the epochs once the total variation from pi_k exceeds clip_eps / 2.
    """
    net, common = problem.net, problem.common

    def objective(policy: Any, batch: Sample) -> Array:
        dist = net.policy(policy, batch.obs)
        ratio = jnp.exp(net.family.log_prob(dist, batch.action) - batch.logp)
        batch = batch._replace(adv=standardise(batch.adv, batch.centre * batch.weight))
        bonus = common.entropy_coef * net.family.entropy(dist).mean() if common.entropy_coef else 0.0
        return jnp.mean(batch.weight * surrogate(batch, ratio)) + bonus

    def inside(policy: Any, _: Array) -> Array:
        return measure(problem, policy)[0] <= problem.clip_eps / 2

    done = adam_epochs(
        objective,
        problem.policy,
        problem.opt,
        problem.sample,
        problem.order,
        problem.lr,
        common,
        inside if early_stop else lambda policy, epochs: jnp.asarray(True),
        common.max_grad_norm,
    )
    tv, report = measure(problem, done.params)
    report |= {"train/policy_gradient_loss": -done.objective, "train/grad_norm_policy": done.grad_norm}
    return Improved(done.params, done.opt, done.epochs, tv, report)


def adapt_lr(lr_scale: Array, tv: Array, clip_eps: Array) -> Array:
    """Shrink the factor by 1.03 when TV > eps/2, grow it by 1.03 when TV < eps/4."""
    bound = clip_eps / 2
    return jnp.where(tv > bound, lr_scale / 1.03, jnp.where(tv < 0.5 * bound, lr_scale * 1.03, lr_scale))
