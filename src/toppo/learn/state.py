"""What the updates change, and all that defines the future of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from jax import Array

    from toppo.algos.contract import Memory, Params
    from toppo.maths.moments import Moments


class Learner(NamedTuple):
    """All that the updates change."""

    params: Params
    policy_opt: Any
    value_opt: Any
    lr_scale: Array  # the adaptive learning rate's factor


class State(NamedTuple):
    """All that defines the future of a run between two iterations, in addition to its spec."""

    learner: Learner
    obs_moments: Moments
    return_moments: Moments
    memory: Memory
    episodes: Any  # what the collector goes on from
    batches: int  # collected so far, no-op batches included
    iteration: int
    steps: int  # environment steps used for training
