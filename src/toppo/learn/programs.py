"""The programs of one iteration: label, prepare, improve the policy, fit the critic, measure KL.

Each is a function of the run's fixed parts and of arrays.  ``Programs`` compiles them.  Unless they share a
trunk, policy and critic have no parameters in common, so their programs can run at the same time.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from toppo.algos.contract import (
    AdamResult,
    CriticProblem,
    Normaliser,
    Params,
    PolicyProblem,
    PolicyUpdate,
    Sample,
    Segment,
    Trajectory,
    Tree,
)
from toppo.collect.plan import RawBatch
from toppo.learn.nets import LONG_SUM, has_long_sums
from toppo.learn.setup import Setup, constants
from toppo.maths.moments import normalise

# The loops over the arrays of small networks are too short to be shared between threads: on a virtual machine, waking
# the other thread made an update of two layers of 256 take up to eight times as long.
SINGLE_THREAD_LOOPS = {"xla_disable_hlo_passes": "cpu-parallel-task-assigner"}
# XLA's library for sums and products splits long sums between the cores, so that the bytes depend on their number.
DETERMINISTIC_SUMS = {"xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT"}


def label(
    setup: Setup, params: Params, raw: RawBatch[Array], normaliser: Normaliser, iteration: Array
) -> tuple[Segment, Array, Array]:
    """Return the Segment of a batch that pi_k has just collected, its values [T, E], and their explained variance."""
    dist, value = policy_and_value(setup, params, preprocess_flat(setup, raw.obs, normaliser))
    logp = setup.net.family.log_prob(dist, flat(raw.action))
    rows = raw.reward.shape
    dist, value, logp = jax.tree.map(lambda x: x.reshape(*rows, *x.shape[1:]), (dist, value, logp))
    segment = Segment(
        **raw._asdict(),
        normaliser=normaliser,
        logp=logp,
        dist=dist,
        adv=jnp.zeros(rows),
        ret=jnp.zeros(rows),
        iteration=iteration,
    )
    adv, ret = advantages_and_targets(setup, params, segment, value, jnp.ones(rows), jnp.zeros(rows[1:]))
    return segment._replace(adv=adv, ret=ret), value, explained_variance(value, ret)


def relabel(
    setup: Setup, params: Params, segment: Segment, normaliser: Normaliser, after: Array
) -> tuple[Segment, Array, Array]:
    """Label an old batch again by pi_k and its critic, with this normaliser and the trace from what follows.

    Also return the mean over samples and action dimensions of |1 - pi_k/mu|, and the trace for the batch before.
    """
    family = setup.net.family
    segment = segment._replace(normaliser=normaliser)
    action = flat(segment.action)
    rows = segment.reward.shape
    dist, value = policy_and_value(setup, params, preprocess_flat(setup, segment.obs, normaliser))
    ratio = jnp.exp(family.log_prob(dist, action) - flat(segment.logp)).reshape(rows)
    log_mu = family.log_prob_per_dimension(jax.tree.map(flat, segment.dist), action)
    gap = jnp.abs(1.0 - jnp.exp(family.log_prob_per_dimension(dist, action) - log_mu)).mean()
    adv, ret = advantages_and_targets(setup, params, segment, value.reshape(rows), ratio, after)
    return segment._replace(adv=adv, ret=ret), gap, jnp.minimum(1.0, ratio[0]) * adv[0]


def policy_and_value(setup: Setup, params: Params, obs: Tree) -> tuple[Tree, Array]:
    """Return the policy and the value of every state."""
    net = setup.net
    if net.joint:
        found: tuple[Tree, Array] = net.in_chunks(net.joint, params.policy, obs)
        return found
    return net.in_chunks(net.policy, params.policy, obs), net.in_chunks(net.value, params.value, obs)


def advantages_and_targets(
    setup: Setup, params: Params, segment: Segment, value: Array, ratio: Array, after: Array
) -> tuple[Array, Array]:
    """Return A and R of a batch whose states have these values.  Each [T, E]"""
    common = setup.common
    critic = setup.net.critic(params)
    if segment.next_obs.ndim == 3:
        next_inputs = preprocess_flat(setup, segment.next_obs, segment.normaliser)
        next_value = setup.net.value(critic, next_inputs).reshape(value.shape)
    else:
        next_value = next_values(
            value, setup.net.value(critic, preprocess(setup, segment.next_obs, segment.normaliser)), segment
        )
    reward = jnp.sign(segment.reward) if common.sign_reward else segment.reward
    path = Trajectory(
        reward=normalise(reward, jnp.zeros(()), segment.normaliser.reward_scale),
        value=value,
        next_value=next_value,
        terminated=segment.terminated,
        ended=segment.ended,
        ratio=ratio,
        gamma=common.gamma,
        lam=common.gae_lambda,
        after=after,
    )
    return setup.algorithm.label(setup.config, path)


def prepare(setup: Setup, params: Params, segment: Segment, weight: Array, value: Array | None) -> Sample:
    """Flatten one drawn batch, with pi_k's log-probabilities; ``value`` [T, E] is given for the newest batch only."""
    family = setup.net.family
    obs = preprocess_flat(setup, segment.obs, segment.normaliser)
    action = flat(segment.action)
    logp = flat(segment.logp)
    dist_mu = jax.tree.map(flat, segment.dist)
    dist_k, values = policy_and_value(setup, params, obs) if value is None else (dist_mu, flat(value))
    ones = jnp.ones_like(logp)
    return Sample(
        obs=obs,
        action=action,
        logp=logp,
        # On its own data pi_k is mu, and the centre is exactly 1.
        centre=jnp.exp(family.log_prob(dist_k, action) - logp) if value is None else ones,
        weight=weight * ones,
        adv=flat(segment.adv),
        ret=flat(segment.ret),
        newest=ones * (value is not None),
        dist_k=dist_k,
        dist_mu=dist_mu,
        value=values if setup.net.joint else (),
    )


