"""What the learner needs to know of an environment's spaces, as plain data that fits into a JSON file."""

from collections.abc import Iterable, Iterator
from math import prod
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from toppo.errors import BAD_DATA, ToppoError

Obs = Any  # what an environment's space holds: an array, a number, or nested dictionaries and tuples of them
Info = dict[str, Any]
EnvAction = Any  # what its action space holds
Env = gym.Env[Obs, EnvAction]
Space = gym.Space[Any]
# Generic in some versions of Gymnasium, and not in others.
Discrete = gym.spaces.Discrete | gym.spaces.MultiDiscrete | gym.spaces.MultiBinary  # type: ignore[type-arg, unused-ignore]
MAX_CHOICES = 2**20
Path = tuple[str | int, ...]


class BadValue(ValueError):  # noqa: N818 - it names what was found
    """A value that does not fit the environment's spaces, or an answer of the wrong type."""


def shortened(value: object) -> str:
    """A value in a few words, for messages."""
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    return "None" if value is None else f"{type(value).__name__} {' '.join(repr(value).split()):.40}"


class Part(NamedTuple):
    """One entry of an observation: where it is found in nested dictionaries and tuples, and what it holds."""

    path: Path
    kind: str  # "numbers", "choices" (whole numbers, stored one-hot) or "image"
    shape: tuple[int, ...]
    choices: tuple[int, ...] = ()  # how many values each whole number may take
    starts: tuple[int, ...] = ()  # the first of them

    @property
    def title(self) -> str:
        """The name of the entry in messages."""
        return f"the observation's entry {'/'.join(map(str, self.path))!r}" if self.path else "the observation"

    @property
    def size(self) -> int:
        """Entries that it takes in an observation's row."""
        return sum(self.choices) if self.kind == "choices" else prod(self.shape)


class Spaces(NamedTuple):
    """Observation and action as the policy sees them, and how its actions become the environment's."""

    parts: tuple[Part, ...]
    choices: tuple[int, ...]  # of discrete actions: how many in each dimension; empty for a Box
    starts: tuple[int, ...]  # the first of them
    action_shape: tuple[int, ...]
    action_dtype: str
    low: tuple[float, ...]  # bounds of a Box, flat; empty if discrete
    high: tuple[float, ...]
    masked: bool  # does the environment give masks of its discrete actions?
    episode_limit: int | None
    left_out: tuple[str, ...] = ()  # entries of the observation that no network reads

    @property
    def discrete(self) -> bool:
        """Are actions whole numbers?"""
        return bool(self.choices)

    @property
    def action_size(self) -> int:
        """Dimensions of a Box, or logits of all choices."""
        return sum(self.choices) if self.choices else len(self.low)

    @property
    def action_row(self) -> tuple[int, ...]:
        """Shape of the policy's action: a single choice is a number, all else a vector."""
        return () if len(self.choices) == 1 else (len(self.choices) or len(self.low),)

    @property
    def images(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of the images, as the environment gives them."""
        return tuple(part.shape for part in self.parts if part.kind == "image")

    @property
    def obs_size(self) -> int:
        """Numbers in an observation, choices one-hot, images not counted: what is normalised."""
        return sum(part.size for part in self.parts if part.kind != "image")

    @property
    def mask_size(self) -> int:
        """Entries of the mask of allowed actions."""
        return self.action_size if self.masked else 0

    @property
    def row_size(self) -> int:
        """Entries of an observation as it is stored: numbers, mask, pixels.  In bytes if there are images."""
        if not self.images:
            return self.obs_size + self.mask_size
        return 4 * self.obs_size + self.mask_size + sum(map(prod, self.images))

    @property
    def row_dtype(self) -> str:
        """Type of a stored observation."""
        return "uint8" if self.images else "float32"


def describe(env: Env, masked: bool | None = None) -> Spaces:
    """Describe the environment's spaces; a reset finds out whether it gives masks, unless that is known."""
    masked = gives_masks(env) if masked is None else masked
    return describe_spaces(env.observation_space, env.action_space, masked, episode_limit(env))


def describe_spaces(obs: Space, action: Space, masked: bool, limit: int | None) -> Spaces:
    """Describe an observation space and an action space."""
    parts = tuple(_parts(obs))
    known = tuple(p for p in parts if p.kind != "text")
    if sum(p.size for p in known) == 0:
        raise ToppoError(f"the observation space is {obs}, which has no entries that a network can read")
    _refuse_unusable_actions(action)
    choices, starts = _choices(action) if isinstance(action, Discrete) else ((), ())
    return Spaces(
        parts=known,
        choices=choices,
        starts=starts,
        action_shape=tuple(map(int, action.shape or ())),
        action_dtype=str(action.dtype),
        low=tuple(action.low.ravel().tolist()) if isinstance(action, gym.spaces.Box) else (),
        high=tuple(action.high.ravel().tolist()) if isinstance(action, gym.spaces.Box) else (),
        masked=masked,
        episode_limit=limit,
        left_out=tuple("/".join(map(str, p.path)) for p in parts if p.kind == "text"),
    )


def refuse_other_spaces(name: str, theirs: Spaces, ours: Spaces) -> None:
    """Refuse an environment whose spaces are not ``ours``, those of the policy; only its time limit may be another."""
    differences = [
        f"{what} are {a}, not {b}"
        for what, words in (("its observations", _describe_observation), ("its actions", _describe_action))
        if (a := words(theirs)) != (b := words(ours))
    ]
    if differences or theirs._replace(episode_limit=None) != ours._replace(episode_limit=None):
        why = " and ".join(differences) or "entries of its spaces differ"
        raise ToppoError(f"{name} has other spaces than the policy was trained in: {why}", BAD_DATA)


def _describe_observation(spaces: Spaces) -> str:
    shapes = {"numbers": "numbers of shape", "image": "an image of shape", "choices": "choices"}
    names = ["'" + "/".join(map(str, p.path)) + "': " if p.path else "" for p in spaces.parts]
    kinds = [f"{shapes[p.kind]} {_describe_choices(p.starts, p.choices) or p.shape}" for p in spaces.parts]
    return ", ".join(name + kind for name, kind in zip(names, kinds, strict=True))


def _describe_action(spaces: Spaces) -> str:
    if spaces.discrete:
        return f"choices {_describe_choices(spaces.starts, spaces.choices)}{' with a mask' * spaces.masked}"
    pairs = dict.fromkeys(zip(spaces.low, spaces.high, strict=True))
    bounds = ", ".join(f"{low:g} to {high:g}" for low, high in pairs)
    return f"numbers of shape {spaces.action_shape} from {bounds}"


def _describe_choices(starts: Iterable[int], counts: Iterable[int]) -> str:
    ranges = ", ".join(f"{start} to {start + count - 1}" for start, count in zip(starts, counts, strict=True))
    return f"{ranges:.100}"


def episode_limit(env: Env) -> int | None:
    """The time limit that the environment is registered with, or that of the wrapper around it."""
    limit: int | None = getattr(env.spec, "max_episode_steps", None)
    while limit is None and isinstance(env, gym.Wrapper):
        limit = getattr(env, "_max_episode_steps", None)
        env = env.env
    return limit


def gives_masks(env: Env) -> bool:
    """Does an environment with discrete actions give masks?"""
    if isinstance(env.action_space, gym.spaces.Box):
        return False
    if env.has_wrapper_attr("action_masks"):
        return True
    answer = env.reset(seed=0)
    return isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[1], dict) and "action_mask" in answer[1]


