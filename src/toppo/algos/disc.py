"""DISC.    L(pi) = E[ W A ] / E[W] - alpha J,   W = prod_d clip_A(rho_d, 1 - eps, 1 + eps),   rho_d = pi/mu at a_d

clip_A clips from above where A > 0, from below where A < 0.   J = E_{pi_k} (log pi/pi_k)^2 / 2, the IS penalty.

draw: newest + included old | label: GAE-V, pi_k | surrogate: per-dimension clip | improve: Adam epochs, IS penalty |
keep: last 63
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from toppo.algos import optimise, ppo
from toppo.algos.contract import Draw, Memory, PolicyProblem, PolicyUpdate, Sample, Traits, Tree
from toppo.algos.schedules import Schedule, points_of, value_at
from toppo.algos.settings import Common, require, require_least, setting
from toppo.algos.steps import keep_last, label_vtrace, require_separate_networks, scheduled_lr
from toppo.maths.advantages import standardise
from toppo.maths.surrogates import per_dimension_weight

SIZES = (0, 1, *(size for power in range(1, 30) for size in (2**power, 3 * 2 ** (power - 1))))  # 2, 3, 4, 6, 8, 12 ..


@dataclass(frozen=True)
class DISCConfig:
    """Settings of DISC."""

    n_steps: int = setting(2048, "Steps per batch.")
    clip_range: Schedule = setting(
        0.4, "Clip range of the ratio of every action dimension, and of the critic's change."
    )
    n_policies: int = setting(64, "L: batches held at most, the newest included.")
    eps_b: float = setting(0.1, "Old batches take part while mean |1 - rho_d| is at most this.")
    alpha_is: float = setting(1.0, "Weight of the IS penalty in the first update; 0 switches the penalty off.")
    j_target: float = setting(0.001, "The weight doubles above 1.5 times this and halves below this / 1.5.")
    lr_min: float = setting(1e-4, "The learning rate falls no lower.")

    def __post_init__(self) -> None:
        require_least(self, 1, "n_steps", "n_policies")
        require_least(self, 0, "clip_range", "eps_b", "alpha_is", "j_target", "lr_min")


def check(config: DISCConfig, common: Common, discrete: bool) -> None:
    """Refuse discrete actions, which have no dimensions, and a shared trunk: the critic has a loss of its own."""
    require(not discrete, "disc needs continuous actions, but the environment's are discrete: use another algorithm")
    require_separate_networks("disc", common)
    highest = max(value for _, value in points_of(common.learning_rate))
    require(
        highest >= config.lr_min,
        f"learning_rate is {highest}, but must be at least lr_min = {config.lr_min}: lower --lr-min too",
    )


def draw(config: DISCConfig, memory: Memory, gaps: list[float], progress: float, rng: np.random.Generator) -> Draw:
    """Train on the newest batch and on all old ones near pi_k, with padding, so that few sizes have to be compiled."""
    near = [batch for batch, gap in zip(memory[:-1], gaps[:-1], strict=True) if gap <= config.eps_b]
    padding = next(size for size in SIZES if size >= len(near)) - len(near)
    segments = (memory[-1], *reversed(near), *memory[-1:] * padding)
    return Draw(segments, (1.0,) * (1 + len(near)) + (0.0,) * padding, value_at(config.clip_range, progress))


def minibatches(config: DISCConfig, common: Common, weights: tuple[float, ...], rng: np.random.Generator) -> np.ndarray:
    """Draw per step, with replacement, n / minibatches samples of the newest batch and as many of each old one."""
    n = config.n_steps
    used = int(sum(weights))
    size = n // common.n_minibatches
    steps = (common.n_epochs, common.n_minibatches)
    newest = rng.integers(n, size=(*steps, size))
    old = rng.integers(n, max(used, 2) * n, size=(*steps, size * (used - 1)))
    padding = np.full((*steps, size * (len(weights) - used)), used * n)
    return np.concatenate([newest, old, padding], axis=-1).astype(np.int32)


def init_opt(config: DISCConfig, common: Common, policy: Tree) -> tuple[Tree, Array]:
    """Carry Adam's moments and alpha_IS."""
    return optimise.adam_init(common, policy), jnp.float32(config.alpha_is)


