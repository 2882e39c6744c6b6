"""The programs of one iteration, compiled: label, improve the policy, regress the critic, measure KL.

Unless they share a trunk, policy and critic have no parameters in common: their programs can run side by side, and the
next batch be collected as soon as the policy's has ended.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from toppo.algos.contract import (
    AdamResult,
    Algorithm,
    CriticProblem,
    Net,
    Params,
    PolicyProblem,
    PolicyUpdate,
    Sample,
    Scale,
    Segment,
)
from toppo.algos.settings import Common
from toppo.collect.plan import RawBatch
from toppo.learn.nets import LONG_SUM, apply_in_chunks, has_long_sums
from toppo.maths.moments import normalise

# Loops over the arrays of small networks are too short to be shared between threads: on a virtual machine, waking
# the other thread made an update of two layers of 256 take eight times as long, at times.
SINGLE_THREAD_LOOPS = {"xla_disable_hlo_passes": "cpu-parallel-task-assigner"}
# The library that XLA has for sums and products splits long sums between the cores, and other bytes come out.
DETERMINISTIC_SUMS = {"xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT"}


class Update(NamedTuple):
    """A program with gradients: compiled for speed or, where that would depend on the cores, for the same bytes."""

    quick: Callable[..., Any]
    steady: Callable[..., Any]
    whole_batch: bool  # is a gradient over all samples, not over a minibatch?

    def __call__(self, params: Any, opt: Any, sample: Sample, order: Any, *more: Any) -> Any:
        """Run it."""
        samples = len(sample.ret)
        rows = samples if self.whole_batch else order.shape[-1]
        steady = samples > LONG_SUM or has_long_sums(params, rows)
        return (self.steady if steady else self.quick)(params, opt, sample, order, *more)


class Programs(NamedTuple):
    """See the functions of the same names below."""

    label: Callable[..., tuple[Segment, Array, Array]]
    relabel: Callable[..., tuple[Segment, Array, Array]]
    prepare: Callable[..., Sample]
    join: Callable[[tuple[Sample, ...]], Sample]
    improve: Update
    regress: Update
    divergence: Callable[[Any, Segment], Array]
    known_divergence: Callable[[Any, Any, Segment], Array]


def compile_programs(algorithm: Algorithm, config: Any, common: Common, net: Net) -> Programs:
    """The programs of an algorithm; those that see all of a draw compile once per number of batches in it."""

    def see(obs: Array, scale: Scale) -> Any:
        """Stored observations as the networks are given them."""
        return net.see(obs, scale.obs_shift, scale.obs_factor)

    def seen(obs: Array, scale: Scale) -> Any:
        """The same of a batch [T, E, ...], flattened to [B, ...]."""
        return jax.tree.map(flat, see(obs, scale))

    def label(params: Params, raw: RawBatch[Array], scale: Scale, iteration: Array) -> tuple[Segment, Array, Array]:
        """The Segment of a batch that pi_k has just collected, its values [T, E], and their explained variance."""
        dist, value = judge(params, seen(raw.obs, scale))
        logp = net.family.log_prob(dist, flat(raw.action))
        rows = raw.reward.shape
        dist, value, logp = jax.tree.map(lambda x: x.reshape(*rows, *x.shape[1:]), (dist, value, logp))
        empty = jnp.zeros(rows)
        segment = Segment(**raw._asdict(), scale=scale, logp=logp, dist=dist, adv=empty, ret=empty, iteration=iteration)
        adv, ret = estimate(params, segment, value, jnp.ones(rows), jnp.zeros(rows[1:]))
        return segment._replace(adv=adv, ret=ret), value, explained_variance(value, ret)

    def relabel(params: Params, segment: Segment, scale: Scale, after: Array) -> tuple[Segment, Array, Array]:
        """An older batch labelled anew by pi_k and its critic, with the given normaliser and trace from what follows.

        Also the mean over samples and action dimensions of |1 - pi_k/mu|, and the trace for the batch before this one.
        """
        segment = segment._replace(scale=scale)
        action, rows, dist_mu = flat(segment.action), segment.reward.shape, jax.tree.map(flat, segment.dist)
        dist, value = judge(params, seen(segment.obs, scale))
        ratio = jnp.exp(net.family.log_prob(dist, action) - flat(segment.logp)).reshape(rows)
        per_dimension = net.family.log_prob_per_dimension
        gap = jnp.abs(1.0 - jnp.exp(per_dimension(dist, action) - per_dimension(dist_mu, action))).mean()
        adv, ret = estimate(params, segment, value.reshape(rows), ratio, after)
        return segment._replace(adv=adv, ret=ret), gap, jnp.minimum(1.0, ratio[0]) * adv[0]

    def judge(params: Params, obs: Any) -> tuple[Any, Array]:
        """The policy and the value of every state."""
        if net.joint:
            found: tuple[Any, Array] = apply_in_chunks(net.joint, params.policy, obs)
            return found
        return apply_in_chunks(net.policy, params.policy, obs), apply_in_chunks(net.value, params.value, obs)

    def estimate(params: Params, segment: Segment, value: Array, ratio: Array, after: Array) -> tuple[Array, Array]:
        """A and R of a batch whose states have these values.  Each [T, E]"""
        rows, scale, critic = segment.reward.shape, segment.scale, net.critic(params)
        if segment.next_obs.ndim == 3:
            next_value = net.value(critic, seen(segment.next_obs, scale)).reshape(rows)
        else:
            next_value = next_values(value, net.value(critic, see(segment.next_obs, scale)), segment)
        reward = jnp.sign(segment.reward) if common.sign_reward else segment.reward
        reward = normalise(reward, jnp.zeros(()), scale.reward_factor)
        path = (
            reward,
            value,
            next_value,
            segment.terminated,
            segment.ended,
            ratio,
            common.gamma,
            common.gae_lambda,
            after,
        )
        return algorithm.label(config, *path)

    def prepare(params: Params, segment: Segment, weight: Array, value: Array | None) -> Sample:
        """One drawn batch, flattened, with pi_k's log-probabilities; the newest comes with the values of its label."""
        obs = seen(segment.obs, segment.scale)
        action, logp = flat(segment.action), flat(segment.logp)
        dist_mu, newest = jax.tree.map(flat, segment.dist), value is not None
        dist_k, values = judge(params, obs) if value is None else (dist_mu, flat(value))
        # On its own data pi_k is mu, and the centre exactly 1.
        centre = jnp.ones_like(logp) if newest else jnp.exp(net.family.log_prob(dist_k, action) - logp)
        adv, ret, ones = flat(segment.adv), flat(segment.ret), jnp.ones_like(logp)
        before = values if net.joint else ()
        return Sample(obs, action, logp, centre, weight * ones, adv, ret, ones * newest, dist_k, dist_mu, before)

    def join(parts: tuple[Sample, ...]) -> Sample:
        """The drawn batches, one after the other."""
        joined: Sample = jax.tree.map(lambda *xs: jnp.concatenate(xs), *parts)
        return joined

    def improve(
        policy: Any, opt: Any, sample: Sample, order: Array, lr: Array, lr_scale: Array, clip_eps: Array
    ) -> PolicyUpdate:
        """The new policy."""
        return algorithm.improve(config, PolicyProblem(common, net, policy, opt, sample, order, lr, lr_scale, clip_eps))

    def regress(critic: Any, opt: Any, sample: Sample, order: Array, lr: Array, epochs: Array) -> AdamResult:
        """The critic after that many epochs."""
        return algorithm.regress(config, CriticProblem(common, net, critic, opt, sample, order, lr, epochs))

    def divergence(policy: Any, segment: Segment) -> Array:
        """Mean over the batch's states of KL(mu || pi)."""
        dist = apply_in_chunks(net.policy, policy, seen(segment.obs, segment.scale))
        return net.family.kl(jax.tree.map(flat, segment.dist), dist).mean()

    def known_divergence(dist: Any, place: Array, segment: Segment) -> Array:
        """The same, from pi's distributions in a sample of which this is batch number ``place``."""
        n = segment.reward.size
        here = jax.tree.map(lambda x: jax.lax.dynamic_slice_in_dim(x, place * n, n), dist)
        return net.family.kl(jax.tree.map(flat, segment.dist), here).mean()

    jit = partial(jax.jit, compiler_options=DETERMINISTIC_SUMS if net.images or config.n_steps > LONG_SUM else {})

    def update(program: Callable[..., Any], whole_batch: bool) -> Update:
        loops = {} if net.images else SINGLE_THREAD_LOOPS
        steady = jax.jit(program, compiler_options=DETERMINISTIC_SUMS | loops)
        return Update(steady if net.images else jax.jit(program, compiler_options=loops), steady, whole_batch)

    return Programs(
        jit(label),
        jit(relabel),
        jit(prepare),
        jit(join),
        update(improve, algorithm.whole_batch(config)),
        update(regress, whole_batch=False),
        jit(divergence),
        jit(known_divergence),
    )


def flat(x: Array) -> Array:
    """[T, E, ...] -> [T E, ...]"""
    return x.reshape(x.shape[0] * x.shape[1], *x.shape[2:])


def next_values(value: Array, stored: Array, segment: Segment) -> Array:
    """V of what follows every step where only some of it is stored: the next step's V, or that of ``Segment.next_obs``.

    What follows a terminated step has no meaning and is not used.  [T, E]
    """
    envs = value.shape[1]
    following = jnp.concatenate([value[1:], stored[None, :envs]])
    if len(stored) == envs:  # no episode was truncated
        return following
    truncated = segment.ended & ~segment.terminated
    which = jnp.cumsum(truncated.reshape(-1)).reshape(truncated.shape) - 1
    return jnp.where(truncated, stored[envs:][jnp.maximum(which, 0)], following)


def explained_variance(value: Array, ret: Array) -> Array:
    """1 - var(R - V) / var(R); 0 when R does not vary."""
    total = ret.var()
    return jnp.where(total > 0, 1.0 - (ret - value).var() / jnp.where(total > 0, total, 1.0), 0.0)
