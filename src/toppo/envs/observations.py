"""An observation as one row of memory, whatever its space.

Without images: float32, the numbers and the mask.  With images: bytes, so that pixels stay bytes; first the numbers
(four bytes each), then the mask, then every image as the environment gives it.
"""

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from toppo.envs.actions import checked_mask
from toppo.envs.spaces import BadValue, Obs, Part, Space, Spaces, shortened
from toppo.errors import EnvironmentFault

MAX_FLOAT32 = float(np.finfo(np.float32).max)  # the learner can hold no larger number
RowEncoder = Callable[[Obs, np.ndarray | None], np.ndarray]


def row_encoder(spaces: Spaces) -> RowEncoder:
    """(observation, mask) -> row; what does not fit the space is a ``BadValue``."""
    if len(spaces.parts) == 1 and spaces.parts[0][:2] == ((), "numbers") and not spaces.masked:
        read_all = _reader(spaces.parts[0])
        return lambda obs, mask: read_all(obs)  # whoever stores the row makes it float32
    numbers = [(part, _reader(part)) for part in spaces.parts if part.kind != "image"]
    images = [(part, _reader(part)) for part in spaces.parts if part.kind == "image"]
    all_allowed = np.ones(spaces.mask_size, bool)

    def encode(obs: Obs, mask: np.ndarray | None) -> np.ndarray:
        pieces = [read(part_of(obs, part)) for part, read in numbers]
        allowed = all_allowed if mask is None else mask
        if not images:
            return np.concatenate([*pieces, allowed]).astype(np.float32)
        vector = np.concatenate([*pieces, np.zeros(0)]).astype(np.float32)
        pixels = [read(part_of(obs, part)) for part, read in images]
        return np.concatenate([vector.view(np.uint8), allowed.astype(np.uint8), *pixels])

    return encode


def _reader(part: Part) -> Callable[[Obs], np.ndarray]:
    """The function from a part of an observation to its entries of the row."""
    shape = part.shape

    def flat(value: Obs) -> np.ndarray:
        array = np.asarray(value)
        if array.shape != shape:
            raise BadValue(f"{part.title} has shape {array.shape}, but {shape} in its space")
        return array.ravel()

    if part.kind == "numbers":
        return flat
    counts = np.array(part.choices if part.kind == "choices" else (256,), np.uint64)
    starts = np.array(part.starts or (0,), int)
    firsts = np.cumsum((0, *part.choices[:-1]))

    def offsets(value: Obs) -> np.ndarray:
        array = flat(value)
        # As unsigned numbers, those below the first choice are larger than all counts.
        found: np.ndarray = array.astype(int) - starts if array.dtype.kind in "biu" else -np.ones(1, int)
        if (found.view(np.uint64) >= counts).any():
            raise BadValue(f"{part.title} is {shortened(value)}, which is not in its space")
        return found

    def one_hot(value: Obs) -> np.ndarray:
        row = np.zeros(part.size, np.float32)
        row[offsets(value) + firsts] = 1.0
        return row

    def pixels(value: Obs) -> np.ndarray:
        array = np.asarray(value)
        return flat(array) if array.dtype == np.uint8 else offsets(array).astype(np.uint8)

    return one_hot if part.kind == "choices" else pixels


def rows_of(spaces: Spaces, obs: Obs, masks: Any = None) -> tuple[np.ndarray, bool]:
    """Rows [B, row] of one observation or of a batch of them, and whether it was one.

    A mask is one array, or one for each dimension of the action; a batch has as many masks.
    """
    try:
        shape, *_ = [np.shape(part_of(obs, part)) for part in spaces.parts]
    except (KeyError, IndexError, TypeError) as error:
        needed = ", ".join(repr("/".join(map(str, part.path))) for part in spaces.parts)
        raise ValueError(f"observation is {shortened(obs)}, but must have the entries {needed}") from error
    expected = spaces.parts[0].shape
    encode = row_encoder(spaces)
    if shape == expected:
        return encode(obs, _given_mask(spaces, masks))[None], True
    if shape[1:] != expected:
        raise ValueError(f"observation has shape {shape}, but must have {expected}")
    allowed: Sequence[object] = [None] * shape[0] if masks is None else masks
    if len(allowed) != shape[0]:
        raise ValueError(f"action_masks cannot be used: there are {len(allowed)} for {shape[0]} observations")
    return np.stack([encode(of_batch(obs, i), _given_mask(spaces, mask)) for i, mask in enumerate(allowed)]), False


