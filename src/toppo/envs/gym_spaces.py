"""The spaces of an agent as Gymnasium spaces, for code that expects them as Stable-Baselines3 has them."""

from collections.abc import Sequence

import gymnasium as gym
import numpy as np

from toppo.envs.spaces import Part, Path, Space, Spaces


def gym_observation_space(spaces: Spaces) -> Space:
    """Return the space of the observations that the policy reads.  Its numbers have no bounds: none are known."""
    return _nested([(part.path, _space_of(part)) for part in spaces.parts])


def gym_action_space(spaces: Spaces) -> Space:
    """Return the space of the actions."""
    shape = spaces.action_shape
    if not spaces.discrete:
        low, high = (np.array(side, spaces.action_dtype).reshape(shape) for side in (spaces.low, spaces.high))
        return gym.spaces.Box(low, high, shape, np.dtype(spaces.action_dtype).type)
    if spaces.action_dtype == "int8":  # Gymnasium's other discrete spaces have larger numbers
        return gym.spaces.MultiBinary(shape[0] if len(shape) == 1 else shape)
    return _discrete(spaces.choices, spaces.starts, shape)


def _nested(entries: Sequence[tuple[Path, Space]]) -> Space:
    """Put the entries into dictionaries and tuples, where their paths say."""
    path, space = entries[0]
    if not path:
        return space
    inside = {first: _nested([(p[1:], s) for p, s in entries if p[0] == first]) for (first, *_), _ in entries}
    if isinstance(path[0], str):
        return gym.spaces.Dict({str(key): entry for key, entry in inside.items()})
    text = gym.spaces.Text(1, min_length=0)  # stands where an entry was left out
    return gym.spaces.Tuple([inside.get(i, text) for i in range(1 + max(map(int, inside)))])


def _space_of(part: Part) -> Space:
    if part.kind == "image":
        return gym.spaces.Box(0, 255, part.shape, np.uint8)
    if part.kind == "numbers":
        return gym.spaces.Box(-np.inf, np.inf, part.shape, np.float64)  # holds arrays of every type of number
    return _discrete(part.choices, part.starts, part.shape)


def _discrete(choices: Sequence[int], starts: Sequence[int], shape: tuple[int, ...]) -> Space:
    if not shape:
        return gym.spaces.Discrete(choices[0], start=starts[0])
    return gym.spaces.MultiDiscrete(np.reshape(choices, shape), start=np.reshape(starts, shape))
