"""From the policy's action to the environment's, and the mask that says which actions are allowed."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from toppo.envs.spaces import BadValue, Env, EnvAction, Info, Spaces
from toppo.errors import EnvironmentFault

BAD_MASK = "the mask of allowed actions cannot be used:"


def action_to_env(spaces: Spaces) -> Callable[[np.ndarray], EnvAction]:
    """The function from the policy's action to the environment's; a Box takes several actions at once.

    Box: clip to [-1, 1]^d and rescale to the bounds.  A dimension without two bounds, or with bounds too far apart for
    a float32, is measured from the allowed number nearest to 0, and only clipped.  Discrete: add the start.
    """
    shape = spaces.action_shape
    dtype = np.dtype(spaces.action_dtype)
    if spaces.discrete and shape == ():
        start = spaces.starts[0]
        return lambda action: int(action) + start
    if spaces.discrete:
        starts = np.array(spaces.starts)
        return lambda action: (action + starts).astype(dtype).reshape(shape)
    low, high, factor, shift, least, most = box_scaling(spaces)
    if np.all(factor == 1) and np.all(shift == 0) and len(shape) == 1 and dtype == np.float32:
        return lambda action: np.minimum(np.maximum(action, low), high)
    # Rounding keeps the order: if the ends stay inside, so does everything between, and a second clip is not needed.
    ends = [(end * factor + shift).astype(dtype) for end in (low, high)]
    rounds_outside = np.any(ends[0] < least) or np.any(ends[1] > most)

    def rescale(action: np.ndarray) -> EnvAction:
        scaled = (np.minimum(np.maximum(action, low), high) * factor + shift).astype(dtype)
        if rounds_outside:
            scaled = np.minimum(np.maximum(scaled, least), most)
        return scaled.reshape((*action.shape[:-1], *shape))

    return rescale


class BoxScaling(NamedTuple):
    """clip(clip(action, low, high) * factor + shift, least, most), each flat: a policy's action in a Box."""

    low: np.ndarray
    high: np.ndarray
    factor: np.ndarray
    shift: np.ndarray
    least: np.ndarray
    most: np.ndarray


def box_scaling(spaces: Spaces) -> BoxScaling:
    """How an action of the policy is clipped and rescaled to the bounds of the environment's Box."""
    env_low = np.array(spaces.low)
    env_high = np.array(spaces.high)
    dtype = np.dtype(spaces.action_dtype)
    precise = np.result_type(dtype, np.float32)
    with np.errstate(invalid="ignore", over="ignore"):
        bounded = np.isfinite((env_high - env_low).astype(np.float32))
        middle = np.where(bounded, (env_high + env_low) / 2, np.clip(0.0, env_low, env_high))
        return BoxScaling(
            low=np.where(bounded, -1.0, env_low - middle).astype(np.float32),
            high=np.where(bounded, 1.0, env_high - middle).astype(np.float32),
            factor=np.where(bounded, (env_high - env_low) / 2, 1.0).astype(precise),
            shift=middle.astype(precise),
            least=env_low.astype(dtype),
            most=env_high.astype(dtype),
        )


def random_action(spaces: Spaces, mask: np.ndarray | None, rng: np.random.Generator) -> np.ndarray:
    """Draw an allowed action of the policy uniformly."""
    if not spaces.discrete:
        return rng.uniform(-1, 1, spaces.action_size).astype(np.float32)
    allowed = np.ones(spaces.action_size, bool) if mask is None else mask
    parts = np.split(allowed, np.cumsum(spaces.choices[:-1]))
    return np.array([rng.choice(np.flatnonzero(part)) for part in parts]).reshape(spaces.action_row)


def mask_reader(env: Env, spaces: Spaces) -> Callable[[Info, bool], np.ndarray | None]:
    """The function from a step's info, and whether an episode ended with it, to the mask [all choices].

    It returns None where all is allowed, and after the end of an episode, where no action is chosen.
    """
    if not spaces.masked:
        return lambda info, ended: None
    method = env.get_wrapper_attr("action_masks") if env.has_wrapper_attr("action_masks") else None
    if method is not None and not callable(method):
        raise EnvironmentFault("action_masks is not a method, but must be one that returns the mask")

    def read(info: Info, ended: bool) -> np.ndarray | None:
        if ended:
            return None
        given = info["action_mask"] if "action_mask" in info else method() if method else None
        return checked_mask(given, spaces)

    return read


def checked_mask(given: object, spaces: Spaces) -> np.ndarray:
    """The mask as one row; environments give one array, or one per dimension of the action.

    One with which no action can be chosen is a ``BadValue``.
    """
    if given is None:
        raise BadValue(
            f"{BAD_MASK} there was none; give info['action_mask'] with every reset and step, or define action_masks()"
        )
    parts = given if isinstance(given, tuple | list) and len(given) and np.ndim(given[0]) else (given,)
    flat = np.concatenate([np.ravel(part) for part in parts])
    if flat.dtype != bool and not (flat.dtype.kind in "iuf" and ((flat == 0) | (flat == 1)).all()):
        raise BadValue(f"{BAD_MASK} it is {given!r:.80}, but must hold only 0 and 1")
    if len(flat) != spaces.action_size:
        raise BadValue(f"{BAD_MASK} it has {len(flat)} entries, but the actions have {spaces.action_size} choices")
    for allowed in np.split(flat, np.cumsum(spaces.choices[:-1])):
        if not allowed.any():
            raise BadValue(
                f"{BAD_MASK} it allows no action at all ({allowed.astype(int)}), but must allow one in every state "
                "that is not the last of its episode"
            )
    return flat.astype(bool)
