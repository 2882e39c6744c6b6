"""Environments with every kind of space, in which the right action can be read off the observation."""

from copy import deepcopy
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces as gs

BOX = gs.Box(-1.0, 1.0, (2,), np.float32)
CHOICE = gs.Discrete(2)
SMALL_IMAGE = gs.Box(0, 255, (7, 7, 3), np.uint8)
OBSERVATIONS: dict[str, gs.Space] = {
    "matrix": gs.Box(-1.0, 1.0, (2, 3), np.float64),
    "discrete": gs.Discrete(4, start=-1),
    "multi_discrete": gs.MultiDiscrete([2, 3], start=[0, 5]),
    "multi_binary": gs.MultiBinary(3),
    "dict": gs.Dict({"place": BOX, "kind": gs.Discrete(3), "words": gs.Text(9)}),
    "tuple": gs.Tuple((BOX, gs.MultiBinary(2))),
    "small_image": SMALL_IMAGE,
    "grey": gs.Box(0, 255, (40, 38), np.uint8),
    "towers": gs.Dict({"eye": gs.Box(0, 255, (2, 36, 36), np.uint8), "map": SMALL_IMAGE, "inner": gs.Dict({"v": BOX})}),
}
ACTIONS: dict[str, gs.Space] = {
    "box": gs.Box(-2.0, 2.0, (1, 2), np.float64),
    "discrete": gs.Discrete(3, start=4),
    "multi_discrete": gs.MultiDiscrete([3, 2], start=[1, 0]),
    "multi_binary": gs.MultiBinary(2),
}


class Anything(gym.Env[Any, Any]):
    """Random observations of a space; the reward grows with the action; ends by chance and by time."""

    def __init__(self, observation: gs.Space, action: gs.Space, masked: bool = False) -> None:
        # A space of its own, since its samples follow from its seed.
        self.observation_space = deepcopy(observation)
        self.action_space = action
        self.masked = masked

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.observation_space.seed(int(self.np_random.integers(2**31)))
        self.t = 0
        return self.observation_space.sample(), self.info()

    def info(self) -> dict[str, Any]:
        if not self.masked:
            return {}
        counts = np.ravel(self.action_space.n if isinstance(self.action_space, gs.Discrete) else self.action_space.nvec)
        self.masks = [self.np_random.random(count) < 0.5 for count in counts]
        for mask in self.masks:
            mask[int(self.np_random.integers(len(mask)))] = True
        masks = tuple(mask.astype(np.int8) for mask in self.masks)
        return {"action_mask": masks if len(masks) > 1 else masks[0]}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        assert self.action_space.contains(action), action
        if self.masked:
            chosen = np.ravel(np.asarray(action) - self.action_space.start)
            assert all(mask[i] for mask, i in zip(self.masks, chosen, strict=True)), "an action that is not allowed"
        self.t += 1
        terminated = bool(self.np_random.random() < 0.08)
        return self.observation_space.sample(), float(np.sum(action)), terminated, self.t >= 9, self.info()


class Glance(gym.Env[Any, Any]):
    """One step; earns 1 for the side of the picture that is lit or, if the dictionary says so, for the other one.

    ``blind``: the picture is dark.
    """

    def __init__(self, size: int, with_dictionary: bool = False, blind: bool = False) -> None:
        image = gs.Box(0, 255, (size, size, 1), np.uint8)
        self.size = size
        self.dictionary = with_dictionary
        self.light = 0 if blind else 255
        self.observation_space = gs.Dict({"image": image, "shift": CHOICE}) if with_dictionary else image
        self.action_space = gs.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.side, self.shift = (int(x) for x in self.np_random.integers(2, size=2))
        return self.see(), {}

    def see(self) -> Any:
        image = np.zeros((self.size, self.size, 1), np.uint8)
        half = self.size // 2
        image[:, half * self.side : half * (self.side + 1)] = self.light
        return {"image": image, "shift": self.shift} if self.dictionary else image

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        right = (self.side + self.shift) % 2 if self.dictionary else self.side
        return self.see(), float(int(action) == right), True, False, {}


class Forbidden(gym.Env[Any, Any]):
    """One step; action 2 would earn most but is never allowed, action 1 earns more than 0.  Masks by method."""

    observation_space = gs.Box(-1.0, 1.0, (1,), np.float32)
    action_space = gs.Discrete(3)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        return np.ones(1, np.float32), {}

    def action_masks(self) -> np.ndarray:
        return np.array([True, True, False])

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        return np.ones(1, np.float32), float(action), True, False, {}


class Combination(gym.Env[Any, Any]):
    """One step; each of three dials is right or wrong, and the observation says where each must stand."""

    observation_space = gs.MultiDiscrete([2, 3, 2])
    action_space = gs.MultiDiscrete([2, 3, 2])

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.dials = self.np_random.integers([2, 3, 2])
        return self.dials, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        return self.dials, float(np.mean(action == self.dials)), True, False, {}


def masked() -> gym.Env:
    return Anything(BOX, ACTIONS["discrete"], masked=True)


def masked_dials() -> gym.Env:
    return Anything(BOX, ACTIONS["multi_discrete"], masked=True)


def dictionary() -> gym.Env:
    return Anything(OBSERVATIONS["dict"], ACTIONS["multi_discrete"])
