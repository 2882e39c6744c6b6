"""PPO.    L(pi) = E_{pi_k} min( r A, clip(r, 1 - eps, 1 + eps) A ),   r = pi/pi_k,   A = A^{pi_k} by GAE

draw: newest | label: GAE | objective: clip at 1 | improve: Adam epochs | keep: nothing
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from toppo.algos.contract import Algorithm, Draw, Memory, PolicyProblem, PolicyUpdate
from toppo.algos.optimise import adam_improve
from toppo.algos.settings import require_above, require_least, setting
from toppo.algos.steps import adam_moments, anything, label_gae, regress, scheduled_lr, shuffled
from toppo.maths.surrogates import additive_bounds


@dataclass(frozen=True)
class PPOConfig:
    """Settings of PPO."""

    n_steps: int = setting(2048, "Steps per batch.")
    clip_range: float = setting(0.2, "Clip range of the ratio.")
    early_stop: bool = setting(False, "End the epochs once the total variation from pi_k exceeds clip_range / 2.")
    adapt_lr: bool = setting(False, "Adapt the policy's learning rate to the total variation of each update.")

    def __post_init__(self) -> None:
        """Check every value."""
        require_least(self, 1, "n_steps")
        require_above(self, 0, "clip_range")


def draw(config: PPOConfig, memory: Memory, gaps: list[float], rng: np.random.Generator) -> Draw:
    """The newest batch."""
    return Draw(memory[-1:], (1.0,), config.clip_range)


def improve(config: Any, problem: PolicyProblem) -> PolicyUpdate:
    """Adam epochs on the surrogate, clipped around the centre c = pi_k/mu: around 1 on the newest batch."""
    return adam_improve(problem, additive_bounds, config.early_stop, config.adapt_lr)


def keep(config: Any, memory: Memory, kl: list[float]) -> Memory:
    """Nothing: every batch is used once."""
    return ()


# The others say only where they differ from this.
ALGORITHM = Algorithm(
    name="ppo",
    title="PPO",
    summary="newest batch, clipped around 1",
    config=PPOConfig,
    common={},
    check=anything,
    label=label_gae,
    relabel=lambda config: False,
    traces_cross_batches=False,
    draw=draw,
    order=shuffled,
    lr=scheduled_lr,
    init_opt=adam_moments,
    improve=improve,
    whole_batch=lambda config: False,
    stops_early=lambda config: config.early_stop,
    value_on_old=lambda config: True,
    regress=regress,
    keep=keep,
)
