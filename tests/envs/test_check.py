"""A zoo of wrong environments, each with its sentence."""

import itertools
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from toppo.envs.check import check_single
from toppo.errors import BAD_DATA, EnvironmentFault

BOX = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
FINE = np.zeros(2, np.float32)


class Honest(gym.Env[Any, Any]):
    """Keeps its word; every wrong environment differs in one point."""

    observation_space: gym.Space[Any] = BOX
    action_space: gym.Space[Any] = gym.spaces.Discrete(2)
    first: Any = FINE
    later: Any = FINE
    reward: Any = 1.0
    terminated: Any = False
    truncated: Any = False
    info: Any = {}  # noqa: RUF012

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        return self.first, self.info

    def step(self, action: Any) -> Any:
        return self.later, self.reward, self.terminated, self.truncated, self.info


class OldReset(Honest):
    def reset(self) -> Any:  # type: ignore[override]
        return self.first, {}


class BareReset(Honest):
    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        return self.first


class OldStep(Honest):
    def step(self, action: Any) -> Any:
        return self.later, 1.0, False, {}


class NoStep(Honest):
    def step(self, action: Any) -> Any:
        return None


class LateMask(Honest):
    def step(self, action: Any) -> Any:
        return (*super().step(action)[:4], {"action_mask": np.ones(2)})


