"""GePPO.    L(pi) = sum_mu nu_mu E_{rho^mu} min( r A, clip(r, c - eps, c + eps) A ),   r = pi/mu,   c = pi_k/mu

A = A^{pi_k} by V-trace, nu falls with the age of mu.

draw: last 4, weighted | label: V-trace, pi_k | surrogate: clip at c, +- eps | improve: Adam epochs, adaptive lr |
keep: last 3
"""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax import Array

from toppo.algos import ppo
from toppo.algos.contract import Draw, Memory, PolicyProblem, PolicyUpdate, Traits, Trajectory
from toppo.algos.optimise import adam_update
from toppo.algos.schedules import Schedule, value_at
from toppo.algos.settings import require_above, require_least, setting
from toppo.algos.steps import keep_last, label_gae, label_vtrace
from toppo.maths.surrogates import additive_bounds, clipped


@dataclass(frozen=True)
class GePPOConfig:
    """Settings of GePPO."""

    n_steps: int = setting(1024, "Steps per batch.")
    clip_range: Schedule = setting(0.2, "Clip range of PPO; GePPO's own is this divided by the mean age of the data.")
    mean_age: float = setting(2.0, "B: bound on the mean age of the data, where the newest batch has age 1.")
    uniform: bool = setting(False, "Equal weights for the last 2 B - 1 batches instead of the optimal ones.")
    eps_vary: bool = setting(False, "Clip range max(clip_range - mean(w |c - 1|), 0) instead.")
    recompute_adv: bool = setting(True, "Label old batches again with the newest critic instead of keeping A^mu.")
    vtrace: bool = setting(True, "Correct the traces of old data for pi_k; without it plain GAE by the newest critic.")
    early_stop: bool = setting(False, "End the epochs once the total variation from pi_k exceeds half the clip range.")
    adapt_lr: bool = setting(True, "Adapt the policy's learning rate to the total variation of each update.")

    def __post_init__(self) -> None:
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


def label(config: GePPOConfig, path: Trajectory) -> tuple[Array, Array]:
    """Return V-trace's advantage of pi_k, or GAE's; they are the same on data of pi_k."""
    return label_vtrace(config, path) if config.vtrace else label_gae(config, path)


def draw(config: GePPOConfig, memory: Memory, gaps: list[float], progress: float, rng: np.random.Generator) -> Draw:
    """Train on all that is held, the newest first; the weights have mean 1."""
    nu = policy_weights(config)
    clip_eps = value_at(config.clip_range, progress) / float(nu @ np.arange(1, len(nu) + 1))
    held = nu[: len(memory)] / nu[: len(memory)].sum()
    return Draw(memory[::-1], tuple(float(w) for w in held * len(held)), clip_eps)


def surrogate(ratio: Array, centre: Array, adv: Array, clip_eps: Array) -> Array:
    """min( r A, clip(r, c - eps, c + eps) A )"""
    return clipped(ratio, adv, *additive_bounds(centre, clip_eps))


def improve(config: GePPOConfig, problem: PolicyProblem) -> PolicyUpdate:
    """Take Adam epochs on the surrogate; with ``eps_vary``, eps shrinks as the data are further from pi_k."""
    if not config.eps_vary:
        return adam_update(problem, surrogate, early_stop=config.early_stop, adapt_lr=config.adapt_lr)
    distance = jnp.mean(problem.sample.weight * jnp.abs(problem.sample.centre - 1.0))
    eps = jnp.maximum(problem.clip_range - distance, 0.0)
    update = adam_update(problem._replace(clip_eps=eps), surrogate, config.early_stop, config.adapt_lr)
    return update._replace(report=update.report | {"train/clip_range_varied": eps})


def keep(config: GePPOConfig, memory: Memory, kl: list[float]) -> Memory:
    """Keep the last batches, near or far."""
    return keep_last(memory, len(policy_weights(config)))


ALGORITHM = ppo.ALGORITHM._replace(
    name="geppo",
    title="GePPO",
    summary="last four batches, weighted, V-trace advantages, clipped around pi_k/mu",
    config=GePPOConfig,
    traits=lambda config: Traits(relabels=config.recompute_adv, stops_early=config.early_stop),
    label=label,
    draw=draw,
    improve=improve,
    keep=keep,
)