def _given_mask(spaces: Spaces, given: object) -> np.ndarray | None:
    """The mask that a caller gives with an observation, if there is one."""
    if given is not None and not spaces.masked:
        raise ValueError("action_masks cannot be used: this environment gives none")
    return None if given is None else checked_mask(given, spaces)


def of_batch(obs: Obs, i: int) -> Obs:
    """Observation number ``i`` of a batch."""
    if isinstance(obs, dict):
        return {key: of_batch(value, i) for key, value in obs.items()}
    if isinstance(obs, str):  # one of a batch of texts, which is a tuple like any other; no network reads them
        return obs
    return tuple(of_batch(value, i) for value in obs) if isinstance(obs, tuple) else obs[i]


def part_of(obs: Obs, part: Part) -> Obs:
    """The value at the part's place in an observation, or the space there in an observation space."""
    for key in part.path:
        obs = obs[key]
    return obs


def live_rows(row_size: int, row_dtype: str, count: int = 1) -> np.ndarray:
    """Rows to act on: numbers as precise as environments give them.  [count, row]"""
    return np.zeros((count, row_size), row_dtype if row_dtype == "uint8" else float)


def numbers_in(rows: np.ndarray, obs_size: int) -> np.ndarray:
    """The numbers of stored rows, which are normalised.  [..., row] -> [..., obs_size]"""
    if rows.dtype != np.uint8:
        return rows if rows.shape[-1] == obs_size else rows[..., :obs_size]
    return np.ascontiguousarray(rows[..., : 4 * obs_size]).view(np.float32)


def mask_in(row: np.ndarray, spaces: Spaces) -> np.ndarray | None:
    """The mask of allowed actions in a stored row; None if the environment gives none."""
    first = spaces.obs_size * (4 if row.dtype == np.uint8 else 1)
    return row[first : first + spaces.mask_size] > 0 if spaces.masked else None


def fits_float32(values: object) -> bool:
    """Can a float32 hold every value?"""
    return bool((np.abs(np.asarray(values, np.float64)) <= MAX_FLOAT32).all())


def check_observation(obs: Obs, spaces: Spaces, space: Space, call: str, notes: list[str]) -> None:
    """Refuse an observation that does not fit its space; note one that fits only with a cast or outside its bounds."""
    for part in spaces.parts:
        try:
            given = part_of(obs, part)
            value = np.asarray(given)
        except (KeyError, IndexError, TypeError) as error:
            raise EnvironmentFault(f"{call} gave {shortened(obs)} without {part.title}, which its space has") from error
        except ValueError as error:
            raise EnvironmentFault(f"{part.title} that {call} gave is not an array ({error})") from error
        if value.dtype.kind not in "biuf":
            raise EnvironmentFault(f"{part.title} that {call} gave is of type {value.dtype}, but must be numbers")
        try:
            _reader(part)(given)
        except BadValue as error:
            raise EnvironmentFault(f"after {call}, {error} {part_of(space, part)}: fix one of them") from error
        if not fits_float32(value):
            why = "more than a float32 can hold" if np.isfinite(value).all() else "not finite"
            raise EnvironmentFault(f"{part.title} that {call} gave is {why} ({value}): fix what computes it")
        box = part_of(space, part)
        if isinstance(box, gym.spaces.Box):
            if np.any(value < box.low) or np.any(value > box.high):
                notes.append(f"{part.title} leaves the bounds of its space {box}")
            if value.dtype != box.dtype:
                notes.append(f"{part.title} is of type {value.dtype}, but its space has {box.dtype}: it is converted")
