"""TRPO.    max E_{pi_k}[ r A ]   subject to   E_s KL(pi_k || pi) <= delta,   r = pi/pi_k,   A = A^{pi_k} by GAE

draw: newest | label: GAE | surrogate: linear, r A | improve: trust region | keep: nothing
"""

from dataclasses import dataclass

import numpy as np

from toppo.algos import ppo
from toppo.algos.contract import Draw, Memory, PolicyProblem, PolicyUpdate, Traits
from toppo.algos.optimise import TrustRegion, trust_region_update
from toppo.algos.settings import require, require_above, require_least, setting
from toppo.algos.steps import no_gradient_clipping, no_optimiser_state


@dataclass(frozen=True)
class TRPOConfig:
    """Settings of TRPO."""

    n_steps: int = setting(1024, "Steps per batch.")
    delta: float = setting(0.01, "Bound on the mean KL(pi_k || pi).")
    cg_iterations: int = setting(20, "Iterations of conjugate gradient at most.")
    damping: float = setting(0.01, "Added to the diagonal of the Fisher matrix.")
    slack: float = setting(1.5, "A step is accepted when its mean KL is at most this times delta.")
    shrink: float = setting(0.5**0.5, "Factor on the step each time it is not accepted.")
    backtracks: int = setting(10, "Steps tried at most; if none is accepted the policy stays.")

    def __post_init__(self) -> None:
        require_least(self, 1, "n_steps", "cg_iterations", "backtracks")
        require_above(self, 0, "delta", "slack")
        require_least(self, 0, "damping")
        require(0 < self.shrink < 1, f"shrink is {self.shrink}, but must be in (0, 1)")


def draw(config: TRPOConfig, memory: Memory, gaps: list[float], progress: float, rng: np.random.Generator) -> Draw:
    """Train on the newest batch."""
    return Draw(memory[-1:], (1.0,))


def improve(config: TRPOConfig, problem: PolicyProblem) -> PolicyUpdate:
    """Take one natural-gradient step on r A."""
    region = TrustRegion(
        delta=config.delta,
        cg_iterations=config.cg_iterations,
        damping=config.damping,
        slack=config.slack,
        shrink=config.shrink,
        backtracks=config.backtracks,
    )
    return trust_region_update(problem, region)


ALGORITHM = ppo.ALGORITHM._replace(
    name="trpo",
    title="TRPO",
    summary="newest batch, natural-gradient step under a KL bound",
    config=TRPOConfig,
    common={"max_grad_norm": 0.0},
    check=no_gradient_clipping,
    traits=lambda config: Traits(whole_batch_gradient=True),
    draw=draw,
    init_opt=no_optimiser_state,
    improve=improve,
)
