"""ToPPO.    L_k(pi) = E_{rho^mu} min( r A^mu, clip(r, max(c - eps, 0), c + eps) A^mu ),   r = pi/mu,   c = pi_k/mu

draw: newest + 1 of M | label: GAE of mu, frozen | surrogate: clip at c, +- eps | improve: Adam epochs, early stop |
keep: KL(mu, pi) <= alpha, at most N

In its trust-region form, Eqns (3) and (4) of the paper:  max E_{rho^mu} r A^mu  subject to  E KL(mu || pi) <= delta.
"""

from dataclasses import dataclass

import numpy as np
from jax import Array

from toppo.algos import ppo
from toppo.algos.contract import Draw, Memory, PolicyProblem, PolicyUpdate, Segment, Traits, Trajectory
from toppo.algos.optimise import TrustRegion, adam_update, trust_region_update
from toppo.algos.schedules import Schedule, value_at
from toppo.algos.settings import AUTO, Automatic, Common, require, require_above, require_least, setting
from toppo.algos.steps import keep_last, label_gae, label_vtrace, newest_and_random, require_separate_networks
from toppo.maths.surrogates import additive_bounds, clipped, lemma_4_1


@dataclass(frozen=True)
class ToPPOConfig:
    """Settings of ToPPO."""

    n_steps: int = setting(1024, "Steps per batch.")
    clip_range: Schedule = setting(0.1, "Clip range of the ratio around pi_k/mu.")
    n_policies: int = setting(5, "N: batches held in M at most, the newest included.")
    alpha: Automatic = setting(
        0.03, "Delete batches whose policy mu has KL(mu || pi) above this; auto: n_policies times the newest update's."
    )
    select: bool = setting(True, "Delete by alpha; without it M holds the last N batches.")
    n_old: int = setting(1, "Old batches per update, drawn from M at random; n_policies - 1 for all.")
    age_weights: bool = setting(False, "Weights that fall with the age of a batch, from n_policies to 1.")
    adapt_eps: bool = setting(False, "Clip range by Lemma 4.1: 8 clip_range / (|M| + 4), and 2 clip_range if |M| = 1.")
    recompute_adv: bool = setting(False, "Label old batches again with the newest critic instead of keeping A^mu.")
    vtrace: bool = setting(False, "Correct the traces of old data for pi_k; it needs recompute_adv.")
    centre_adv: bool = setting(False, "Subtract the mean of every batch from its advantages: E_mu A^mu is 0.")
    critic_on_old: bool = setting(True, "Train the critic on the old batch too.")
    std_on_old: bool = setting(True, "Train the standard deviation of a Gaussian policy on the old batch too.")
    early_stop: bool = setting(True, "End the epochs once the total variation from pi_k exceeds clip_range / 2.")
    adapt_lr: bool = setting(False, "Lower the policy's learning rate while its updates exceed clip_range / 2.")
    improve: str = setting("adam", "adam: epochs on the clipped objective; trust_region: one step under a KL bound.")
    delta: float = setting(0.02, "Bound on the mean KL(mu || pi), if improve is trust_region.")

    def __post_init__(self) -> None:
        require_least(self, 1, "n_steps", "n_policies")
        require_above(self, 0, "clip_range", "delta")
        require_least(self, 0, "n_old", *(("alpha",) if self.alpha != AUTO else ()))
        known = self.improve in ("adam", "trust_region")
        require(known, f"improve is {self.improve!r}, but must be 'adam' or 'trust_region'")
        again = self.recompute_adv or not self.vtrace
        require(again, "vtrace is True, but old batches keep their A^mu: use --recompute-adv or --no-vtrace")


def check(config: ToPPOConfig, common: Common, discrete: bool) -> None:
    """Refuse a shared trunk, unless one step updates policy and critic on the same data."""
    if config.improve == "trust_region":
        require_separate_networks("a trust region", common)
    if not config.critic_on_old:
        require_separate_networks("a critic that trains on the newest batch only", common)


