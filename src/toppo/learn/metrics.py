"""What an iteration leaves in the logs; docs/metrics.md explains every name."""

from typing import NamedTuple

import numpy as np
from jax import Array

from toppo.algos.contract import AdamResult, Memory, PolicyUpdate
from toppo.collect.episodes import Finished
from toppo.errors import LearnerFault
from toppo.learn.state import State
from toppo.maths.moments import standard_deviation

Metrics = dict[str, float | list[float] | list[int]]


class Episode(NamedTuple):
    """A finished episode: the step at which it ended, in which environment, its return and its length."""

    step: int
    env: int
    ret: float
    length: int


class Outcome(NamedTuple):
    """What happened in an iteration, beside the state that it leaves."""

    finished: list[Finished]
    memory: Memory  # the set M during the update
    kl: list[float]  # KL(mu || pi) of every batch in it
    update: PolicyUpdate
    critic: AdamResult | None
    n_updates: int
    clip_eps: float
    lr: np.float32
    explained_variance: Array


def episodes_of(finished: list[Finished], first_step: int, envs: int) -> list[Episode]:
    """Return the finished episodes with the training steps at which they ended."""
    return [
        Episode(
            step=first_step + f.t * envs + f.env + 1,
            env=f.env,
            ret=float(f.rewards.sum()),
            length=len(f.rewards),
        )
        for f in finished
    ]


def metrics_of(state: State, outcome: Outcome) -> Metrics:
    """Return the metrics of an iteration; end the run at the first that is not finite."""
    metrics: Metrics = {"iteration": state.iteration, "time/total_timesteps": state.steps}
    metrics |= _of_episodes(outcome.finished)
    metrics |= _of_memory(state, outcome)
    metrics |= _of_update(outcome)
    metrics |= _of_settings(state, outcome)
    _refuse_nan(metrics, state.iteration - 1)
    return metrics


def _of_episodes(finished: list[Finished]) -> Metrics:
    if not finished:
        return {}
    return {
        "rollout/ep_rew_mean": rounded(np.mean([f.rewards.sum() for f in finished])),
        "rollout/ep_len_mean": rounded(np.mean([len(f.rewards) for f in finished])),
    }


def _of_memory(state: State, outcome: Outcome) -> Metrics:
    """Return the size of M during the update, and the age and KL of what was kept."""
    kept = {int(batch.iteration) for batch in state.memory}
    collected = [int(batch.iteration) for batch in outcome.memory]
    return {
        "memory/size": len(outcome.memory),
        "memory/kept": len(kept),
        "memory/ages": [state.iteration - k for k in collected if k in kept],
        "memory/kl": [rounded(kl) for k, kl in zip(collected, outcome.kl, strict=True) if k in kept],
        "memory/kl_newest": rounded(outcome.kl[-1]),
    }


def _of_update(outcome: Outcome) -> Metrics:
    metrics: Metrics = {
        "train/tv": rounded(outcome.update.tv),
        "train/epochs": int(outcome.update.epochs),
        "train/n_updates": outcome.n_updates,
    }
    if outcome.critic is not None:
        metrics["train/value_loss"] = rounded(-outcome.critic.objective)
        metrics["train/grad_norm_value"] = rounded(outcome.critic.grad_norm)
    return metrics


def _of_settings(state: State, outcome: Outcome) -> Metrics:
    """Return the normaliser, what ``improve`` reports, and the settings that change during a run."""
    return {
        "normaliser/return_std": rounded(standard_deviation(state.return_moments)),
        **{name: rounded(value) for name, value in sorted(outcome.update.report.items())},
        "train/explained_variance": rounded(outcome.explained_variance),
        **({"train/clip_range": outcome.clip_eps} if outcome.clip_eps else {}),
        "train/learning_rate": rounded(outcome.lr * np.asarray(state.learner.lr_scale)),
        "train/learning_rate_value": rounded(outcome.lr),
    }


def _refuse_nan(metrics: Metrics, iteration: int) -> None:
    for name, value in metrics.items():
        if not np.isfinite(value).all():
            raise LearnerFault(
                f"iteration {iteration}: {name} is {value}; lower --learning-rate or check the rewards of the "
                "environment",
                {"iteration": iteration, "field": name},
            )


def rounded(x: "Array | np.ndarray | float | np.floating") -> float:
    """Round to seven significant digits: what a float32 holds, and a log that stays small."""
    return float(f"{float(x):.7g}")
