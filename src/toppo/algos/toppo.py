"""ToPPO.    L_k(pi) = E_{rho^mu} min( r A^mu, clip(r, max(c - eps, 0), c + eps) A^mu ),   r = pi/mu,   c = pi_k/mu

draw: newest + 1 of M | label: GAE of mu, frozen | objective: clip at c, +- eps | improve: Adam epochs, early stop |
keep: KL(mu, pi) <= alpha, at most N
"""

from dataclasses import dataclass

import numpy as np

from toppo.algos.ppo import adapt, improve
from toppo.maths.advantages import gae
from toppo.types import Algorithm, Draw, Memory, require, setting


@dataclass(frozen=True)
class ToPPOConfig:
    """Settings of ToPPO."""

    n: int = setting(1024, "Steps per batch.")
    clip_eps: float = setting(0.1, "Clip range of the ratio around pi_k/mu.")
    n_policies: int = setting(5, "N: batches held in M at most, the newest included.")
    alpha: float = setting(0.03, "Batches whose policy mu has KL(mu || pi) above this are deleted.")
    select: bool = setting(True, "Delete by alpha; without it M holds the last N batches.")
    adapt_eps: bool = setting(False, "Clip range by Lemma 4.1: 4 * 2 clip_eps / (|M| + 4), and 2 clip_eps if |M| = 1.")
    recompute_adv: bool = setting(False, "Label old batches anew with the newest critic instead of keeping A^mu.")
    critic_on_old: bool = setting(True, "Train the critic on the old batch too.")
    early_stop: bool = setting(True, "End the epochs once the total variation from pi_k exceeds clip_eps / 2.")
    adapt_lr: bool = setting(False, "Adapt the policy's learning rate to the total variation of each update.")

    def __post_init__(self) -> None:
        """Check every value."""
        require(self.n >= 1, f"n is {self.n}, but must be at least 1")
        require(self.clip_eps > 0, f"clip_eps is {self.clip_eps}, but must be above 0")
        require(self.n_policies >= 1, f"n_policies is {self.n_policies}, but must be at least 1")
        require(self.alpha >= 0, f"alpha is {self.alpha}, but must be 0 or more")


def draw(config: ToPPOConfig, memory: Memory, rng: np.random.Generator) -> Draw:
    """The newest batch and one uniformly drawn older one, if M has any."""
    size = len(memory)
    clip_eps = lemma_4_1(2 * config.clip_eps, size) if config.adapt_eps else config.clip_eps
    if size == 1:
        return Draw(memory, (1.0,), clip_eps)
    return Draw((memory[-1], memory[rng.integers(size - 1)]), (1.0, 1.0), clip_eps)


def lemma_4_1(ppo_eps: float, size: int) -> float:
    """eps^ToPPO = 4 eps^PPO / (|M| + 4), or eps^PPO when M holds the newest batch only."""
    return ppo_eps if size == 1 else 4 * ppo_eps / (size + 4)


def keep(config: ToPPOConfig, memory: Memory, kl: list[float]) -> Memory:
    """Batches whose policy is within alpha of the new one; the next batch joins them, so at most N - 1."""
    near = tuple(b for b, d in zip(memory, kl, strict=True) if d <= config.alpha) if config.select else memory
    return near[max(0, len(near) - (config.n_policies - 1)) :]


ALGORITHM = Algorithm(
    name="toppo",
    title="ToPPO",
    summary="newest batch and one old one with its own advantage, clipped around pi_k/mu; old batches filtered by KL",
    config=ToPPOConfig,
    common={},
    draw=draw,
    label=lambda r, v, v_next, terminated, ended, ratio, gamma, lam: gae(r, v, v_next, terminated, ended, gamma, lam),
    relabel=lambda config: config.recompute_adv,
    improve=improve,
    value_on_old=lambda config: config.critic_on_old,
    adapt=adapt,
    keep=keep,
)
