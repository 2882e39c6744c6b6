"""From the policy's action to the environment's, and the mask that says which actions are allowed."""

from collections.abc import Callable
from typing import Any

import numpy as np

from toppo.envs.spaces import Env, Spaces


def action_to_env(spaces: Spaces) -> Callable[[np.ndarray], Any]:
    """The map from the policy's action to the environment's; several actions at once if they are boxes.

    Box: clip to [-1, 1]^d and rescale to the bounds; a dimension without two bounds, or with bounds too far apart for
    a float32, is only clipped to those it has.  Discrete: add the start.
    """
    shape, dtype = spaces.action_shape, np.dtype(spaces.action_dtype)
    if spaces.discrete and shape == ():
        start = spaces.starts[0]
        return lambda action: int(action) + start
    if spaces.discrete:
        starts = np.array(spaces.starts)
        return lambda action: (action + starts).astype(dtype).reshape(shape)
    env_low, env_high = np.array(spaces.low), np.array(spaces.high)
    with np.errstate(invalid="ignore", over="ignore"):
        bounded = np.isfinite((env_high - env_low).astype(np.float32))
        low = np.where(bounded, -1.0, env_low).astype(np.float32)
        high = np.where(bounded, 1.0, env_high).astype(np.float32)
        factor = np.where(bounded, (env_high - env_low) / 2, 1.0).astype(np.float32)
        shift = np.where(bounded, (env_high + env_low) / 2, 0.0).astype(np.float32)
    if np.all(factor == 1) and np.all(shift == 0) and len(shape) == 1 and dtype == np.float32:
        return lambda action: np.minimum(np.maximum(action, low), high)
    least, most = env_low.astype(dtype), env_high.astype(dtype)
    ends = [(end * factor + shift).astype(dtype) for end in (low, high)]
    # Rounding keeps the order: if the ends stay inside, nothing leaves, and the hot path is spared a second clip.
    leaves = np.any(ends[0] < least) or np.any(ends[1] > most)

    def rescale(action: np.ndarray) -> Any:
        scaled = (np.minimum(np.maximum(action, low), high) * factor + shift).astype(dtype)
        if leaves:
            scaled = np.minimum(np.maximum(scaled, least), most)
        return scaled.reshape((*action.shape[:-1], *shape))

    return rescale


def mask_reader(env: Env, spaces: Spaces) -> Callable[[dict[str, Any], bool], np.ndarray | None]:
    """The function from a step's info, and whether an episode ended with it, to the mask [all choices].

    None where all is allowed, and after the end of an episode, where nothing is chosen.
    """
    if not spaces.masked:
        return lambda info, ended: None
    method = env.get_wrapper_attr("action_masks") if env.has_wrapper_attr("action_masks") else None

    def read(info: dict[str, Any], ended: bool) -> np.ndarray | None:
        if ended:
            return None
        given = info["action_mask"] if "action_mask" in info else method() if method else None
        mask = None if given is None else flat_mask(given)
        if fault := why_not_a_mask(mask, spaces):
            raise ValueError(f"the mask of allowed actions cannot be used: {fault}")
        return mask

    return read


def flat_mask(mask: Any) -> np.ndarray:
    """A mask as one row: environments give one array, or one per dimension of the action."""
    parts = mask if isinstance(mask, tuple | list) and np.ndim(mask[0]) else (mask,)
    return np.concatenate([np.ravel(part) for part in parts]).astype(bool)


def why_not_a_mask(mask: np.ndarray | None, spaces: Spaces) -> str | None:
    """What is wrong with the mask of a state in which an action must be taken; None if nothing is."""
    if mask is None:
        return "there was none"
    if len(mask) != spaces.action_size:
        return f"it has {len(mask)} entries, but the actions have {spaces.action_size} choices"
    first = 0
    for count in spaces.choices:
        if not mask[first : first + count].any():
            return f"it allows no action at all ({mask[first : first + count].astype(int)})"
        first += count
    return None
