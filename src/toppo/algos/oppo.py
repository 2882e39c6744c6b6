"""Off-policy PPO.    L(pi) = E_{rho^mu} min( r A, clip(r, (1 - eps) c, (1 + eps) c) A ),   r = pi/mu,   c = pi_k/mu

draw: newest + 1 old | label: V-trace, pi_k | objective: clip at c, * eps | improve: Adam epochs | keep: last 4
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jax import Array

from toppo.algos import ppo
from toppo.algos.contract import Draw, Memory, PolicyProblem, PolicyUpdate
from toppo.algos.optimise import adam_improve
from toppo.algos.otrpo import keep
from toppo.algos.settings import require_above, require_least, setting
from toppo.algos.steps import label_gae, label_vtrace, newest_and_some
from toppo.maths.surrogates import multiplicative_bounds


@dataclass(frozen=True)
class OffPolicyPPOConfig:
    """Settings of off-policy PPO."""

    n_steps: int = setting(1024, "Steps per batch.")
    clip_range: float = setting(0.2, "Clip range of pi/pi_k.")
    n_policies: int = setting(5, "Batches held at most, the newest included.")
    n_old: int = setting(1, "Older batches drawn per update; n_policies - 1 for all.")
    vtrace: bool = setting(True, "Correct the traces of old data for pi_k; without it plain GAE by the newest critic.")

    def __post_init__(self) -> None:
        """Check every value."""
        require_least(self, 1, "n_steps", "n_policies")
        require_least(self, 0, "n_old")
        require_above(self, 0, "clip_range")


def draw(config: OffPolicyPPOConfig, memory: Memory, gaps: list[float], rng: np.random.Generator) -> Draw:
    """The newest batch and some uniformly drawn older ones."""
    segments = newest_and_some(memory, config.n_old, rng)
    return Draw(segments, (1.0,) * len(segments), config.clip_range)


def label(config: OffPolicyPPOConfig, *path: Any) -> tuple[Array, Array]:
    """V-trace, or GAE."""
    return (label_vtrace if config.vtrace else label_gae)(config, *path)


def improve(config: OffPolicyPPOConfig, problem: PolicyProblem) -> PolicyUpdate:
    """Adam epochs on PPO's own clip of pi/pi_k, weighted by c."""
    return adam_improve(problem, multiplicative_bounds, early_stop=False, adapt=False)


ALGORITHM = ppo.ALGORITHM._replace(
    name="oppo",
    title="Off-policy PPO",
    summary="newest batch and an old one, V-trace advantages, clipped around pi_k/mu by a factor",
    config=OffPolicyPPOConfig,
    label=label,
    relabel=lambda config: True,
    draw=draw,
    improve=improve,
    stops_early=lambda config: False,
    keep=keep,
)
