"""Off-policy PPO.    L(pi) = E_{rho^mu} min( r A, clip(r, (1 - eps) c, (1 + eps) c) A ),   r = pi/mu,   c = pi_k/mu

draw: newest + 1 old | label: V-trace, pi_k | surrogate: clip at c, * eps | improve: Adam epochs | keep: last 4
"""

from dataclasses import dataclass

import numpy as np
from jax import Array

from toppo.algos import ppo
from toppo.algos.contract import Draw, Memory, PolicyProblem, PolicyUpdate, Traits, Trajectory
from toppo.algos.optimise import adam_update
from toppo.algos.otrpo import keep
from toppo.algos.schedules import Schedule, value_at
from toppo.algos.settings import require_above, require_least, setting
from toppo.algos.steps import label_gae, label_vtrace, newest_and_random
from toppo.maths.surrogates import clipped, multiplicative_bounds


@dataclass(frozen=True)
class OffPolicyPPOConfig:
    """Settings of off-policy PPO."""

    n_steps: int = setting(1024, "Steps per batch.")
    clip_range: Schedule = setting(0.2, "Clip range of pi/pi_k.")
    n_policies: int = setting(5, "Batches held at most, the newest included.")
    n_old: int = setting(1, "Older batches drawn per update; n_policies - 1 for all.")
    vtrace: bool = setting(True, "Correct the traces of old data for pi_k; without it plain GAE by the newest critic.")

    def __post_init__(self) -> None:
        require_least(self, 1, "n_steps", "n_policies")
        require_least(self, 0, "n_old")
        require_above(self, 0, "clip_range")


def draw(
    config: OffPolicyPPOConfig, memory: Memory, gaps: list[float], progress: float, rng: np.random.Generator
) -> Draw:
    """Train on the newest batch and on some uniformly drawn old ones."""
    segments = newest_and_random(memory, config.n_old, rng)
    return Draw(segments, (1.0,) * len(segments), value_at(config.clip_range, progress))


def label(config: OffPolicyPPOConfig, path: Trajectory) -> tuple[Array, Array]:
    """Return V-trace's advantage of pi_k, or GAE's by the critic of pi_k."""
    return label_vtrace(config, path) if config.vtrace else label_gae(config, path)


def surrogate(ratio: Array, centre: Array, adv: Array, clip_eps: Array) -> Array:
    """min( r A, clip(r, (1 - eps) c, (1 + eps) c) A )"""
    return clipped(ratio, adv, *multiplicative_bounds(centre, clip_eps))


def improve(config: OffPolicyPPOConfig, problem: PolicyProblem) -> PolicyUpdate:
    """Take Adam epochs on the surrogate: PPO's own clip of pi/pi_k, weighted by c."""
    return adam_update(problem, surrogate)


ALGORITHM = ppo.ALGORITHM._replace(
    name="oppo",
    title="Off-policy PPO",
    summary="newest batch and an old one, V-trace advantages, clipped around pi_k/mu by a factor",
    config=OffPolicyPPOConfig,
    traits=lambda config: Traits(relabels=True),
    label=label,
    draw=draw,
    improve=improve,
    keep=keep,
)
