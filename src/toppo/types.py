"""The records that flow through a training iteration.  Importing this module costs nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from jax import Array

    from toppo.maths.distributions import Family
    from toppo.maths.moments import Moments


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


class Learner(NamedTuple):
    """All that the updates change."""

    params: Params
    policy_opt: Any
    value_opt: Any
    lr_scale: Array  # the adaptive learning rate's factor


class OpenEpisode(NamedTuple):
    """What one environment needs to be brought back to where it is: reset with the seed, replay the actions."""

    started: int  # episodes started so far, this one included
    actions: np.ndarray  # [t, ...] as sampled, since the reset
    rewards: np.ndarray  # [t] raw, since the reset
    obs: np.ndarray  # the last observation, for comparison after a replay


class State(NamedTuple):
    """All that defines the future of a run between two iterations, besides its spec."""

    learner: Learner
    obs_moments: Moments
    return_moments: Moments
    memory: Memory
    episodes: tuple[OpenEpisode, ...]
    batches: int  # collected so far, no-op batches included
    iteration: int
    steps: int  # environment steps used for training


class Draw(NamedTuple):
    """What an iteration trains on: batches (the newest first), a weight for each, and the clip range."""

    segments: tuple[Segment, ...]
    weights: tuple[float, ...]  # 0 for a batch that only fills up the shape
    clip_eps: float = 0.0  # 0 where nothing is clipped


class Problem(NamedTuple):
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


class Improved(NamedTuple):
    """What ``improve`` returns: the new policy, how many epochs it took, and what to log of it."""

    policy: Any
    opt: Any
    lr_scale: Array
    epochs: Array
    tv: Array
    dist: Any  # the new policy at every state of the sample, if it shares a trunk with the critic
    report: dict[str, Array]


class Regression(NamedTuple):
    """What ``regress`` is given: the critic as it is, the data, and the epochs that the policy takes."""

    common: Common
    net: Net
    critic: Any
    opt: Any
    sample: Sample
    order: Array  # [epochs, minibatches, size]
    lr: Array
    epochs: Array


class Ascent(NamedTuple):
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
    one_stream: bool  # is memory one stream: labelled across the borders of batches, normalised as the newest is?
    draw: Callable[[Any, Memory, list[float], np.random.Generator], Draw]  # given mean |1 - pi_k/mu| if relabelled
    order: Callable[[Any, Common, tuple[float, ...], np.random.Generator], np.ndarray]  # the minibatches of a Draw
    lr: Callable[[Any, Common, float], float]  # given the part of the run that is done
    init_opt: Callable[[Any, Common, Any], Any]  # what ``improve`` carries on, before the first update
    improve: Callable[[Any, Problem], Improved]
    whole_batch: Callable[[Any], bool]  # does ``improve`` take gradients over all samples at once?
    stops_early: Callable[[Any], bool]  # may ``improve`` end before its last epoch?
    value_on_old: Callable[[Any], bool]  # does the critic train on older batches too?
    regress: Callable[[Any, Regression], Ascent]  # an epoch at a time is the same, if ``improve`` may stop early
    keep: Callable[[Any, Memory, list[float]], Memory]  # given KL(mu || pi_{k+1}) of every batch


def setting(default: Any, text: str, later: bool = False) -> Any:
    """A field of a settings class: its default and its line of help.

    One that came ``later`` stands in a spec's JSON only where it differs from its default, so that specs written before
    it keep their hash.
    """
    return field(default=default, metadata={"help": text, "later": later})


def require(ok: bool, sentence: str) -> None:
    """Refuse a setting with a sentence that names the value and the rule."""
    if not ok:
        raise ValueError(sentence)


def require_least(settings: Any, least: float, *names: str) -> None:
    """Refuse any of the named settings that is below ``least``."""
    for name in names:
        value = getattr(settings, name)
        rule = f"at least {least}" if least else "0 or more"
        require(value >= least, f"{name} is {value}, but must be {rule}")


def require_above(settings: Any, bound: float, *names: str) -> None:
    """Refuse any of the named settings that is not above ``bound``."""
    for name in names:
        value = getattr(settings, name)
        require(value > bound, f"{name} is {value}, but must be above {bound}")


@dataclass(frozen=True)
class Common:
    """Settings that all algorithms share."""

    gamma: float = setting(0.995, "Discount per step.")
    lam: float = setting(0.97, "Lambda of the advantage estimator.")
    epochs: int = setting(10, "Passes over the data per update.")
    minibatches: int = setting(32, "Gradient steps per pass.")
    lr: float = setting(3e-4, "Learning rate of Adam, policy and critic.")
    anneal_lr: bool = setting(False, "Lower the learning rate linearly to 0 over the run.")
    adam_eps: float = setting(1e-7, "Adam's epsilon.")
    max_grad_norm: float = setting(0.5, "Bound on the global norm of the policy's gradient; 0 for none.")
    entropy_coef: float = setting(0.0, "Weight of the entropy bonus.")
    hidden: tuple[int, ...] = setting((64, 64), "Widths of the hidden layers, policy and critic alike.")
    log_std: float = setting(0.0, "Initial log standard deviation of a Gaussian policy.")
    envs: int = setting(1, "Environments stepped side by side; a batch is split among them.")
    reset_each_batch: bool = setting(False, "Start every batch with a reset instead of continuing the episodes.")
    noop_steps: int = setting(2048, "Steps taken before training to initialise the normaliser; not counted.")
    normalise_obs: bool = setting(True, "Normalise observations by running mean and standard deviation.")
    normalise_reward: bool = setting(True, "Divide rewards by the running standard deviation of the return.")
    sign_reward: bool = setting(False, "Learn from the sign of the reward alone; returns are logged as they are.", True)
    shared_trunk: bool = setting(False, "One network for policy and critic up to their last layers.", True)
    critic_coef: float = setting(0.5, "Weight of the critic's loss, if the trunk is shared.", True)
    critic_clip: float = setting(0.0, "Bound on the critic's change per update, if the trunk is shared; 0: none.", True)

    def __post_init__(self) -> None:
        """Check every value."""
        require(0 <= self.gamma < 1, f"gamma is {self.gamma}, but must be in [0, 1)")
        require(0 <= self.lam <= 1, f"lam is {self.lam}, but must be in [0, 1]")
        require_least(self, 1, "epochs", "minibatches", "envs")
        require_above(self, 0, "lr", "adam_eps")
        require_least(self, 0, "max_grad_norm", "entropy_coef", "noop_steps", "critic_coef", "critic_clip")
        require(all(w >= 1 for w in self.hidden), f"hidden is {self.hidden}, but every width must be at least 1")


def help_texts(settings: type) -> dict[str, str]:
    """The line of text of every field of a settings class."""
    return {f.name: f.metadata["help"] for f in fields(settings)}