def _parts(space: Space, path: Path = ()) -> Iterator[Part]:
    """The entries of an observation space, in the order of its keys."""
    where = f"the entry {'/'.join(map(str, path))!r} of the observation space" if path else "the observation space"
    if isinstance(space, gym.spaces.Dict | gym.spaces.Tuple):
        entries = space.spaces.items() if isinstance(space, gym.spaces.Dict) else enumerate(space.spaces)
        for key, entry in entries:
            yield from _parts(entry, (*path, key))
    elif isinstance(space, gym.spaces.Box) and np.dtype(space.dtype).kind in "biuf":
        yield Part(path, "image" if _is_image(space) else "numbers", tuple(map(int, space.shape)))
    elif isinstance(space, Discrete):
        choices, starts = _choices(space)
        yield Part(path=path, kind="choices", shape=tuple(map(int, space.shape or ())), choices=choices, starts=starts)
    elif path and space.dtype is not None and space.dtype.kind == "U":
        yield Part(path, "text", ())
    else:
        raise ToppoError(
            f"{where} is {space}, but must be a Box of numbers, Discrete, MultiDiscrete or MultiBinary, "
            "or a Dict or Tuple of these"
        )


def _is_image(space: gym.spaces.Box) -> bool:
    """Bytes of the full range: a board with bytes from 0 to 2 holds numbers."""
    full = np.all(space.low == 0) and np.all(space.high == 255)
    return bool(space.dtype == np.uint8 and full and len(space.shape) in (2, 3, 4) and 0 not in space.shape)


def _choices(space: Discrete) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """How many values each whole number of a discrete space may take, and the first of them."""
    if isinstance(space, gym.spaces.MultiBinary):
        counts = np.full(space.shape, 2)
    else:
        counts = np.asarray(space.n if isinstance(space, gym.spaces.Discrete) else space.nvec)
    if counts.sum() > MAX_CHOICES:
        raise ToppoError(
            f"the space {space} has {counts.sum():,} choices, one input or output of the network each, but may have "
            f"{MAX_CHOICES:,} at most: give large whole numbers as a Box"
        )
    starts = np.broadcast_to(getattr(space, "start", 0), counts.shape)
    return tuple(counts.ravel().tolist()), tuple(starts.ravel().tolist())


def _refuse_unusable_actions(space: Space) -> None:
    """Refuse an action space that no policy can choose from."""
    if isinstance(space, Discrete):
        if 0 in (space.shape or ()):
            raise ToppoError(f"the action space is {space}, which has no entries")
    elif not isinstance(space, gym.spaces.Box) or not np.issubdtype(space.dtype, np.floating):
        raise ToppoError(
            f"the action space is {space}, but must be a Box of floats, Discrete, MultiDiscrete (for whole numbers) or "
            "MultiBinary"
        )
    elif np.all(space.low == space.high):
        raise ToppoError(f"the action space is {space}, but needs low < high in one dimension at least")
