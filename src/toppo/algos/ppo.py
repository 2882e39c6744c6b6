"""PPO.    L(pi) = E_{pi_k} min( r A, clip(r, 1 - eps, 1 + eps) A ),   r = pi/pi_k,   A = A^{pi_k} by GAE

draw: newest | label: GAE | surrogate: clip at 1 | improve: Adam epochs | keep: nothing
"""

from dataclasses import dataclass

import numpy as np
from jax import Array

from toppo.algos.contract import Algorithm, Draw, Memory, PolicyProblem, PolicyUpdate, Traits
from toppo.algos.optimise import adam_init, adam_update, fit_least_squares
from toppo.algos.schedules import Schedule, value_at
from toppo.algos.settings import require_above, require_least, setting
from toppo.algos.steps import label_gae, no_restrictions, scheduled_lr, shuffled
from toppo.maths.surrogates import additive_bounds, clipped


@dataclass(frozen=True)
class PPOConfig:
    """Settings of PPO."""

    n_steps: int = setting(2048, "Steps per batch.")
    clip_range: Schedule = setting(0.2, "Clip range of the ratio.")
    early_stop: bool = setting(False, "End the epochs once the total variation from pi_k exceeds clip_range / 2.")
    adapt_lr: bool = setting(False, "Adapt the policy's learning rate to the total variation of each update.")

    def __post_init__(self) -> None:
        require_least(self, 1, "n_steps")
        require_above(self, 0, "clip_range")


def draw(config: PPOConfig, memory: Memory, gaps: list[float], progress: float, rng: np.random.Generator) -> Draw:
    """Train on the newest batch."""
    return Draw(memory[-1:], (1.0,), value_at(config.clip_range, progress))


def surrogate(ratio: Array, centre: Array, adv: Array, clip_eps: Array) -> Array:
    """min( r A, clip(r, c - eps, c + eps) A ),   with c = pi_k/mu = 1 on the newest batch"""
    return clipped(ratio, adv, *additive_bounds(centre, clip_eps))


def improve(config: PPOConfig, problem: PolicyProblem) -> PolicyUpdate:
    """Take Adam epochs on the surrogate."""
    return adam_update(problem, surrogate, early_stop=config.early_stop, adapt_lr=config.adapt_lr)


def keep(config: PPOConfig, memory: Memory, kl: list[float]) -> Memory:
    """Keep nothing: every batch is used once."""
    return ()


# The other algorithms state only where they differ from this one.
ALGORITHM = Algorithm(
    name="ppo",
    title="PPO",
    summary="newest batch, clipped around 1",
    config=PPOConfig,
    common={},
    check=no_restrictions,
    traits=lambda config: Traits(stops_early=config.early_stop),
    label=label_gae,
    draw=draw,
    minibatches=shuffled,
    learning_rate=scheduled_lr,
    init_opt=lambda config, common, policy: adam_init(common, policy),
    improve=improve,
    fit_critic=lambda config, problem: fit_least_squares(problem),
    keep=keep,
)
