"""The records that flow through a training iteration, and what an algorithm is.  Importing this costs nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from jax import Array

    from toppo.algos.settings import Common
    from toppo.maths.distributions import Family


class Scale(NamedTuple):
    """The normaliser as it stood while one batch was collected; the batch keeps it for ever."""

    obs_shift: Array  # [*obs]
    obs_factor: Array  # [*obs]
    reward_factor: Array  # []


class Segment(NamedTuple):
    """One batch, collected by one policy mu.  Axes: time, env, feature.  Observations and rewards are raw."""

    obs: Array
    next_obs: Array  # with images [E + F, row]: what follows the last step, then the last of each truncated episode
    action: Array  # as sampled, before clipping to the environment's bounds
    reward: Array
    terminated: Array
    ended: Array
    scale: Scale
    logp: Array  # log mu(a|s)
    dist: Any  # mu's distribution at every state
    adv: Array  # A^mu by the critic of the time, or A^{pi_k} where an algorithm labels its memory anew
    ret: Array  # the critic's target, of the same time
    iteration: Array  # k of mu = pi_k


Memory = tuple[Segment, ...]
"""The set M: oldest first, the batch of pi_k last."""


class Sample(NamedTuple):
    """What an update trains on, flattened to [B]; observations and returns are normalised."""

    obs: Any  # as ``Net.see`` gives it
    action: Array
    logp: Array  # log mu(a|s)
    centre: Array  # pi_k/mu, exactly 1 where newest
    weight: Array
    adv: Array
    ret: Array
    newest: Array  # 1 for data of pi_k, 0 for older data
    dist_k: Any  # pi_k's distribution at every state
    dist_mu: Any  # mu's
    value: Any = ()  # the critic's value of every state, if it shares a trunk with the policy


class Params(NamedTuple):
    """Parameters of the policy and of the critic."""

    policy: Any
    value: Any


class Net(NamedTuple):
    """A network pair as functions; algorithms know nothing else of it."""

    init: Callable[[int], Params]
    see: Callable[[Array, Array, Array], Any]  # stored observations, shift, factor -> what the networks are given
    policy: Callable[[Any, Any], Any]  # what was seen [B, ...] -> distribution
    value: Callable[[Any, Any], Array]  # what was seen [B, ...] -> [B]
    critic: Callable[[Params], Any]  # the parameters that ``value`` is given
    joint: Callable[[Any, Any], tuple[Any, Array]] | None  # both in one pass, if they share a trunk
    family: Family
    images: bool = False  # does it read any?


class Draw(NamedTuple):
    """What an iteration trains on: batches (the newest first), a weight for each, and the clip range."""

    segments: tuple[Segment, ...]
    weights: tuple[float, ...]  # 0 for a batch that only fills up the shape
    clip_eps: float = 0.0  # 0 where nothing is clipped


class PolicyProblem(NamedTuple):
    """What ``improve`` is given: the policy as it is, the data, and the order in which to visit it."""

    common: Common
    net: Net
    policy: Any
    opt: Any  # what the algorithm carries from update to update, as ``init_opt`` made it
    sample: Sample
    order: Array  # [epochs, minibatches, size] indices of samples
    lr: Array
    lr_scale: Array  # the adaptive learning rate's factor
    clip_eps: Array


class PolicyUpdate(NamedTuple):
    """What ``improve`` returns: the new policy, how many epochs it took, and what to log of it."""

    policy: Any
    opt: Any
    lr_scale: Array
    epochs: Array
    tv: Array
    dist: Any  # the new policy at every state of the sample, if it shares a trunk with the critic
    report: dict[str, Array]


class CriticProblem(NamedTuple):
    """What ``regress`` is given: the critic as it is, the data, and the epochs that the policy takes."""

    common: Common
    net: Net
    critic: Any
    opt: Any
    sample: Sample
    order: Array  # [epochs, minibatches, size]
    lr: Array
    epochs: Array


class AdamResult(NamedTuple):
    """Result of epochs of minibatch ascent."""

    params: Any
    opt: Any
    epochs: Array
    objective: Array  # mean over the last epoch
    grad_norm: Array  # mean over the last epoch
    extra: Any  # what the objective told besides its value: means over all steps


class Algorithm(NamedTuple):
    """One member of the family: its settings and its steps, in the order of an iteration."""

    name: str
    title: str
    summary: str  # one line for people
    config: type
    common: dict[str, Any]  # shared settings for which this algorithm's paper has another value
    check: Callable[[Any, Common, bool], None]  # refuses shared settings, or discrete actions, that it cannot serve
    label: Callable[..., tuple[Array, Array]]  # see ``estimate`` in update.py -> A, R
    relabel: Callable[[Any], bool]  # are older batches labelled anew with pi_k and its critic?
    traces_cross_batches: (
        bool  # is memory one stream: labelled across the borders of batches, normalised as the newest is?
    )
    draw: Callable[[Any, Memory, list[float], np.random.Generator], Draw]  # given mean |1 - pi_k/mu| if relabelled
    order: Callable[[Any, Common, tuple[float, ...], np.random.Generator], np.ndarray]  # the minibatches of a Draw
    lr: Callable[[Any, Common, float], float]  # given the part of the run that is done
    init_opt: Callable[[Any, Common, Any], Any]  # what ``improve`` carries on, before the first update
    improve: Callable[[Any, PolicyProblem], PolicyUpdate]
    whole_batch: Callable[[Any], bool]  # does ``improve`` take gradients over all samples at once?
    stops_early: Callable[[Any], bool]  # may ``improve`` end before its last epoch?
    value_on_old: Callable[[Any], bool]  # does the critic train on older batches too?
    regress: Callable[[Any, CriticProblem], AdamResult]  # an epoch at a time is the same, if ``improve`` may stop early
    keep: Callable[[Any, Memory, list[float]], Memory]  # given KL(mu || pi_{k+1}) of every batch
