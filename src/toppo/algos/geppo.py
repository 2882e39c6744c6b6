"""GePPO.    L(pi) = sum_mu nu_mu E_{rho^mu} min( r A, clip(r, c - eps, c + eps) A ),   r = pi/mu,   c = pi_k/mu

A = A^{pi_k} by V-trace, nu falls with the age of mu.

draw: last 4, weighted | label: V-trace, pi_k | objective: clip at c, +- eps | improve: Adam epochs, adaptive lr |
keep: last 3
"""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from toppo.algos import ppo
from toppo.algos.contract import Draw, Memory, PolicyProblem, PolicyUpdate
from toppo.algos.settings import require_above, require_least, setting
from toppo.algos.steps import label_vtrace, last


@dataclass(frozen=True)
class GePPOConfig:
    """Settings of GePPO."""

    n_steps: int = setting(1024, "Steps per batch.")
    clip_range: float = setting(0.2, "Clip range of PPO; GePPO's own is this divided by the mean age of the data.")
    mean_age: float = setting(2.0, "B: bound on the mean age of the data, where the newest batch has age 1.")
    uniform: bool = setting(False, "Equal weights for the last 2 B - 1 batches instead of the optimal ones.")
    eps_vary: bool = setting(False, "Clip range max(clip_range - mean(w |c - 1|), 0) instead.")
    early_stop: bool = setting(False, "End the epochs once the total variation from pi_k exceeds half the clip range.")
    adapt_lr: bool = setting(True, "Adapt the policy's learning rate to the total variation of each update.")

    def __post_init__(self) -> None:
        """Check every value."""
        require_least(self, 1, "n_steps", "mean_age")
        require_above(self, 0, "clip_range")


def policy_weights(config: GePPOConfig) -> np.ndarray:
    """nu_1 .. nu_M, the newest first:  min sum nu_i^2  subject to  sum nu_i = 1,  sum i nu_i <= B,  nu >= 0.

    The optimum is nu_i = max(0, a - b i); M is the number of its entries of at least 0.01.
    """
    bound = config.mean_age
    if config.uniform:
        count = max(1, round(2 * bound - 1))
        return np.full(count, 1.0 / count)
    nu = np.ones(1)
    for count in range(2, int(3 * bound) + 1 if bound > 1 else 2):  # a line that sums to 1 has reached 0 by age 3 B
        ages = np.arange(1.0, count + 1)
        a, b = np.linalg.solve([[count, -ages.sum()], [ages.sum(), -(ages @ ages)]], [1.0, bound])
        nu = a - b * ages
        if a - b * (count + 1) <= 0:
            break
    nu = nu[nu >= 0.01]
    return np.asarray(nu / nu.sum())


def draw(config: GePPOConfig, memory: Memory, gaps: list[float], rng: np.random.Generator) -> Draw:
    """All that is held, the newest first; weights have mean 1."""
    nu = policy_weights(config)
    clip_eps = config.clip_range / float(nu @ np.arange(1, len(nu) + 1))
    held = nu[: len(memory)] / nu[: len(memory)].sum()
    return Draw(memory[::-1], tuple(float(w) for w in held * len(held)), clip_eps)


def improve(config: GePPOConfig, problem: PolicyProblem) -> PolicyUpdate:
    """As PPO does, around c = pi_k/mu."""
    if not config.eps_vary:
        return ppo.improve(config, problem)
    sample = problem.sample
    drift = jnp.mean(sample.weight * jnp.abs(sample.centre - 1.0))
    varied = problem._replace(clip_eps=jnp.maximum(config.clip_range - drift, 0.0))
    improved = ppo.improve(config, varied)
    return improved._replace(report=improved.report | {"train/clip_range_varied": varied.clip_eps})


def keep(config: GePPOConfig, memory: Memory, kl: list[float]) -> Memory:
    """The last ones, near or far."""
    return last(memory, len(policy_weights(config)))


ALGORITHM = ppo.ALGORITHM._replace(
    name="geppo",
    title="GePPO",
    summary="last four batches, weighted, V-trace advantages, clipped around pi_k/mu",
    config=GePPOConfig,
    label=label_vtrace,
    relabel=lambda config: True,
    draw=draw,
    improve=improve,
    keep=keep,
)
