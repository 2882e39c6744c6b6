import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from toppo.envs.gym_spaces import gym_action_space, gym_observation_space
from toppo.envs.spaces import describe_spaces

IMAGE = spaces.Box(0, 255, (8, 8, 3), np.uint8)
NUMBERS = spaces.Box(-1.0, 2.0, (3,), np.float32)
TEXT = spaces.Text(3)
CHOICE = spaces.Discrete(4, start=2)


def described(obs=NUMBERS, action=CHOICE):
    return describe_spaces(obs, action, masked=False, limit=None)


@pytest.mark.parametrize(
    "space",
    [
        CHOICE,
        spaces.MultiDiscrete([[2, 3], [4, 2]]),
        spaces.MultiDiscrete([2, 3], start=[1, -1]),
        spaces.MultiBinary(4),
        spaces.MultiBinary((2, 2)),
        spaces.Box(np.float32([-1, -np.inf]), np.float32([2, np.inf])),
        spaces.Box(-0.4, 0.4, (2, 2), np.float64),
    ],
    ids=str,
)
def test_the_action_space_is_the_environments(space):
    assert gym_action_space(described(action=space)) == space


@pytest.mark.parametrize(
    "space", [IMAGE, CHOICE, spaces.MultiDiscrete([2, 3]), spaces.Dict(a=IMAGE, b=CHOICE)], ids=str
)
def test_an_observation_space_of_images_and_choices_is_the_environments(space):
    assert gym_observation_space(described(obs=space)) == space


@pytest.mark.parametrize(
    "space",
    [
        NUMBERS,
        spaces.Box(0, 1, (2,), np.float64),
        spaces.Box(0, 9, (2,), np.int64),
        spaces.MultiBinary((2, 2)),
        spaces.Dict(inner=spaces.Dict(a=NUMBERS, b=IMAGE), other=spaces.Tuple([CHOICE, NUMBERS])),
        spaces.Tuple([TEXT, NUMBERS, CHOICE]),
    ],
    ids=str,
)
def test_an_observation_space_holds_what_the_environments_gives(space):
    space.seed(1)
    found = gym_observation_space(described(obs=space))
    for _ in range(5):
        sample = space.sample()
        if isinstance(space, spaces.Tuple):
            sample = ("", *sample[1:])  # text is left out
        assert sample in found
    assert isinstance(found.sample(), type(space.sample()))


def test_text_in_a_dictionary_is_left_out():
    found = gym_observation_space(described(obs=spaces.Dict(mission=TEXT, position=NUMBERS)))
    assert found == gym.spaces.Dict(position=spaces.Box(-np.inf, np.inf, (3,), np.float64))