def traits(config: ToPPOConfig) -> Traits:
    """State what the loop must know."""
    adam = config.improve == "adam"
    return Traits(
        relabels=config.recompute_adv,
        whole_batch_gradient=not adam,
        stops_early=config.early_stop and adam,
        critic_on_old=config.critic_on_old,
    )


def label(config: ToPPOConfig, path: Trajectory) -> tuple[Array, Array]:
    """Return A^mu by GAE, or A^{pi_k} by V-trace; if it is centred, no batch is better or worse as a whole.

    A newer critic finds all of an older policy's actions poor.  Uncentred, that reinforces whatever the newest policy
    does, and its standard deviation collapses.
    """
    adv, ret = label_vtrace(config, path) if config.vtrace else label_gae(config, path)
    return (adv - adv.mean() if config.centre_adv else adv), ret


def draw(config: ToPPOConfig, memory: Memory, gaps: list[float], progress: float, rng: np.random.Generator) -> Draw:
    """Train on the newest batch and on uniformly drawn old batches, as far as M has any."""
    clip_range = value_at(config.clip_range, progress)
    clip_eps = lemma_4_1(2 * clip_range, len(memory)) if config.adapt_eps else clip_range
    segments = newest_and_random(memory, config.n_old, rng)
    return Draw(segments, weights(config, segments), clip_eps)


def weights(config: ToPPOConfig, segments: tuple[Segment, ...]) -> tuple[float, ...]:
    """Return equal weights, or weights by age: n_policies for the newest batch, 1 less for each update, at least 1.

    Their mean is 1.
    """
    if not config.age_weights:
        return (1.0,) * len(segments)
    ages = [int(segments[0].iteration) - int(batch.iteration) for batch in segments]
    by_age = np.maximum(1, config.n_policies - np.array(ages))
    return tuple(float(w) for w in by_age / by_age.mean())


def surrogate(ratio: Array, centre: Array, adv: Array, clip_eps: Array) -> Array:
    """min( r A^mu, clip(r, max(c - eps, 0), c + eps) A^mu )"""
    return clipped(ratio, adv, *additive_bounds(centre, clip_eps))


def improve(config: ToPPOConfig, problem: PolicyProblem) -> PolicyUpdate:
    """Take Adam epochs on the surrogate, or one step on r A^mu under a bound on KL(mu || pi)."""
    if config.improve == "trust_region":
        return trust_region_update(problem, TrustRegion(config.delta), from_mu=True)
    return adam_update(
        problem, surrogate, config.early_stop, config.adapt_lr, max_lr_scale=1.0, std_on_old=config.std_on_old
    )


def keep(config: ToPPOConfig, memory: Memory, kl: list[float]) -> Memory:
    """Keep the batches whose policy is within alpha of the new one, at most N with the next batch."""
    alpha = radius(config, kl[-1])
    near = tuple(b for b, d in zip(memory, kl, strict=True) if d <= alpha) if config.select else memory
    return keep_last(near, config.n_policies)


def radius(config: ToPPOConfig, newest: float) -> float:
    """Return alpha; if it sets itself, N KL(pi_k || pi_{k+1}), which is the KL across N updates like the newest.

    That holds if they go in independent directions.  If they go in one, N updates are N^2 times as far, and fewer
    batches stay.  The rule has no unit: it follows the learning rate, the batch size and the dimension of the actions.
    """
    return config.n_policies * newest if isinstance(config.alpha, str) else config.alpha


ALGORITHM = ppo.ALGORITHM._replace(
    name="toppo",
    title="ToPPO",
    summary="newest batch and old ones, clipped around pi_k/mu; old batches filtered by KL",
    config=ToPPOConfig,
    check=check,
    traits=traits,
    label=label,
    draw=draw,
    improve=improve,
    keep=keep,
)
