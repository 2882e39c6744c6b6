"""Off-policy TRPO.    max E_{rho^mu}[ r A ]   subject to   E_s KL(pi_k || pi) <= delta,   r = pi/mu,   A = A^{pi_k}

draw: newest + 1 old | label: V-trace, pi_k | surrogate: linear, r A | improve: trust region | keep: last 4
"""

from dataclasses import dataclass

import numpy as np
from jax import Array

from toppo.algos import trpo
from toppo.algos.contract import Draw, Memory, PolicyProblem, PolicyUpdate, Traits
from toppo.algos.optimise import TrustRegion, trust_region_update
from toppo.algos.settings import require_above, require_least, setting
from toppo.algos.steps import keep_last, label_vtrace, newest_and_random
from toppo.maths.trust_region import radius_after_drift


@dataclass(frozen=True)
class OffPolicyTRPOConfig:
    """Settings of off-policy TRPO; the step itself is TRPO's."""

    n_steps: int = setting(1024, "Steps per batch.")
    delta: float = setting(0.01, "Bound on the mean KL(pi_k || pi).")
    n_policies: int = setting(5, "Batches held at most, the newest included.")
    n_old: int = setting(1, "Older batches drawn per update; n_policies - 1 for all.")
    adapt_radius: bool = setting(False, "Shrink delta with the drift b = mean KL(mu || pi_k) of the data.")

    def __post_init__(self) -> None:
        require_least(self, 1, "n_steps", "n_policies")
        require_least(self, 0, "n_old")
        require_above(self, 0, "delta")


def draw(
    config: OffPolicyTRPOConfig, memory: Memory, gaps: list[float], progress: float, rng: np.random.Generator
) -> Draw:
    """Train on the newest batch and on some uniformly drawn old ones."""
    segments = newest_and_random(memory, config.n_old, rng)
    return Draw(segments, (1.0,) * len(segments))


def improve(config: OffPolicyTRPOConfig, problem: PolicyProblem) -> PolicyUpdate:
    """Take one natural-gradient step on r A."""
    delta: float | Array = config.delta
    if config.adapt_radius:
        drift = problem.net.family.kl(problem.sample.dist_mu, problem.sample.dist_k).mean()
        delta = radius_after_drift(delta, drift)
    return trust_region_update(problem, TrustRegion(delta))


def keep(config: OffPolicyTRPOConfig, memory: Memory, kl: list[float]) -> Memory:
    """Keep the last batches, near or far."""
    return keep_last(memory, config.n_policies)


ALGORITHM = trpo.ALGORITHM._replace(
    name="otrpo",
    title="Off-policy TRPO",
    summary="newest batch and an old one, V-trace advantages, natural-gradient step under a KL bound",
    config=OffPolicyTRPOConfig,
    traits=lambda config: Traits(relabels=True, whole_batch_gradient=True),
    label=label_vtrace,
    draw=draw,
    improve=improve,
    keep=keep,
)
