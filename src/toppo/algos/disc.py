"""DISC.    L(pi) = E[ W A ] / E[W] - alpha J,   W = prod_d clip_A(rho_d, 1 - eps, 1 + eps),   rho_d = pi/mu at a_d

clip_A clips from above where A > 0, from below where A < 0.   J = E_{pi_k} (log pi/pi_k)^2 / 2, the IS penalty.

draw: newest + included old | label: GAE-V, pi_k | objective: per-dimension clip | improve: Adam epochs, IS penalty |
keep: last 63
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from toppo.algos import ppo
from toppo.algos.contract import Draw, Memory, PolicyProblem, PolicyUpdate, Sample
from toppo.algos.optimise import adam_epochs, adapt_penalty, always, clip_fractions, clipped_least_squares, measure
from toppo.algos.settings import Common, require, require_least, setting
from toppo.algos.steps import adam_moments, label_vtrace, last, scheduled_lr, separate_networks
from toppo.maths.advantages import standardise
from toppo.maths.surrogates import per_dimension_weight

SIZES = (0, 1, *(size for power in range(1, 30) for size in (2**power, 3 * 2 ** (power - 1))))  # 2, 3, 4, 6, 8, 12 ..


@dataclass(frozen=True)
class DISCConfig:
    """Settings of DISC."""

    n_steps: int = setting(2048, "Steps per batch.")
    clip_range: float = setting(0.4, "Clip range of the ratio of every action dimension, and of the critic's change.")
    n_policies: int = setting(64, "L: batches held at most, the newest included.")
    eps_b: float = setting(0.1, "Old batches take part while mean |1 - rho_d| is at most this.")
    alpha_is: float = setting(1.0, "Weight of the IS penalty in the first update; 0 switches the penalty off.")
    j_target: float = setting(0.001, "The weight doubles above 1.5 times this and halves below this / 1.5.")
    lr_min: float = setting(1e-4, "The learning rate falls no lower.")

    def __post_init__(self) -> None:
        """Check every value."""
        require_least(self, 1, "n_steps", "n_policies")
        require_least(self, 0, "clip_range", "eps_b", "alpha_is", "j_target", "lr_min")


def check(config: DISCConfig, common: Common, discrete: bool) -> None:
    """Dimensions of a discrete action do not exist; and the critic's loss is its own."""
    require(not discrete, "disc needs continuous actions, but the environment's are discrete: use another algorithm")
    separate_networks("disc", common)
    require(
        common.learning_rate >= config.lr_min,
        f"learning_rate is {common.learning_rate}, but must be at least lr_min = {config.lr_min}: lower --lr-min too",
    )


def draw(config: DISCConfig, memory: Memory, gaps: list[float], rng: np.random.Generator) -> Draw:
    """The newest batch, those old ones that pi_k is near, and padding, so that few sizes have to be compiled."""
    near = [batch for batch, gap in zip(memory[:-1], gaps[:-1], strict=True) if gap <= config.eps_b]
    padding = next(size for size in SIZES if size >= len(near)) - len(near)
    segments = (memory[-1], *reversed(near), *memory[-1:] * padding)
    return Draw(segments, (1.0,) * (1 + len(near)) + (0.0,) * padding, config.clip_range)


def order(config: DISCConfig, common: Common, weights: tuple[float, ...], rng: np.random.Generator) -> np.ndarray:
    """Per step, with replacement: n / minibatches samples of the newest batch and as many times K of the K old ones."""
    n, used, size = config.n_steps, int(sum(weights)), config.n_steps // common.n_minibatches
    steps = (common.n_epochs, common.n_minibatches)
    newest = rng.integers(n, size=(*steps, size))
    old = rng.integers(n, max(used, 2) * n, size=(*steps, size * (used - 1)))
    padding = np.full((*steps, size * (len(weights) - used)), used * n)
    return np.concatenate([newest, old, padding], axis=-1).astype(np.int32)


def init_opt(config: DISCConfig, common: Common, policy: Any) -> tuple[Any, Array]:
    """Adam's moments and alpha_IS."""
    return adam_moments(config, common, policy), jnp.float32(config.alpha_is)


def improve(config: DISCConfig, problem: PolicyProblem) -> PolicyUpdate:
    """Adam epochs; padding has weight 0 and drops out of every mean."""
    net, common, log_prob = problem.net, problem.common, problem.net.family.log_prob_per_dimension
    sample, (adam, alpha) = problem.sample, problem.opt
    sample = sample._replace(weight=sample.weight / sample.weight.mean())  # mean(w x) is then a mean without padding

    def objective(policy: Any, batch: Sample) -> tuple[Array, Array]:
        dist, weight = net.policy(policy, batch.obs), batch.weight / batch.weight.mean()
        log_ratio = log_prob(dist, batch.action) - log_prob(batch.dist_mu, batch.action)
        adv = standardise(batch.adv, jnp.minimum(1.0, batch.centre), weight > 0)
        clipped = per_dimension_weight(jnp.exp(log_ratio), adv, problem.clip_eps)
        surrogate = jnp.mean(weight * clipped * adv) / jax.lax.stop_gradient(jnp.mean(weight * clipped))
        penalty = 0.5 * (batch.newest * jnp.square(log_ratio.sum(-1))).sum() / batch.newest.sum()
        bonus = common.ent_coef * net.family.entropy(dist).mean() if common.ent_coef else 0.0
        return surrogate - alpha * penalty + bonus, penalty

    data, order = sample._replace(dist_k=None), problem.order
    done = adam_epochs(objective, problem.policy, adam, data, order, problem.lr, common, always, common.max_grad_norm)
    tv, seen, _, report = measure(problem._replace(sample=sample), done.params)
    dist = net.policy(done.params, sample.obs)
    change = jnp.expm1(log_prob(dist, sample.action) - log_prob(sample.dist_mu, sample.action))
    report |= clip_fractions(sample, (jnp.abs(change) > problem.clip_eps).any(-1)) | {
        "memory/included": (sample.weight > 0).sum() / config.n_steps - 1,
        "train/alpha_is": alpha,
        "train/approx_kl": jnp.mean(sample.weight * net.family.kl(sample.dist_k, dist)),
        "train/grad_norm_policy": done.grad_norm,
        "train/is_penalty": done.extra,
        "train/policy_gradient_loss": -done.objective,
    }
    weight = adapt_penalty(alpha, done.extra, config.j_target)
    return PolicyUpdate(done.params, (done.opt, weight), problem.lr_scale, done.epochs, tv, seen, report)


ALGORITHM = ppo.ALGORITHM._replace(
    name="disc",
    title="DISC",
    summary="newest batch and all old ones that pi_k is near, clipped per action dimension; continuous actions only",
    config=DISCConfig,
    common={"reset_each_batch": False, "anneal_lr": True, "adam_eps": 1e-5, "max_grad_norm": 0.0},
    check=check,
    label=label_vtrace,
    relabel=lambda config: True,
    traces_cross_batches=True,
    draw=draw,
    order=order,
    lr=lambda config, common, progress: max(config.lr_min, scheduled_lr(config, common, progress)),
    init_opt=init_opt,
    improve=improve,
    stops_early=lambda config: False,
    regress=lambda config, problem: clipped_least_squares(problem, config.clip_range),
    keep=lambda config, memory, kl: last(memory, config.n_policies),
)
