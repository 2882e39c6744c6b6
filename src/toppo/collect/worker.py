"""A worker owns environments and fills its columns of a batch; it never imports JAX."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from toppo.collect.act import mlp_actor, noise_for
from toppo.envs import EnvSource, open_environment
from toppo.streams import Purpose, seed_for, stream
from toppo.types import OpenEpisode


class Plan(NamedTuple):
    """What every worker of a run knows."""

    seed: int
    steps: int  # per environment and batch
    envs: int
    obs_size: int
    action_size: int
    discrete: bool
    reset_each_batch: bool
    weight_shapes: tuple[tuple[int, ...], ...]


class Buffers(NamedTuple):
    """One batch, [T, E, ...], and the weights that collect it; may lie in memory shared between processes."""

    obs: np.ndarray
    next_obs: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    ended: np.ndarray
    shift: np.ndarray
    factor: np.ndarray
    weights: tuple[np.ndarray, ...]


def buffer_layout(plan: Plan) -> list[tuple[tuple[int, ...], np.dtype]]:
    """Shape and type of every array in ``Buffers``, in order."""
    rows = (plan.steps, plan.envs)
    action = (rows, np.int32) if plan.discrete else ((*rows, plan.action_size), np.float32)
    shapes = [
        ((*rows, plan.obs_size), np.float32),
        ((*rows, plan.obs_size), np.float32),
        action,
        (rows, np.float64),
        (rows, np.bool_),
        (rows, np.bool_),
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
    obs, next_obs, action, reward, terminated, ended, shift, factor, *weights = arrays
    return Buffers(obs, next_obs, action, reward, terminated, ended, shift, factor, tuple(weights))


def buffers_size(plan: Plan) -> int:
    """Bytes that ``Buffers`` take."""
    return sum(_padded(int(np.prod(shape)) * dtype.itemsize) for shape, dtype in buffer_layout(plan))


def _padded(size: int) -> int:
    return (size + 63) // 64 * 64


class Worker:
    """A stretch of a run's environments, each with its own streams of randomness."""

    def __init__(self, plan: Plan, indices: Sequence[int], source: EnvSource, buffers: Buffers) -> None:
        """Make the environments number ``indices``, which follow each other."""
        self.plan, self.indices, self.buffers = plan, indices, buffers
        self.envs = {i: open_environment(source, i) for i in indices}
        self.started = dict.fromkeys(indices, 0)
        self.obs: dict[int, np.ndarray | None] = dict.fromkeys(indices)

    def collect(self, batch: int) -> None:
        """Fill this worker's columns with batch number ``batch``, all its environments in step."""
        plan, b, indices = self.plan, self.buffers, self.indices
        actor = mlp_actor(b.shift, b.factor, b.weights, len(indices))
        streams = [stream(plan.seed, Purpose.ACTION, i, batch) for i in indices]
        noise = np.stack([noise_for(s, plan.steps, plan.action_size, plan.discrete) for s in streams], axis=1)
        if plan.reset_each_batch:
            self.obs = dict.fromkeys(indices)
        mine = slice(indices[0], indices[-1] + 1)
        obs = np.stack([self._obs(i) for i in indices])
        for t in range(plan.steps):
            for j, i in enumerate(indices):
                obs[j] = self._obs(i)
            actions = actor(obs, noise[t])
            b.obs[t, mine] = obs
            b.action[t, mine] = actions
            for j, i in enumerate(indices):
                self._step(t, i, actions[j])

    def _obs(self, i: int) -> np.ndarray:
        """The environment's observation, after a reset if it needs one."""
        obs = self.obs[i]
        if obs is None:
            self.obs[i] = obs = self._reset(i)
        return obs

    def _step(self, t: int, i: int, action: np.ndarray) -> None:
        b = self.buffers
        obs, reward, terminated, truncated = self.envs[i].step(action)
        ended = terminated or truncated
        b.next_obs[t, i] = obs
        b.reward[t, i] = reward
        b.terminated[t, i] = terminated
        b.ended[t, i] = ended
        self.obs[i] = None if ended else obs

    def _reset(self, i: int) -> np.ndarray:
        obs = self.envs[i].reset(seed_for(self.plan.seed, Purpose.EPISODE, i, self.started[i]))
        self.started[i] += 1
        return obs

    def restore(self, i: int, episode: OpenEpisode) -> bool:
        """Bring environment ``i`` back to where it was; False if replaying its actions led elsewhere."""
        self.started[i], self.obs[i] = episode.started, None
        if len(episode.actions) == 0:
            return True
        self.started[i] -= 1
        obs = self._reset(i)
        for action in episode.actions:
            obs, _, terminated, truncated = self.envs[i].step(action)
            if terminated or truncated:
                return False
        self.obs[i] = obs
        exact = obs.astype(np.float32).tobytes() == episode.obs.tobytes()
        if not exact:
            self.obs[i] = None
        return exact

    def close(self) -> None:
        """Close the environments."""
        for env in self.envs.values():
            env.close()
