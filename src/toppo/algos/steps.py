"""Steps that several algorithms have in common."""

from typing import Any

import numpy as np
from jax import Array

from toppo.algos.contract import AdamResult, CriticProblem, Memory, Segment
from toppo.algos.optimise import adam_init, least_squares, permutations
from toppo.algos.settings import Common, require
from toppo.maths.advantages import gae, vtrace


def anything(config: Any, common: Common, discrete: bool) -> None:
    """Check: all shared settings and both kinds of actions will do."""


def separate_networks(name: str, common: Common) -> None:
    """Refuse a trunk that policy and critic share, where the policy's step is not the critic's."""
    require(
        not common.shared_trunk,
        f"shared_trunk is True, but {name} moves policy and critic apart: use --no-shared-trunk",
    )


def no_gradient_bound(config: Any, common: Common, discrete: bool) -> None:
    """Check: a trust region bounds the step itself, and moves the policy alone."""
    separate_networks("a trust region", common)
    require(
        common.max_grad_norm == 0,
        f"max_grad_norm is {common.max_grad_norm}, but must be 0 here: the trust region bounds the step",
    )


def label_gae(
    config: Any,
    reward: Array,
    value: Array,
    next_value: Array,
    terminated: Array,
    ended: Array,
    ratio: Array,
    gamma: float,
    lam: float,
    after: Array,
) -> tuple[Array, Array]:
    """The advantage of the policy that acted."""
    return gae(reward, value, next_value, terminated, ended, gamma, lam)


def label_vtrace(config: Any, *path: Any) -> tuple[Array, Array]:
    """The advantage of pi_k, whoever acted."""
    return vtrace(*path)


def shuffled(config: Any, common: Common, weights: tuple[float, ...], rng: np.random.Generator) -> np.ndarray:
    """Every sample once per epoch."""
    return permutations(common, config.n_steps * len(weights), rng)


def scheduled_lr(config: Any, common: Common, progress: float) -> float:
    """The learning rate, falling to 0 over the run if it is annealed."""
    return common.learning_rate * (1 - (progress if common.anneal_lr else 0.0))


def adam_moments(config: Any, common: Common, policy: Any) -> Any:
    """What ``improve`` carries on: Adam's moments."""
    return adam_init(common, policy)


def nothing(config: Any, common: Common, policy: Any) -> tuple[()]:
    """What ``improve`` carries on: a trust region starts afresh every time."""
    return ()


def regress(config: Any, problem: CriticProblem) -> AdamResult:
    """The critic by least squares."""
    return least_squares(problem)


def newest_and_some(memory: Memory, n_old: int, rng: np.random.Generator) -> tuple[Segment, ...]:
    """The newest batch and ``n_old`` different older ones, uniformly drawn; all of them if there are fewer."""
    old, chosen = list(memory[:-1]), [memory[-1]]
    while old and len(chosen) <= n_old:
        chosen.append(old.pop(rng.integers(len(old))))
    return tuple(chosen)


def last(memory: Memory, n_policies: int) -> Memory:
    """The newest batches; the next one joins them, so at most ``n_policies`` - 1."""
    return memory[max(0, len(memory) - (n_policies - 1)) :]
