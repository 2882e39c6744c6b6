"""The records that flow through an iteration, and what an algorithm is.  Importing this module costs nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from jax import Array

    from toppo.algos.settings import Common
    from toppo.maths.distributions import Family

Tree = Any
"""A pytree of arrays: parameters, an optimiser's state, the parameters of a distribution, observations."""

Config = Any
"""The settings of one algorithm: a frozen dataclass."""


class Normaliser(NamedTuple):
    """The normaliser as it was when a batch was collected; the batch keeps it."""

    mean: Array  # [O]
    inv_std: Array  # [O]
    reward_scale: Array  # []


class Segment(NamedTuple):
    """One batch, collected by one policy mu.  Axes: time, env, feature.  Observations and rewards are raw."""

    obs: Array
    next_obs: Array  # with images [E + F, row]: what follows the last step, then the last of each truncated episode
    action: Array  # as sampled, before clipping to the environment's bounds
    reward: Array
    terminated: Array
    ended: Array
    normaliser: Normaliser
    logp: Array  # log mu(a|s)
    dist: Tree  # mu's distribution at every state
    adv: Array  # A^mu by the critic of that time, or A^{pi_k} if the algorithm labels old batches again
    ret: Array  # the critic's target, from the same time
    iteration: Array  # k of mu = pi_k


Memory = tuple[Segment, ...]
"""The set M: oldest first, the batch of pi_k last."""


class Trajectory(NamedTuple):
    """What a label is computed from.  All [T, E] but the last three."""

    reward: Array  # normalised
    value: Array
    next_value: Array
    terminated: Array
    ended: Array
    ratio: Array  # pi_k/mu
    gamma: float
    lam: float
    after: Array  # [E] the trace that follows the last step; see ``maths.advantages.vtrace``


class Sample(NamedTuple):
    """What an update trains on, flattened to [B]; observations and returns are normalised."""

    obs: Tree  # as ``Net.preprocess`` returns it
    action: Array
    logp: Array  # log mu(a|s)
    centre: Array  # pi_k/mu, exactly 1 for the newest batch
    weight: Array
    adv: Array
    ret: Array
    newest: Array  # 1 for data of pi_k, 0 for older data
    dist_k: Tree  # pi_k's distribution at every state
    dist_mu: Tree  # mu's
    value: Tree = ()  # the critic's value of every state, if it shares a trunk with the policy


class Params(NamedTuple):
    """Parameters of the policy and of the critic."""

    policy: Tree
    value: Tree


class Net(NamedTuple):
    """A policy and a critic as functions; this is all that an algorithm knows about them."""

    init: Callable[[int], Params]
    preprocess: Callable[[Array, Array, Array], Tree]  # stored observations, mean, inv_std -> inputs of the networks
    policy: Callable[[Tree, Tree], Tree]  # inputs [B, ...] -> distribution
    value: Callable[[Tree, Tree], Array]  # inputs [B, ...] -> [B]
    critic: Callable[[Params], Tree]  # the parameters that ``value`` takes
    joint: Callable[[Tree, Tree], tuple[Tree, Array]] | None  # both in one pass, if they share a trunk
    in_chunks: Callable[[Callable[[Tree, Tree], Tree], Tree, Tree], Tree]  # apply one of them to a whole batch
    family: Family
    has_images: bool


class Draw(NamedTuple):
    """What an iteration trains on: batches (the newest first), a weight for each, and the clip range."""

    segments: tuple[Segment, ...]
    weights: tuple[float, ...]  # 0 for a batch that only fills up the shape
    clip_eps: float = 0.0  # 0 if nothing is clipped


class PolicyProblem(NamedTuple):
    """What ``improve`` works on: the policy as it is, the data, and the minibatches."""

    common: Common
    net: Net
    policy: Tree
    opt: Tree  # what the algorithm carries from update to update, as ``init_opt`` made it
    sample: Sample
    minibatches: Array  # [epochs, minibatches, size] indices of samples
    lr: Array
    lr_scale: Array  # the factor of the adaptive learning rate
    clip_eps: Array
    ent_coef: Array | float  # this and the next are numbers if they are constant: then they are compiled in
    clip_range: Array | float  # the setting; 0 if there is none


class PolicyUpdate(NamedTuple):
    """What ``improve`` returns: the new policy, the number of epochs it took, and what to log."""

    policy: Tree
    opt: Tree
    lr_scale: Array
    epochs: Array
    tv: Array
    dist: Tree  # the new policy at every state of the sample, if it shares a trunk with the critic
    report: dict[str, Array]


class CriticProblem(NamedTuple):
    """What ``fit_critic`` works on: the critic as it is, the data, and the number of epochs."""

    common: Common
    net: Net
    critic: Tree
    opt: Tree
    sample: Sample
    minibatches: Array  # [epochs, minibatches, size]
    lr: Array
    epochs: Array
    clip_range: Array | float  # as in PolicyProblem


class AdamResult(NamedTuple):
    """Parameters after some epochs of minibatch ascent."""

    params: Tree
    opt: Tree
    epochs: Array
    objective: Array  # mean over the last epoch
    grad_norm: Array  # mean over the last epoch
    extra: Tree  # what the objective returned beside its value: means over all steps


class Traits(NamedTuple):
    """What the loop must know about an algorithm with its settings."""

    relabels: bool = False  # does it label old batches again with pi_k and its critic?
    traces_cross_batches: bool = False  # is memory one stream: traces run on into the next batch, one normaliser?
    whole_batch_gradient: bool = False  # does ``improve`` take gradients over all samples at once?
    stops_early: bool = False  # may ``improve`` end before its last epoch?
    critic_on_old: bool = True  # does the critic train on old batches too?


class Algorithm(NamedTuple):
    """One member of the family: its settings and its steps, in the order of an iteration."""

    name: str
    title: str
    summary: str  # one line for people
    config: type
    common: dict[str, object]  # shared settings for which this algorithm's paper has another value
    check: Callable[[Config, Common, bool], None]  # refuses shared settings, or discrete actions, that it cannot serve
    traits: Callable[[Config], Traits]
    label: Callable[[Config, Trajectory], tuple[Array, Array]]  # -> A, R
    # Given mean |1 - pi_k/mu| of every batch, if it relabels, and the fraction of the run that is done.
    draw: Callable[[Config, Memory, list[float], float, np.random.Generator], Draw]
    minibatches: Callable[[Config, Common, tuple[float, ...], np.random.Generator], np.ndarray]  # of a Draw's weights
    learning_rate: Callable[[Config, Common, float], float]  # given the fraction of the run that is done
    init_opt: Callable[[Config, Common, Tree], Tree]  # what ``improve`` carries, before the first update
    improve: Callable[[Config, PolicyProblem], PolicyUpdate]
    fit_critic: Callable[[Config, CriticProblem], AdamResult]  # one epoch at a time gives the same, if it stops early
    keep: Callable[[Config, Memory, list[float]], Memory]  # given KL(mu || pi_{k+1}) of every batch