def concatenate(parts: tuple[Sample, ...]) -> Sample:
    """Return the drawn batches, one after the other."""
    joined: Sample = jax.tree.map(lambda *xs: jnp.concatenate(xs), *parts)
    return joined


def improve(
    setup: Setup,
    policy: Tree,
    opt: Tree,
    sample: Sample,
    minibatches: Array,
    lr: Array,
    lr_scale: Array,
    clip_eps: Array,
    scheduled: dict[str, Array],
) -> PolicyUpdate:
    """Return the new policy; ``scheduled`` holds the settings that are not constant in this run."""
    given: dict[str, Array | float] = {**constants(setup), **scheduled}
    problem = PolicyProblem(
        common=setup.common,
        net=setup.net,
        policy=policy,
        opt=opt,
        sample=sample,
        minibatches=minibatches,
        lr=lr,
        lr_scale=lr_scale,
        clip_eps=clip_eps,
        **given,
    )
    return setup.algorithm.improve(setup.config, problem)


def fit_critic(
    setup: Setup,
    critic: Tree,
    opt: Tree,
    sample: Sample,
    minibatches: Array,
    lr: Array,
    epochs: Array,
    scheduled: dict[str, Array],
) -> AdamResult:
    """Return the critic after that many epochs."""
    given: dict[str, Array | float] = {**constants(setup), **scheduled}
    problem = CriticProblem(
        common=setup.common,
        net=setup.net,
        critic=critic,
        opt=opt,
        sample=sample,
        minibatches=minibatches,
        lr=lr,
        epochs=epochs,
        clip_range=given["clip_range"],
    )
    return setup.algorithm.fit_critic(setup.config, problem)


def mean_kl(setup: Setup, policy: Tree, segment: Segment) -> Array:
    """Return the mean over a batch's states of KL(mu || pi)."""
    net = setup.net
    dist = net.in_chunks(net.policy, policy, preprocess_flat(setup, segment.obs, segment.normaliser))
    return net.family.kl(jax.tree.map(flat, segment.dist), dist).mean()


def known_mean_kl(setup: Setup, dist: Tree, place: Array, segment: Segment) -> Array:
    """Return the same, from pi's distributions in a sample in which this is batch number ``place``."""
    n = segment.reward.size
    here = jax.tree.map(lambda x: jax.lax.dynamic_slice_in_dim(x, place * n, n), dist)
    return setup.net.family.kl(jax.tree.map(flat, segment.dist), here).mean()


def preprocess(setup: Setup, obs: Array, normaliser: Normaliser) -> Tree:
    """Return stored observations as the networks read them."""
    return setup.net.preprocess(obs, normaliser.mean, normaliser.inv_std)


def preprocess_flat(setup: Setup, obs: Array, normaliser: Normaliser) -> Tree:
    """Return the same of a batch [T, E, ...], flattened to [B, ...]."""
    return jax.tree.map(flat, preprocess(setup, obs, normaliser))


def flat(x: Array) -> Array:
    """[T, E, ...] -> [T E, ...]"""
    return x.reshape(x.shape[0] * x.shape[1], *x.shape[2:])


def next_values(value: Array, stored: Array, segment: Segment) -> Array:
    """Return V after every step if only some next observations are stored: the next step's V, or that of ``next_obs``.

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


class GradientProgram(NamedTuple):
    """A program with gradients, compiled twice: for speed, and for bytes that do not depend on the number of cores."""

    fast: Callable[..., Tree]
    deterministic: Callable[..., Tree]
    whole_batch: bool  # is a gradient over all samples, not over a minibatch?

    def __call__(self, params: Tree, opt: Tree, sample: Sample, minibatches: np.ndarray, *numbers: object) -> Tree:
        """Run the fast one if its bytes do not depend on the number of cores."""
        samples = len(sample.ret)
        rows = samples if self.whole_batch else minibatches.shape[-1]
        depends = samples > LONG_SUM or has_long_sums(params, rows)
        return (self.deterministic if depends else self.fast)(params, opt, sample, minibatches, *numbers)


class Programs:
    """The functions of this module, compiled for a run; those that read a draw compile once per number of batches."""

    def __init__(self, setup: Setup) -> None:
        images = setup.net.has_images
        sums = DETERMINISTIC_SUMS if images or setup.config.n_steps > LONG_SUM else {}
        loops = {} if images else SINGLE_THREAD_LOOPS

        def compiled(program: Callable[..., Tree]) -> Callable[..., Tree]:
            return jax.jit(partial(program, setup), compiler_options=sums)

        def with_gradients(program: Callable[..., Tree], whole_batch: bool) -> GradientProgram:
            deterministic = jax.jit(partial(program, setup), compiler_options=DETERMINISTIC_SUMS | loops)
            fast = deterministic if images else jax.jit(partial(program, setup), compiler_options=loops)
            return GradientProgram(fast, deterministic, whole_batch)

        self.label: Callable[..., tuple[Segment, Array, Array]] = compiled(label)
        self.relabel = compiled(relabel)
        self.prepare = compiled(prepare)
        self.concatenate = jax.jit(lambda parts: concatenate(parts), compiler_options=sums)  # with a cache of its own
        self.improve = with_gradients(improve, setup.algorithm.traits(setup.config).whole_batch_gradient)
        self.fit_critic = with_gradients(fit_critic, whole_batch=False)
        self.mean_kl = compiled(mean_kl)
        self.known_mean_kl = compiled(known_mean_kl)