class BrokenReset(Honest):
    """Raises what a reset of the wrong form raises, too."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        return 1 + "a"  # type: ignore[operator]


class Mumble(Exception):  # noqa: N818
    def __str__(self) -> str:
        raise ValueError("no words")


class Mumbling(Honest):
    def step(self, action: Any) -> Any:
        raise Mumble


class Leaving(Honest):
    def step(self, action: Any) -> Any:
        raise SystemExit(3)


class NoActions(gym.Env[Any, Any]):
    observation_space = BOX


class NoObservations(gym.Env[Any, Any]):
    action_space = gym.spaces.Discrete(2)


def differing(**fields: Any) -> type[Honest]:
    return type("Differing", (Honest,), fields)


DICT = gym.spaces.Dict({"a": BOX, "b": gym.spaces.Discrete(2)})
WORDS = gym.spaces.Dict({"a": BOX, "w": gym.spaces.Text(9)})
IMAGE = gym.spaces.Box(0, 255, (8, 8, 3), np.uint8)
WRONG = [
    (NoActions, "action_space is None, but must be a space: define self.action_space = gymnasium.spaces..."),
    (NoObservations, "observation_space is None, but must be a space: define self.observation_space = "),
    (differing(action_space=4), "action_space is int 4, but must be a space"),
    (
        differing(first=[[1.0], [1.0, 2.0]]),
        "the observation that reset() gave is not an array (setting an array element",
    ),
    (OldReset, "define reset(self, *, seed=None, options=None)"),
    (BareReset, "reset() returned ndarray array([0., 0.], dtype=float32), but must return (observation, info)"),
    (differing(info=[]), "reset() returned list [] as info, but info must be a dictionary"),
    (OldStep, "a tuple of 4 (the four values of Gym before 0.26), but must return (observation, reward, terminated"),
    (NoStep, "step() returned None, but must return (observation, reward, terminated, truncated, info)"),
    (differing(reward="1"), "the reward is str '1', but must be one number"),
    (differing(reward=np.zeros(2)), "the reward is ndarray array([0., 0.]), but must be one number"),
    (differing(reward=True), "the reward is bool True, but must be one number"),
    (differing(reward=np.True_), "the reward is bool np.True_, but must be one number"),
    (differing(reward=None), "the reward is None, but must be one number"),
    (differing(reward=float("nan")), "step() returned the reward nan, but rewards must be finite"),
    (differing(terminated=0), "the flag terminated is int 0, but must be True or False"),
    (differing(truncated=None), "the flag truncated is None, but must be True or False"),
    (
        differing(first=np.zeros(3, np.float32)),
        "after reset(), the observation has shape (3,), but (2,) in its space",
    ),
    (
        differing(later=np.zeros((2, 1), np.float32)),
        "after step(), the observation has shape (2, 1), but (2,) in its space",
    ),
    (differing(first=0.0), "after reset(), the observation has shape (), but (2,) in its space"),
    (differing(first=np.array([0, np.nan])), "the observation that reset() gave is not finite"),
    (differing(later=np.array([0, np.inf])), "the observation that step() gave is not finite"),
    (differing(first="ab"), "the observation that reset() gave is of type <U2, but must be numbers"),
    (differing(observation_space=DICT, first={"a": FINE}), "without the observation's entry 'b', which its space has"),
    (differing(observation_space=DICT, first=FINE), "without the observation's entry 'a', which its space has"),
    (
        differing(observation_space=DICT, first={"a": FINE, "b": 2}),
        "after reset(), the observation's entry 'b' is int 2, which is not in its space Discrete(2)",
    ),
    (
        differing(observation_space=DICT, first={"a": FINE, "b": 0.5}),
        "entry 'b' is float 0.5, which is not in",
    ),
    (differing(observation_space=IMAGE, first=np.zeros((8, 8, 3))), "which is not in its space Box(0, 255"),
    (
        differing(observation_space=IMAGE, first=np.full((8, 8, 3), 256)),
        "which is not in its space Box(0, 255",
    ),
    (differing(info={"action_mask": np.ones(3)}), "it has 3 entries, but the actions have 2 choices"),
    (differing(info={"action_mask": np.zeros(2)}), "it allows no action at all ([0 0])"),
    (differing(info={"action_mask": []}), "it has 0 entries, but the actions have 2 choices"),
    (differing(info={"action_mask": [0.0, -np.inf]}), "it is [0.0, -inf], but must hold only 0 and 1"),
    (differing(info={"action_mask": [np.nan, 1]}), "it is [nan, 1], but must hold only 0 and 1"),
    (differing(info={"action_mask": ["a", "b"]}), "it is ['a', 'b'], but must hold only 0 and 1"),
    (differing(action_masks=np.ones(2)), "action_masks is not a method, but must be one that returns the mask"),
    (LateMask, "step() gave an action_mask, but reset() gave none"),
    (BrokenReset, "reset(seed=0) raised TypeError: unsupported operand"),
    (Mumbling, "raised Mumble: its message cannot be read"),
    (Leaving, "raised SystemExit: 3"),
]


@pytest.mark.parametrize(("kind", "sentence"), WRONG, ids=[sentence[:60] for _, sentence in WRONG])
def test_what_is_wrong_is_said_in_one_sentence(kind, sentence):
    with pytest.raises(EnvironmentFault) as refusal:
        check_single(kind())
    assert sentence in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert refusal.value.code == BAD_DATA


def test_an_honest_environment_has_no_notes():
    assert check_single(Honest())[1] == []


class Edgy(Honest):
    action_space: gym.Space[Any] = gym.spaces.Box(-np.pi, 2.0, (3,), np.float32)

    def step(self, action: Any) -> Any:
        assert np.all(action < 2.0), "too far"
        return super().step(action)


def test_the_bounds_of_an_action_are_tried():
    with pytest.raises(EnvironmentFault, match="raised AssertionError: too far"):
        check_single(Edgy())


class Forgetful(Honest):
    """Randomness that no seed governs."""

    count = itertools.count()

    def step(self, action: Any) -> Any:
        return np.full(2, next(self.count) % 7 / 10, np.float32), 1.0, False, False, {}


@pytest.mark.parametrize(
    ("kind", "note"),
    [
        (Forgetful, "resuming will not be bit-exact: draw all randomness from self.np_random"),
        (
            lambda: gym.wrappers.TimeLimit(gym.wrappers.NormalizeObservation(gym.make("CartPole-v1")), 9),
            "resuming will not be bit-exact: NormalizeObservation carries its statistics from episode to episode",
        ),
        (differing(first=np.zeros(2)), "is of type float64, but its space has float32: it is converted"),
        (differing(later=np.full(2, 3, np.float32)), "the observation leaves the bounds of its space"),
        (differing(first=np.zeros(2), later=np.zeros(2)), "the observation is of type float64, but its space has"),
        (differing(action_space=BOX, info={"action_mask": [1]}), "its action_mask is not used"),
        (
            differing(observation_space=WORDS, first={"a": FINE, "w": "x"}, later={"a": FINE, "w": "y"}),
            "the observation's entry 'w' is text and is left out",
        ),
    ],
)
def test_what_can_be_lived_with_is_noted_once(kind, note):
    notes = check_single(kind())[1]
    assert [note in n for n in notes] == [True]
