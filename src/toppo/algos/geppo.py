"""GePPO.    L(pi) = sum_i nu_i E_{rho^{pi_{k-i}}} min( r A, clip(r, c - eps, c + eps) A ),   r = pi/pi_{k-i},   A = A^{pi_k}

draw: last 4, weighted | label: V-trace, pi_k | objective: clip at c, +- eps | improve: Adam epochs, adaptive lr |
keep: last 3
"""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from toppo.algos import ppo
from toppo.algos.shared import label_vtrace, last
from toppo.types import Draw, Improved, Memory, Problem, require_above, require_least, setting


@dataclass(frozen=True)
class GePPOConfig:
    """Settings of GePPO."""

    n: int = setting(1024, "Steps per batch.")
    clip_eps: float = setting(0.2, "Clip range of PPO; GePPO's own is this divided by the mean age of the data.")
    mean_age: float = setting(2.0, "B: bound on the mean age of the data, where the newest batch has age 1.")
    uniform: bool = setting(False, "Equal weights for the last 2 B - 1 batches instead of the optimal ones.")
    eps_vary: bool = setting(False, "Clip range max(clip_eps - mean(w |c - 1|), 0) instead.")
    early_stop: bool = setting(False, "End the epochs once the total variation from pi_k exceeds half the clip range.")
    adapt_lr: bool = setting(True, "Adapt the policy's learning rate to the total variation of each update.")

    def __post_init__(self) -> None:
        """Check every value."""
        require_least(self, 1, "n", "mean_age")
        require_above(self, 0, "clip_eps")


def policy_weights(config: GePPOConfig) -> np.ndarray:
    """nu_1 .. nu_M, the newest first:  min sum nu_i^2  subject to  sum nu_i = 1,  sum i nu_i <= B,  nu >= 0.

    The optimum is nu_i = max(0, a - b i); M is the number of its entries of at least 0.01.
    """
    bound = config.mean_age
    if config.uniform:
        count = max(1, round(2 * bound - 1))
        return np.full(count, 1.0 / count)
    for count in range(1, int(3 * bound) + 2):  # the weights fall to 0 before age 3 B
        ages = np.arange(1.0, count + 2)
        normal = np.array([[count, -ages[:-1].sum()], [ages[:-1].sum(), -np.square(ages[:-1]).sum()]])
        if count == 1 and bound > 1:
            continue
        nu = np.ones(2) * (1.0, 0.0) if count == 1 else (lambda a, b: a - b * ages)(*np.linalg.solve(normal, [1, bound]))
        if nu[-1] <= 1e-12:
            break
    nu = nu[nu >= 0.01]
    return nu / nu.sum()


def draw(config: GePPOConfig, memory: Memory, gaps: list[float], rng: np.random.Generator) -> Draw:
    """All that is held, the newest first; weights have mean 1."""
    nu = policy_weights(config)
    clip_eps = config.clip_eps / float(nu @ np.arange(1, len(nu) + 1))
    held = nu[: len(memory)] / nu[: len(memory)].sum()
    return Draw(memory[::-1], tuple(float(w) for w in held * len(held)), clip_eps)


def improve(config: GePPOConfig, problem: Problem) -> Improved:
    """As PPO does, around c = pi_k/mu."""
    if not config.eps_vary:
        return ppo.improve(config, problem)
    sample = problem.sample
    drift = jnp.mean(sample.weight * jnp.abs(sample.centre - 1.0))
    varied = problem._replace(clip_eps=jnp.maximum(config.clip_eps - drift, 0.0))
    improved = ppo.improve(config, varied)
    return improved._replace(report=improved.report | {"train/clip_range_varied": varied.clip_eps})


def keep(config: GePPOConfig, memory: Memory, kl: list[float]) -> Memory:
    """The last ones, near or far."""
    return last(memory, len(policy_weights(config)))


ALGORITHM = ppo.ALGORITHM._replace(
    name="geppo",
    title="GePPO",
    config=GePPOConfig,
    label=label_vtrace,
    relabel=lambda config: True,
    draw=draw,
    improve=improve,
    keep=keep,
)
