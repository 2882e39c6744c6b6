"""An observation as one row of memory, whatever its space.

Without images: float32, the numbers and the mask.  With images: bytes, so that pixels stay bytes; first the numbers
(four bytes each), then the mask, then every image as the environment gives it.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from toppo.envs.actions import flat_mask, why_not_a_mask
from toppo.envs.spaces import Part, Spaces

LARGEST = float(np.finfo(np.float32).max)  # what the learner can hold
Observer = Callable[[Any, np.ndarray | None], np.ndarray]


def observer(spaces: Spaces) -> Observer:
    """(observation, mask) -> row"""
    if len(spaces.parts) == 1 and spaces.parts[0][:2] == ((), "numbers") and not spaces.masked:
        return lambda obs, mask: np.asarray(obs).ravel()  # whoever stores the row makes it float32
    numbers = [(part, _reader(part)) for part in spaces.parts if part.kind != "image"]
    images = [part for part in spaces.parts if part.kind == "image"]
    everything = np.ones(spaces.mask_size, bool)

    def observe(obs: Any, mask: np.ndarray | None) -> np.ndarray:
        pieces = [read(entry(obs, part)) for part, read in numbers]
        allowed = everything if mask is None else mask
        if not images:
            return np.concatenate([*pieces, allowed]).astype(np.float32)
        vector = np.concatenate([*pieces, np.zeros(0)]).astype(np.float32)
        pixels = [np.asarray(entry(obs, part), np.uint8).ravel() for part in images]
        return np.concatenate([vector.view(np.uint8), allowed.astype(np.uint8), *pixels])

    return observe


def rows_of(spaces: Spaces, obs: Any, masks: Any = None) -> tuple[np.ndarray, bool]:
    """Rows [B, row] of one observation or of a batch of them, and whether it was one.

    A mask is one array, or one for each dimension of the action; a batch has as many masks.
    """
    first = spaces.parts[0]
    try:
        shape, *_ = [np.shape(entry(obs, part)) for part in spaces.parts]
    except (KeyError, IndexError, TypeError) as error:
        needed = ", ".join(repr("/".join(map(str, part.path))) for part in spaces.parts)
        raise ValueError(
            f"observation is {type(obs).__name__} {obs!r:.60}, but must have the entries {needed}"
        ) from error
    single = shape == first.shape
    if not single and shape[1:] != first.shape:
        raise ValueError(f"observation has shape {shape}, but must have {first.shape}")
    observe = observer(spaces)
    if single:
        return observe(obs, _given_mask(spaces, masks))[None], True
    allowed = [None] * shape[0] if masks is None else masks
    if len(allowed) != shape[0]:
        raise ValueError(f"action_masks cannot be used: there are {len(allowed)} for {shape[0]} observations")
    return np.stack([observe(row_of(obs, i), _given_mask(spaces, mask)) for i, mask in enumerate(allowed)]), False


def _given_mask(spaces: Spaces, given: Any) -> np.ndarray | None:
    """The mask that a caller gives with an observation, if there is one."""
    if given is None:
        return None
    mask = flat_mask(given)
    if fault := "this environment gives none" if not spaces.masked else why_not_a_mask(mask, spaces):
        raise ValueError(f"action_masks cannot be used: {fault}")
    return mask


def row_of(obs: Any, i: int) -> Any:
    """Row ``i`` of a batch of observations."""
    if isinstance(obs, dict):
        return {key: row_of(value, i) for key, value in obs.items()}
    if isinstance(obs, str):  # of a batch of texts, which is a tuple like any other; nobody reads them
        return obs
    return tuple(row_of(value, i) for value in obs) if isinstance(obs, tuple) else obs[i]


def entry(obs: Any, part: Part) -> Any:
    """What stands at the part's place in an observation."""
    for key in part.path:
        obs = obs[key]
    return obs


def live_rows(row_size: int, row_dtype: str, count: int = 1) -> np.ndarray:
    """Rows to act on: numbers as precise as environments give them.  [count, row]"""
    return np.zeros((count, row_size), row_dtype if row_dtype == "uint8" else float)


def numbers_in(rows: np.ndarray, obs_size: int) -> np.ndarray:
    """The numbers of stored rows: what is normalised.  [..., row] -> [..., obs_size]"""
    if rows.dtype != np.uint8:
        return rows if rows.shape[-1] == obs_size else rows[..., :obs_size]
    return np.ascontiguousarray(rows[..., : 4 * obs_size]).view(np.float32)


def held(values: Any) -> bool:
    """Can a float32 hold every value?"""
    return bool((np.abs(np.asarray(values, np.float64)) <= LARGEST).all())


def mask_in(row: np.ndarray, spaces: Spaces) -> np.ndarray | None:
    """The mask of allowed actions in a stored row; None if the environment gives none."""
    first = spaces.obs_size * (4 if row.dtype == np.uint8 else 1)
    return row[first : first + spaces.mask_size] > 0 if spaces.masked else None


def _reader(part: Part) -> Callable[[Any], np.ndarray]:
    if part.kind == "numbers":
        return lambda value: np.asarray(value).ravel()
    firsts = np.cumsum((0, *part.choices[:-1])) - np.array(part.starts, int)

    def one_hot(value: Any) -> np.ndarray:
        row = np.zeros(part.size, np.float32)
        row[np.ravel(value).astype(int) + firsts] = 1.0
        return row

    return one_hot
