"""What every worker of a run knows, and the memory that one batch lies in; this module never imports JAX."""

from math import prod
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from toppo.collect.actor import noise_for
from toppo.envs import Spaces
from toppo.rng import Stream, rng_for

A = TypeVar("A")


class Plan(NamedTuple):
    """What every worker of a run knows."""

    spaces: Spaces
    seed: int
    steps: int  # per environment and batch
    n_envs: int
    reset_each_batch: bool
    activation: str
    weight_shapes: tuple[tuple[int, ...], ...]

    @property
    def action_dtype(self) -> str:
        """The type of the policy's actions; ``spaces.action_dtype`` is the environment's."""
        return "int32" if self.spaces.discrete else "float32"


class RawBatch(NamedTuple, Generic[A]):
    """A batch as the workers leave it, [T, E, ...], in arrays of NumPy or JAX: the first fields of a ``Segment``.

    Images are not stored twice.  With them ``next_obs`` is [E + F, row]: what follows the last step of each
    environment, then what each of the F truncated episodes ended with.
    """

    obs: A
    next_obs: A
    action: A
    reward: A
    terminated: A
    ended: A


class Buffers(NamedTuple):
    """One batch, [T, E, ...], and what it is collected with; may lie in memory shared between processes.

    With images ``next_obs`` is [E, row] and holds only what follows the last step.  A run can still read how far each
    environment was when its worker process has died.
    """

    obs: np.ndarray
    next_obs: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    ended: np.ndarray  # for the learner
    over: np.ndarray  # is a reset due?  Where it differs from ``ended``, only a life was lost
    begun: np.ndarray  # [E] does row 0 begin an episode?
    started: np.ndarray  # [E] episodes begun in all
    call: np.ndarray  # [E] T times the number of the worker's last call of this environment, plus the row
    step: np.ndarray  # [E] of the episode that this call is about; 0 for its reset
    noise: np.ndarray  # of every action, [T, E, A]
    mean: np.ndarray  # of observations, [O]
    inv_std: np.ndarray  # [O]
    weights: tuple[np.ndarray, ...]

    def batch(self) -> RawBatch[np.ndarray]:
        """Return what the learner reads of the batch, not copied."""
        return RawBatch(**{name: getattr(self, name) for name in RawBatch._fields})


def buffer_layout(plan: Plan) -> dict[str, tuple[tuple[int, ...], str]]:
    """Return shape and type of every array in ``Buffers``."""
    spaces = plan.spaces
    envs = (plan.n_envs,)
    rows = (plan.steps, plan.n_envs)
    return {
        "obs": ((*rows, spaces.row_size), spaces.row_dtype),
        "next_obs": ((*(envs if spaces.images else rows), spaces.row_size), spaces.row_dtype),
        "action": ((*rows, *spaces.action_row), plan.action_dtype),
        "reward": (rows, "float64"),
        "terminated": (rows, "bool"),
        "ended": (rows, "bool"),
        "over": (rows, "bool"),
        "begun": (envs, "bool"),
        "started": (envs, "int64"),
        "call": (envs, "int64"),
        "step": (envs, "int64"),
        "noise": ((*rows, spaces.action_size), "float32"),
        "mean": ((spaces.obs_size,), "float32"),
        "inv_std": ((spaces.obs_size,), "float32"),
        **{f"weight_{i}": (shape, "float32") for i, shape in enumerate(plan.weight_shapes)},
    }


def buffers_in(plan: Plan, memory: memoryview | bytearray) -> Buffers:
    """Lay ``Buffers`` into a block of memory of ``buffers_size(plan)`` bytes."""
    arrays = {}
    offset = 0
    for name, (shape, dtype) in buffer_layout(plan).items():
        arrays[name] = np.frombuffer(memory, dtype, prod(shape), offset).reshape(shape)
        offset += _padded(arrays[name].nbytes)
    weights = tuple(arrays.pop(f"weight_{i}") for i in range(len(plan.weight_shapes)))
    return Buffers(**arrays, weights=weights)


def buffers_size(plan: Plan) -> int:
    """Return how many bytes ``Buffers`` take."""
    return sum(_padded(prod(shape) * np.dtype(dtype).itemsize) for shape, dtype in buffer_layout(plan).values())


def _padded(size: int) -> int:
    return (size + 63) // 64 * 64


def batch_noise(plan: Plan, batch: int) -> np.ndarray:
    """Draw the noise of every action of a batch, each environment's from its own stream.  [T, E, A]"""
    streams = [rng_for(plan.seed, Stream.ACTION_NOISE, i, batch) for i in range(plan.n_envs)]
    spaces = plan.spaces
    return np.stack([noise_for(s, plan.steps, spaces.action_size, spaces.discrete) for s in streams], axis=1)
