"""PPO.    L(pi) = E_{pi_k} min( r A, clip(r, 1 - eps, 1 + eps) A ),   r = pi/pi_k,   A = A^{pi_k} by GAE

draw: newest | label: GAE | objective: clip at 1 | improve: Adam epochs | keep: nothing
"""

from dataclasses import dataclass

import numpy as np
from jax import Array

from toppo.maths.advantages import vtrace
from toppo.maths.surrogates import additive_bounds, clipped
from toppo.optimise import adam_improve, adapt_lr
from toppo.types import Algorithm, Draw, Improved, Memory, Problem, Sample, require, setting


@dataclass(frozen=True)
class PPOConfig:
    """Settings of PPO."""

    n: int = setting(2048, "Steps per batch.")
    clip_eps: float = setting(0.2, "Clip range of the ratio.")
    early_stop: bool = setting(False, "End the epochs once the total variation from pi_k exceeds clip_eps / 2.")
    adapt_lr: bool = setting(False, "Adapt the policy's learning rate to the total variation of each update.")

    def __post_init__(self) -> None:
        """Check every value."""
        require(self.n >= 1, f"n is {self.n}, but must be at least 1")
        require(self.clip_eps > 0, f"clip_eps is {self.clip_eps}, but must be above 0")


def draw(config: PPOConfig, memory: Memory, rng: np.random.Generator) -> Draw:
    """The newest batch."""
    return Draw(memory[-1:], (1.0,), config.clip_eps)


def improve(config: PPOConfig, problem: Problem) -> Improved:
    """Adam epochs on the clipped surrogate."""

    def surrogate(sample: Sample, ratio: Array) -> Array:
        return clipped(ratio, sample.adv, *additive_bounds(sample.centre, problem.clip_eps))

    return adam_improve(problem, surrogate, config.early_stop)


def adapt(config: PPOConfig, lr_scale: Array, tv: Array, clip_eps: Array) -> Array:
    """The learning rate's factor for the next update."""
    return adapt_lr(lr_scale, tv, clip_eps) if config.adapt_lr else lr_scale


def keep(config: PPOConfig, memory: Memory, kl: list[float]) -> Memory:
    """Nothing: every batch is used once."""
    return ()


ALGORITHM = Algorithm(
    name="ppo",
    title="PPO",
    summary="newest batch, clipped around 1",
    config=PPOConfig,
    common={},
    draw=draw,
    label=vtrace,
    relabel=lambda config: False,
    improve=improve,
    value_on_old=lambda config: True,
    adapt=adapt,
    keep=keep,
)
