"""The memory that one batch lies in, and what every worker of a run knows; it never imports JAX."""

from typing import Any, NamedTuple

import numpy as np

from toppo.collect.actor import noise_for
from toppo.rng import Stream, rng_for


class Plan(NamedTuple):
    """What every worker of a run knows."""

    seed: int
    steps: int  # per environment and batch
    envs: int
    obs_size: int  # numbers that are normalised
    row_size: int  # entries of a stored observation
    row_dtype: str  # uint8 if it holds images
    action_size: int  # numbers that the policy's network gives
    action_row: tuple[int, ...]  # shape of an action
    choices: tuple[int, ...]  # of discrete actions, in each dimension
    masked: bool
    reset_each_batch: bool
    weight_shapes: tuple[tuple[int, ...], ...]

    @property
    def images(self) -> bool:
        """Do observations hold images?"""
        return self.row_dtype == "uint8"

    @property
    def action_dtype(self) -> Any:
        """Type of the policy's actions."""
        return np.int32 if self.choices else np.float32


class Progress(NamedTuple):
    """How far each environment is, [E]: what a run can still read when a worker process has died."""

    begun: np.ndarray  # does row 0 begin an episode?
    started: np.ndarray  # episodes begun in all
    call: np.ndarray  # T times the number of the worker's last call of this environment, plus the row
    step: np.ndarray  # of the episode that this call is about; 0 for its reset


class Buffers(NamedTuple):
    """One batch, [T, E, ...], and what it is collected with; may lie in memory shared between processes.

    Images are not stored twice: then ``next_obs`` [E, row] holds only what follows the last step.
    """

    obs: np.ndarray
    next_obs: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    ended: np.ndarray  # for the learner
    over: np.ndarray  # is a reset due?  Where it differs from ``ended``, only a life was lost
    progress: Progress
    noise: np.ndarray  # of every action, [T, E, A]
    shift: np.ndarray
    factor: np.ndarray
    weights: tuple[np.ndarray, ...]


def buffer_layout(plan: Plan) -> list[tuple[tuple[int, ...], np.dtype]]:
    """Shape and type of every array in ``Buffers``, in order."""
    rows = (plan.steps, plan.envs)
    shapes: list[tuple[tuple[int, ...], Any]] = [
        ((*rows, plan.row_size), plan.row_dtype),
        ((*(rows[1:] if plan.images else rows), plan.row_size), plan.row_dtype),
        ((*rows, *plan.action_row), plan.action_dtype),
        (rows, np.float64),
        (rows, np.bool_),
        (rows, np.bool_),
        (rows, np.bool_),
        ((plan.envs,), np.bool_),
        *([((plan.envs,), np.int64)] * 3),
        ((*rows, plan.action_size), np.float32),
        ((plan.obs_size,), np.float32),
        ((plan.obs_size,), np.float32),
        *((shape, np.float32) for shape in plan.weight_shapes),
    ]
    return [(shape, np.dtype(dtype)) for shape, dtype in shapes]


def buffers_in(plan: Plan, memory: memoryview | bytearray) -> Buffers:
    """Lay ``Buffers`` into a block of memory of ``buffers_size(plan)`` bytes."""
    arrays, offset = [], 0
    for shape, dtype in buffer_layout(plan):
        size = int(np.prod(shape))
        arrays.append(np.frombuffer(memory, dtype, size, offset).reshape(shape))
        offset += _padded(size * dtype.itemsize)
    obs, next_obs, action, reward, terminated, ended, over, *more = arrays
    begun, started, call, step, noise, shift, factor, *weights = more
    progress, drawn = Progress(begun, started, call, step), (noise, shift, factor, tuple(weights))
    return Buffers(obs, next_obs, action, reward, terminated, ended, over, progress, *drawn)


def buffers_size(plan: Plan) -> int:
    """Bytes that ``Buffers`` take."""
    return sum(_padded(int(np.prod(shape)) * dtype.itemsize) for shape, dtype in buffer_layout(plan))


def _padded(size: int) -> int:
    return (size + 63) // 64 * 64


def batch_noise(plan: Plan, batch: int) -> np.ndarray:
    """The noise of every action of a batch, each environment's from its own stream.  [T, E, A]"""
    streams = [rng_for(plan.seed, Stream.ACTION_NOISE, i, batch) for i in range(plan.envs)]
    return np.stack([noise_for(s, plan.steps, plan.action_size, bool(plan.choices)) for s in streams], axis=1)
