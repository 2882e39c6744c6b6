"""Steps that several algorithms have in common."""

import numpy as np
from jax import Array

from toppo.algos.contract import Config, Memory, Segment, Trajectory, Tree
from toppo.algos.schedules import value_at
from toppo.algos.settings import Common, require
from toppo.maths.advantages import gae, vtrace


def no_restrictions(config: Config, common: Common, discrete: bool) -> None:
    """Check: accept all shared settings and both kinds of actions."""


def require_separate_networks(name: str, common: Common) -> None:
    """Refuse a trunk that policy and critic share, if they are not updated in the same step."""
    require(
        not common.shared_trunk,
        f"shared_trunk is True, but {name} updates policy and critic separately: use --no-shared-trunk",
    )


def no_gradient_clipping(config: Config, common: Common, discrete: bool) -> None:
    """Check: a trust region bounds the step itself, and updates the policy alone."""
    require_separate_networks("a trust region", common)
    require(
        common.max_grad_norm == 0,
        f"max_grad_norm is {common.max_grad_norm}, but must be 0 here: the trust region bounds the step",
    )


def label_gae(config: Config, path: Trajectory) -> tuple[Array, Array]:
    """Return the advantage of the policy that acted, by GAE."""
    return gae(path.reward, path.value, path.next_value, path.terminated, path.ended, path.gamma, path.lam)


def label_vtrace(config: Config, path: Trajectory) -> tuple[Array, Array]:
    """Return the advantage of pi_k, whichever policy acted, by V-trace."""
    return vtrace(*path)


def shuffled(config: Config, common: Common, weights: tuple[float, ...], rng: np.random.Generator) -> np.ndarray:
    """Visit every sample once per epoch, in equal minibatches; drop the remainder.  -> [epochs, minibatches, size]"""
    count = config.n_steps * len(weights)
    rows = rng.permuted(np.tile(np.arange(count, dtype=np.int32), (common.n_epochs, 1)), axis=1)
    size = count // common.n_minibatches
    return rows[:, : size * common.n_minibatches].reshape(common.n_epochs, common.n_minibatches, size)


def scheduled_lr(config: Config, common: Common, progress: float) -> float:
    """Return the learning rate; if it is annealed, it falls to 0 over the run."""
    return value_at(common.learning_rate, progress) * (1 - (progress if common.anneal_lr else 0.0))


def no_optimiser_state(config: Config, common: Common, policy: Tree) -> tuple[()]:
    """Carry nothing: a trust region starts afresh every time."""
    return ()


def newest_and_random(memory: Memory, n_old: int, rng: np.random.Generator) -> tuple[Segment, ...]:
    """Return the newest batch and ``n_old`` different old ones, uniformly drawn; all of them if there are fewer."""
    old = list(memory[:-1])
    chosen = [memory[-1]]
    while old and len(chosen) <= n_old:
        chosen.append(old.pop(rng.integers(len(old))))
    return tuple(chosen)


def keep_last(memory: Memory, n_policies: int) -> Memory:
    """Keep the newest batches: at most ``n_policies`` - 1, because the next batch joins them."""
    return memory[max(0, len(memory) - (n_policies - 1)) :]
