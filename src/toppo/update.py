"""The programs of one iteration, compiled: label a new batch, improve the policy, regress the critic, measure KL.

Policy and critic share no parameters, so the policy's program ends first and the next batch is collected with it
while the critic's program still runs.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from toppo.maths.moments import normalise
from toppo.optimise import Ascent, adam_epochs
from toppo.types import Algorithm, Common, Improved, Net, Params, Problem, Sample, Scale, Segment


class RawBatch(NamedTuple):
    """A batch as the workers left it: the first fields of a ``Segment``."""

    obs: Array
    next_obs: Array
    action: Array
    reward: Array
    terminated: Array
    ended: Array


class Programs(NamedTuple):
    """See the functions of the same names below."""

    label: Callable[..., tuple[Segment, Array]]
    improve: Callable[..., tuple[Improved, Array, Sample]]
    regress: Callable[..., Ascent]
    divergence: Callable[[Any, Segment], Array]


def compile_programs(algorithm: Algorithm, config: Any, common: Common, net: Net) -> Programs:
    """The four programs of an algorithm with its settings; each compiles once per number of batches in use."""

    def label(params: Params, raw: RawBatch, scale: Scale, iteration: Array) -> tuple[Segment, Array]:
        """The Segment of a batch that pi_k has just collected, and the critic's explained variance on it."""
        obs = flat(normalise(raw.obs, scale.obs_shift, scale.obs_factor))
        dist = net.policy(params.policy, obs)
        logp = net.family.log_prob(dist, flat(raw.action))
        rows = raw.reward.shape
        dist, logp = jax.tree.map(lambda x: x.reshape(*rows, *x.shape[1:]), (dist, logp))
        empty = jnp.zeros(rows)
        segment = Segment(*raw, scale, logp, dist, empty, empty, iteration)
        adv, ret, value = estimate(params.value, segment, jnp.ones(rows))
        return segment._replace(adv=adv, ret=ret), explained_variance(value, ret)

    def estimate(critic: Any, segment: Segment, ratio: Array) -> tuple[Array, Array, Array]:
        """A, R and V of a batch by the given critic.  Each [T, E]"""
        rows, scale = segment.reward.shape, segment.scale

        def values(obs: Array) -> Array:
            return net.value(critic, flat(normalise(obs, scale.obs_shift, scale.obs_factor))).reshape(rows)

        value, next_value = values(segment.obs), values(segment.next_obs)
        reward = normalise(segment.reward, jnp.zeros(()), scale.reward_factor)
        arguments = (reward, value, next_value, segment.terminated, segment.ended, ratio, common.gamma, common.lam)
        return *algorithm.label(*arguments), value

    def prepare(params: Params, segment: Segment, weight: Array, newest: bool) -> Sample:
        """One drawn batch, flattened, with pi_k's log-probabilities (1.6)."""
        obs = flat(normalise(segment.obs, segment.scale.obs_shift, segment.scale.obs_factor))
        action, logp = flat(segment.action), flat(segment.logp)
        dist_k = jax.tree.map(flat, segment.dist) if newest else net.policy(params.policy, obs)
        # On its own data pi_k is mu, and the centre exactly 1.
        centre = jnp.ones_like(logp) if newest else jnp.exp(net.family.log_prob(dist_k, action) - logp)
        adv, ret = segment.adv, segment.ret
        if not newest and algorithm.relabel(config):
            adv, ret, _ = estimate(params.value, segment, centre.reshape(adv.shape))
        ones = jnp.ones_like(logp)
        return Sample(obs, action, logp, centre, weight * ones, flat(adv), flat(ret), ones * newest, dist_k)

    def improve(
        params: Params,
        opt: Any,
        lr_scale: Array,
        segments: tuple[Segment, ...],
        weights: Array,
        order: Array,
        lr: Array,
        clip_eps: Array,
    ) -> tuple[Improved, Array, Sample]:
        """The new policy, the new factor of its learning rate, and the data it was trained on (for the critic)."""
        parts = [prepare(params, s, weights[i], newest=i == 0) for i, s in enumerate(segments)]
        sample = jax.tree.map(lambda *xs: jnp.concatenate(xs), *parts)
        problem = Problem(common, net, params.policy, opt, sample, order, lr * lr_scale, clip_eps)
        improved = algorithm.improve(config, problem)
        seen = sample if algorithm.value_on_old(config) else parts[0]
        return improved, algorithm.adapt(config, lr_scale, improved.tv, clip_eps), seen

    def regress(critic: Any, opt: Any, sample: Sample, order: Array, lr: Array, epochs: Array) -> Ascent:
        """The critic after the same minibatches: ascent on -0.5 mean(w (R - V)^2)."""

        def objective(critic: Any, batch: tuple[Array, Array, Array]) -> Array:
            obs, ret, weight = batch
            return -0.5 * jnp.mean(weight * jnp.square(ret - net.value(critic, obs)))

        data = (sample.obs, sample.ret, sample.weight)
        return adam_epochs(objective, critic, opt, data, order, lr, common, lambda _, done: done < epochs)

    def divergence(policy: Any, segment: Segment) -> Array:
        """Mean over the batch's states of KL(mu || pi)."""
        obs = flat(normalise(segment.obs, segment.scale.obs_shift, segment.scale.obs_factor))
        return net.family.kl(jax.tree.map(flat, segment.dist), net.policy(policy, obs)).mean()

    return Programs(
        jax.jit(label),
        jax.jit(improve),
        jax.jit(regress, donate_argnums=(0, 1)),
        jax.jit(divergence),
    )


def flat(x: Array) -> Array:
    """[T, E, ...] -> [T E, ...]"""
    return x.reshape(-1, *x.shape[2:])


def explained_variance(value: Array, ret: Array) -> Array:
    """1 - var(R - V) / var(R); 0 when R does not vary."""
    total = ret.var()
    return jnp.where(total > 0, 1.0 - (ret - value).var() / jnp.where(total > 0, total, 1.0), 0.0)