def surrogate(ratio: Array, adv: Array, weight: Array, clip_eps: Array) -> Array:
    """E[ W A ] / E[W] over the samples of weight above 0.  ratio [B, D], the others [B] -> []"""
    clipped = per_dimension_weight(ratio, adv, clip_eps)
    return jnp.mean(weight * clipped * adv) / jax.lax.stop_gradient(jnp.mean(weight * clipped))


def is_penalty(log_ratio: Array, newest: Array) -> Array:
    """J = E_{pi_k} (log pi/pi_k)^2 / 2, on the newest batch.  [B, D], [B] -> []"""
    return 0.5 * (newest * jnp.square(log_ratio.sum(-1))).sum() / newest.sum()


def improve(config: DISCConfig, problem: PolicyProblem) -> PolicyUpdate:
    """Take Adam epochs on the surrogate less the penalty; padding has weight 0 and drops out of every mean."""
    net = problem.net
    common = problem.common
    log_prob = net.family.log_prob_per_dimension
    adam, alpha = problem.opt
    weight = problem.sample.weight
    sample = problem.sample._replace(weight=weight / weight.mean())  # mean(w x) is then a mean without padding

    def objective(policy: Tree, batch: Sample) -> tuple[Array, Array]:
        dist = net.policy(policy, batch.obs)
        weight = batch.weight / batch.weight.mean()
        log_ratio = log_prob(dist, batch.action) - log_prob(batch.dist_mu, batch.action)
        adv = standardise(batch.adv, jnp.minimum(1.0, batch.centre), weight > 0)
        penalty = is_penalty(log_ratio, batch.newest)
        gain = surrogate(jnp.exp(log_ratio), adv, weight, problem.clip_eps)
        return gain - alpha * penalty + optimise.entropy_bonus(problem, dist), penalty

    data = sample._replace(dist_k=None)
    given = problem._replace(sample=sample, opt=adam)
    result = optimise.adam_epochs(objective, problem.policy, given, data, problem.lr, None, common.max_grad_norm)
    update, _ = optimise.measured_update(given, result.params)
    dist = net.policy(result.params, sample.obs)
    change = jnp.expm1(log_prob(dist, sample.action) - log_prob(sample.dist_mu, sample.action))
    report = update.report | optimise.clip_fractions(sample, (jnp.abs(change) > problem.clip_eps).any(-1))
    report |= {
        "memory/included": (sample.weight > 0).sum() / config.n_steps - 1,
        "train/alpha_is": alpha,
        "train/approx_kl": jnp.mean(sample.weight * net.family.kl(sample.dist_k, dist)),
        "train/grad_norm_policy": result.grad_norm,
        "train/is_penalty": result.extra,
        "train/policy_gradient_loss": -result.objective,
    }
    opt = (result.opt, adapt_penalty(alpha, result.extra, config.j_target))
    return update._replace(opt=opt, epochs=result.epochs, report=report)


def adapt_penalty(alpha: Array, penalty: Array, target: float) -> Array:
    """Double a penalty's weight when the penalty is above 1.5 target, halve it when below target / 1.5; 0 stays 0."""
    factor = jnp.where(penalty > 1.5 * target, 2.0, jnp.where(penalty < target / 1.5, 0.5, 1.0))
    return jnp.where(alpha > 0, jnp.clip(alpha * factor, 2.0**-10, 64.0), 0.0)


ALGORITHM = ppo.ALGORITHM._replace(
    name="disc",
    title="DISC",
    summary="newest batch and all old ones that pi_k is near, clipped per action dimension; continuous actions only",
    config=DISCConfig,
    common={
        "reset_each_batch": False,
        "learning_rate": 3e-4,
        "anneal_lr": True,
        "adam_eps": 1e-5,
        "max_grad_norm": 0.0,
    },
    check=check,
    traits=lambda config: Traits(relabels=True, traces_cross_batches=True),
    label=label_vtrace,
    draw=draw,
    minibatches=minibatches,
    learning_rate=lambda config, common, progress: max(config.lr_min, scheduled_lr(config, common, progress)),
    init_opt=init_opt,
    improve=improve,
    fit_critic=lambda config, problem: optimise.fit_clipped_least_squares(problem),
    keep=lambda config, memory, kl: keep_last(memory, config.n_policies),
)
