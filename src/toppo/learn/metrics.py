"""What an iteration leaves in the logs; docs/metrics.md explains every name."""

from typing import Any, NamedTuple

import numpy as np
from jax import Array

from toppo.algos.contract import AdamResult, Memory, PolicyUpdate
from toppo.collect.episodes import Finished
from toppo.errors import LearnerFault
from toppo.learn.state import State
from toppo.maths.moments import standard_deviation

Metrics = dict[str, float | list[float] | list[int]]


class Episode(NamedTuple):
    """A finished episode: the step at which it ended, where, and what it earned."""

    step: int
    env: int
    ret: float
    length: int


def episodes_of(finished: list[Finished], first_step: int, envs: int) -> list[Episode]:
    """The finished episodes with the training steps at which they ended."""
    return [
        Episode(first_step + f.t * envs + f.env + 1, f.env, float(f.rewards.sum()), len(f.rewards)) for f in finished
    ]


def of_episodes(finished: list[Finished]) -> Metrics:
    """Return and length; nothing if no episode ended."""
    if not finished:
        return {}
    return {
        "rollout/ep_rew_mean": number(np.mean([f.rewards.sum() for f in finished])),
        "rollout/ep_len_mean": number(np.mean([len(f.rewards) for f in finished])),
    }


def of_memory(state: State, memory: Memory, kl: list[float]) -> Metrics:
    """The set M during the update, and what of it was kept; ``kl`` is KL(mu || pi) of every batch."""
    kept = [i for i, batch in enumerate(memory) if any(batch is b for b in state.memory)]
    return {
        "memory/size": len(memory),
        "memory/kept": len(kept),
        "memory/ages": [state.iteration - int(memory[i].iteration) for i in kept],
        "memory/kl": [number(kl[i]) for i in kept],
        "memory/kl_newest": number(kl[-1]),
    }


def of_update(improved: PolicyUpdate, fitted: AdamResult | None, minibatches: int) -> Metrics:
    """The policy's step, and the critic's if it takes one of its own."""
    own = {"train/value_loss": -fitted.objective, "train/grad_norm_value": fitted.grad_norm} if fitted else {}
    return {
        "train/tv": number(improved.tv),
        "train/epochs": int(improved.epochs),
        "train/n_updates": int(improved.epochs) * minibatches,
        **{name: number(value) for name, value in own.items()},
    }


def of_rest(state: State, improved: PolicyUpdate, explained: Array, clip_eps: float, lr: np.float32) -> Metrics:
    """The normaliser, what ``improve`` reports, and the settings of the moment."""
    return {
        "normaliser/return_std": number(standard_deviation(state.return_moments)),
        **{name: number(value) for name, value in sorted(improved.report.items())},
        "train/explained_variance": number(explained),
        **({"train/clip_range": clip_eps} if clip_eps else {}),
        "train/learning_rate": number(lr * np.asarray(state.learner.lr_scale)),
        "train/learning_rate_value": number(lr),
    }


def refuse_nan(metrics: Metrics, iteration: int) -> None:
    """End the run at the first value that is not finite."""
    for name, value in metrics.items():
        if not np.isfinite(value).all():
            raise LearnerFault(
                f"iteration {iteration}: {name} is {value}; lower --learning-rate or look at the rewards of the environment",
                {"iteration": iteration, "field": name},
            )


def number(x: Any) -> float:
    """Seven significant digits: what a float32 holds, and a log that stays small."""
    return float(f"{float(x):.7g}")
