"""ToPPO.    L_k(pi) = E_{rho^mu} min( r A^mu, clip(r, max(c - eps, 0), c + eps) A^mu ),   r = pi/mu,   c = pi_k/mu

draw: newest + 1 of M | label: GAE of mu, frozen | objective: clip at c, +- eps | improve: Adam epochs, early stop |
keep: KL(mu, pi) <= alpha, at most N

In its trust-region form, Eqns (3) and (4) of the paper:  max E_{rho^mu} r A^mu  subject to  E KL(mu || pi) <= delta.
"""

from dataclasses import dataclass

import numpy as np

from toppo.algos import ppo
from toppo.algos.contract import Draw, Memory, PolicyProblem, PolicyUpdate
from toppo.algos.optimise import TrustRegion, trust_region_improve
from toppo.algos.settings import Common, require, require_above, require_least, setting
from toppo.algos.steps import last, newest_and_some, separate_networks
from toppo.maths.surrogates import lemma_4_1


@dataclass(frozen=True)
class ToPPOConfig:
    """Settings of ToPPO."""

    n_steps: int = setting(1024, "Steps per batch.")
    clip_range: float = setting(0.1, "Clip range of the ratio around pi_k/mu.")
    n_policies: int = setting(5, "N: batches held in M at most, the newest included.")
    alpha: float = setting(0.03, "Batches whose policy mu has KL(mu || pi) above this are deleted.")
    select: bool = setting(True, "Delete by alpha; without it M holds the last N batches.")
    adapt_eps: bool = setting(
        False, "Clip range by Lemma 4.1: 4 * 2 clip_range / (|M| + 4), and 2 clip_range if |M| = 1."
    )
    recompute_adv: bool = setting(False, "Label old batches anew with the newest critic instead of keeping A^mu.")
    critic_on_old: bool = setting(True, "Train the critic on the old batch too.")
    early_stop: bool = setting(True, "End the epochs once the total variation from pi_k exceeds clip_range / 2.")
    adapt_lr: bool = setting(False, "Adapt the policy's learning rate to the total variation of each update.")
    improve: str = setting("adam", "adam: epochs on the clipped objective; trust_region: one step under a KL bound.")
    delta: float = setting(0.02, "Bound on the mean KL(mu || pi), if improve is trust_region.")

    def __post_init__(self) -> None:
        """Check every value."""
        require_least(self, 1, "n_steps", "n_policies")
        require_above(self, 0, "clip_range", "delta")
        require_least(self, 0, "alpha")
        known = self.improve in ("adam", "trust_region")
        require(known, f"improve is {self.improve!r}, but must be 'adam' or 'trust_region'")


def check(config: ToPPOConfig, common: Common, discrete: bool) -> None:
    """A shared trunk needs one step for policy and critic, on the same data."""
    if config.improve == "trust_region":
        separate_networks("a trust region", common)
    if not config.critic_on_old:
        separate_networks("a critic that trains on the newest batch only", common)


def draw(config: ToPPOConfig, memory: Memory, gaps: list[float], rng: np.random.Generator) -> Draw:
    """The newest batch and one uniformly drawn older one, if M has any."""
    clip_eps = lemma_4_1(2 * config.clip_range, len(memory)) if config.adapt_eps else config.clip_range
    segments = newest_and_some(memory, 1, rng)
    return Draw(segments, (1.0,) * len(segments), clip_eps)


def improve(config: ToPPOConfig, problem: PolicyProblem) -> PolicyUpdate:
    """As PPO does, or one step under a bound on KL(mu || pi); stored distributions of mu are all that this needs."""
    if config.improve == "trust_region":
        return trust_region_improve(problem, TrustRegion(config.delta), from_mu=True)
    return ppo.improve(config, problem)


def keep(config: ToPPOConfig, memory: Memory, kl: list[float]) -> Memory:
    """Batches whose policy is within alpha of the new one, at most N with the next."""
    near = tuple(b for b, d in zip(memory, kl, strict=True) if d <= config.alpha) if config.select else memory
    return last(near, config.n_policies)


ALGORITHM = ppo.ALGORITHM._replace(
    name="toppo",
    title="ToPPO",
    summary="newest batch and one old one with its own advantage, clipped around pi_k/mu; old batches filtered by KL",
    config=ToPPOConfig,
    check=check,
    relabel=lambda config: config.recompute_adv,
    draw=draw,
    improve=improve,
    whole_batch=lambda config: config.improve != "adam",
    stops_early=lambda config: config.early_stop and config.improve == "adam",
    value_on_old=lambda config: config.critic_on_old,
    keep=keep,
)
