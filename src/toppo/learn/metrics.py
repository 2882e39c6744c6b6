"""What an iteration leaves in the logs; docs/metrics.md explains every name."""

from typing import NamedTuple

import numpy as np
from jax import Array

from toppo.algos.contract import AdamResult, Draw, PolicyUpdate
from toppo.errors import LearnerFault
from toppo.learn.setup import Setup, learning_rate, scheduled
from toppo.learn.state import State
from toppo.maths.moments import standard_deviation

Metrics = dict[str, float | list[float] | list[int]]


class Episode(NamedTuple):
    """A finished episode: the step at which it ended, in which environment, its return and its length."""

    step: int
    env: int
    episode_return: float  # undiscounted
    length: int


def metrics_of(
    setup: Setup,
    state: State,
    episodes: list[Episode],
    draw: Draw,
    kl: dict[int, float],
    update: PolicyUpdate,
    critic: AdamResult | None,
    explained_variance: Array,
) -> Metrics:
    """Return the metrics of an iteration that leaves ``state``; end the run at the first that is not finite.

    ``kl`` is KL(mu || pi) of every batch in M during the update, by the iteration that collected it.
    """
    kept = {int(batch.iteration) for batch in state.memory}
    before = state.steps - setup.config.n_steps
    lr = learning_rate(setup, before)
    metrics: Metrics = {"iteration": state.iteration, "time/total_timesteps": state.steps}
    if episodes:
        metrics["rollout/ep_rew_mean"] = rounded(np.mean([e.episode_return for e in episodes]))
        metrics["rollout/ep_len_mean"] = rounded(np.mean([e.length for e in episodes]))
    metrics["memory/size"] = len(kl)
    metrics["memory/kept"] = len(kept)
    metrics["memory/ages"] = [state.iteration - k for k in kl if k in kept]
    metrics["memory/kl"] = [rounded(distance) for k, distance in kl.items() if k in kept]
    metrics["memory/kl_newest"] = rounded(list(kl.values())[-1])
    metrics["train/tv"] = rounded(update.tv)
    metrics["train/epochs"] = int(update.epochs)
    metrics["train/n_updates"] = int(update.epochs) * setup.common.n_minibatches
    if critic is not None:
        metrics["train/value_loss"] = rounded(-critic.objective)
        metrics["train/grad_norm_value"] = rounded(critic.grad_norm)
    metrics["normaliser/return_std"] = rounded(standard_deviation(state.return_moments))
    metrics |= {name: rounded(value) for name, value in sorted(update.report.items())}
    metrics["train/explained_variance"] = rounded(explained_variance)
    if draw.clip_eps:
        metrics["train/clip_range"] = draw.clip_eps
    if "ent_coef" in (now := scheduled(setup, before)):
        metrics["train/ent_coef"] = rounded(now["ent_coef"])
    metrics["train/learning_rate"] = rounded(lr * np.asarray(state.learner.lr_scale))
    metrics["train/learning_rate_value"] = rounded(lr)
    for name, value in metrics.items():
        if not np.isfinite(value).all():
            sentence = f"{name} is {value}; lower --learning-rate or check the rewards of the environment"
            fault = {"iteration": state.iteration - 1, "field": name}
            raise LearnerFault(f"iteration {state.iteration - 1}: {sentence}", fault)
    return metrics


def rounded(x: "Array | np.ndarray | float | np.floating") -> float:
    """Round to seven significant digits: what a float32 holds, and a log that stays small."""
    return float(f"{float(x):.7g}")
