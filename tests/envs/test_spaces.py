import json

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toppo.envs.actions import action_to_env
from toppo.envs.spaces import describe, refuse_other_spaces
from toppo.envs.spaces_json import spaces_from_json, spaces_to_json
from toppo.errors import USAGE, ToppoError

BOX = gym.spaces.Box(-1.0, 1.0, (3,), np.float32)


def env_with(observation=BOX, action=BOX):
    env = gym.Env()
    env.observation_space, env.action_space = observation, action
    return env


def test_description_of_a_box():
    spaces = describe(env_with(action=gym.spaces.Box(np.array([0.0, -2.0]), np.array([4.0, 2.0]))))
    assert (spaces.obs_size, spaces.row_size, spaces.action_size, spaces.discrete) == (3, 3, 2, False)
    assert (spaces.low, spaces.high, spaces.episode_limit) == ((0.0, -2.0), (4.0, 2.0), None)


def test_description_of_a_registered_environment_has_its_time_limit():
    env = gym.make("Pendulum-v1")
    assert describe(env).episode_limit == 200
    env.close()


def test_the_time_limit_of_an_environment_that_is_not_registered_is_that_of_its_wrapper():
    class Bare(gym.Env):
        observation_space = action_space = BOX

    assert describe(Bare()).episode_limit is None
    limited = gym.wrappers.TimeLimit(Bare(), 20)
    for env in (limited, gym.wrappers.OrderEnforcing(limited)):
        assert describe(env).episode_limit == 20


@given(
    st.lists(st.tuples(st.floats(-50, 50), st.floats(0.01, 50)), min_size=1, max_size=4),
    st.lists(st.floats(-3, 3, width=32), min_size=4, max_size=4),
    st.sampled_from([np.float32, np.float64]),
)
def test_box_actions_are_clipped_and_rescaled(bounds, action, dtype):
    low = np.array([a for a, _ in bounds], dtype)
    high = np.array([a + w for a, w in bounds], dtype)
    space = gym.spaces.Box(low, high, dtype=dtype)
    result = action_to_env(describe(env_with(action=space)))(np.array(action[: len(bounds)], np.float32))
    assert result.dtype == dtype
    for got, a, lo, hi in zip(result, action, low.tolist(), high.tolist(), strict=False):
        expected = lo + (min(max(a, -1.0), 1.0) + 1) / 2 * (hi - lo)
        assert got == pytest.approx(expected, abs=1e-5 * (1 + abs(lo) + abs(hi)))


def test_box_actions_by_hand():
    to_env = action_to_env(describe(env_with(action=gym.spaces.Box(0.0, 4.0, (3,), np.float32))))
    assert to_env(np.array([-7.0, 0.5, 1.0], np.float32)).tolist() == [0.0, 3.0, 4.0]
    same = action_to_env(describe(env_with()))
    assert same(np.array([-7.0, 0.5, 1.5], np.float32)).tolist() == [-1.0, 0.5, 1.0]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("bounds", [(-np.pi, 2), (-0.4, 0.4), (0, 0.1), (-0.1, 1e30), (-1e300, 1e300), (0.1, np.inf)])
def test_a_box_action_never_leaves_its_bounds(bounds, dtype):
    with np.errstate(over="ignore"):
        space = gym.spaces.Box(*np.array(bounds).astype(dtype), (2,), dtype)
    to_env = action_to_env(describe(env_with(action=space)))
    for action in ([-1, 1], [-9, 9], [0, 0.5], [1, -1]):
        assert space.contains(to_env(np.array(action, np.float32)))


@pytest.mark.parametrize("bound", [0.4, 1.0, 2.0, 3.0])
def test_the_bounds_of_mujocos_tasks_come_out_exactly_as_they_are(bound):
    space = gym.spaces.Box(-bound, bound, (2,), np.float32)
    actions = np.random.default_rng(0).normal(size=(500, 2)).astype(np.float32)
    found = action_to_env(describe(env_with(action=space)))(actions)
    assert found.tobytes() == (np.clip(actions, -1, 1) * np.float32(bound)).tobytes()


def test_the_sampled_action_itself_is_left_alone():
    action = np.array([5.0, 5.0, 5.0], np.float32)
    for space in (BOX, gym.spaces.Box(0.0, 4.0, (3,), np.float32)):
        action_to_env(describe(env_with(action=space)))(action)
    assert action.tolist() == [5.0] * 3


def test_a_dimension_without_two_bounds_is_clipped_and_counted_from_the_allowed_number_nearest_0():
    low, high = np.array([-np.inf, 0.0, 1.0, -np.inf, -1.0]), np.array([np.inf, 2.0, np.inf, -3.0, np.inf])
    to_env = action_to_env(describe(env_with(action=gym.spaces.Box(low, high, dtype=np.float64))))
    assert to_env(np.array([37.5, 9.0, -4.0, 5.0, -9.0], np.float32)).tolist() == [37.5, 2.0, 1.0, -3.0, -1.0]
    assert to_env(np.array([-37.5, -9.0, 4.0, -2.0, 0.5], np.float32)).tolist() == [-37.5, 0.0, 5.0, -5.0, 0.5]


def test_bounds_that_only_doubles_can_tell_apart():
    to_env = action_to_env(describe(env_with(action=gym.spaces.Box(1e9, 1e9 + 1, (1,), np.float64))))
    assert [to_env(np.array([x], np.float32)).item() - 1e9 for x in (-1, -0.5, 0, 1)] == [0.0, 0.25, 0.5, 1.0]


def test_a_dimension_that_cannot_move_beside_one_that_can():
    space = gym.spaces.Box(np.array([0.0, 1.0], np.float32), np.array([2.0, 1.0], np.float32))
    to_env = action_to_env(describe(env_with(action=space)))
    assert to_env(np.array([0.5, -7.0], np.float32)).tolist() == [1.5, 1.0]


def test_numbers_that_are_true_or_false():
    spaces = describe(env_with(gym.spaces.Box(0, 1, (3,), np.bool_)))
    assert [part.kind for part in spaces.parts] == ["numbers"]


@pytest.mark.parametrize(
    ("observation", "action", "sentence"),
    [
        (gym.spaces.Box(-1, 1, (4,)), gym.spaces.Discrete(3), "observations are numbers of shape (4,), not numbers of"),
        (BOX, gym.spaces.Discrete(3, start=7), "its actions are choices 7 to 9, not choices 0 to 2"),
        (BOX, gym.spaces.Discrete(4), "its actions are choices 0 to 3, not choices 0 to 2"),
        (BOX, gym.spaces.Box(-2, 2, (2,)), "its actions are numbers of shape (2,) from -2 to 2, not choices 0 to 2"),
        (
            gym.spaces.Dict({"a": BOX}),
            gym.spaces.Discrete(3),
            "its observations are 'a': numbers of shape (3,), not numbers",
        ),
    ],
)
def test_other_spaces_are_refused_in_words(observation, action, sentence):
    ours = describe(env_with(BOX, gym.spaces.Discrete(3)))
    refuse_other_spaces("Room", ours._replace(episode_limit=9), ours)
    with pytest.raises(ToppoError, match="Room has other spaces than the policy was trained in: ") as refusal:
        refuse_other_spaces("Room", describe(env_with(observation, action)), ours)
    assert sentence in str(refusal.value)


def test_boxes_of_any_shape():
    space = gym.spaces.Box(-2.0, 2.0, (2, 2), np.float32)
    spaces = describe(env_with(gym.spaces.Box(0, 255, (4, 5), np.float32), space))
    assert (spaces.obs_size, spaces.action_size) == (20, 4)
    assert action_to_env(spaces)(np.array([1, 0.5, 0, -1], np.float32)).tolist() == [[2, 1], [0, -2]]


@pytest.mark.parametrize(
    ("low", "high", "shape", "kind"),
    [
        (0, 255, (6, 7), "image"),
        (0, 255, (6, 7, 3), "image"),
        (0, 255, (42,), "numbers"),
        (0, 2, (6, 7), "numbers"),  # a board
        (1, 255, (6, 7), "numbers"),
    ],
)
def test_bytes_are_an_image_if_they_have_two_axes_and_the_full_range(low, high, shape, kind):
    (part,) = describe(env_with(gym.spaces.Box(low, high, shape, np.uint8))).parts
    assert (part.kind, part.shape) == (kind, shape)


def test_discrete_actions_begin_at_their_start():
    spaces = describe(env_with(action=gym.spaces.Discrete(3, start=5)))
    assert (spaces.discrete, spaces.action_size) == (True, 3)
    assert action_to_env(spaces)(np.asarray(2)) == 7


@pytest.mark.parametrize(
    ("observation", "action", "sentence"),
    [
        (gym.spaces.Text(4), BOX, "the observation space is Text(1, 4"),
        (gym.spaces.Dict({"a": gym.spaces.Sequence(BOX)}), BOX, "the entry 'a' of the observation space is Sequence("),
        (gym.spaces.Dict({"a": gym.spaces.Text(4)}), BOX, "which has no entries"),
        (gym.spaces.Box(0, 1, (0,)), BOX, "which has no entries"),
        (BOX, gym.spaces.Dict({"a": BOX}), "but must be a Box of floats, Discrete, MultiDiscrete (for whole"),
        (BOX, gym.spaces.Box(0, 255, (2,), np.uint8), "but must be a Box of floats"),
        (BOX, gym.spaces.Box(1, 1, (2,)), "needs low < high in one dimension at least"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_sentence(observation, action, sentence):
    with pytest.raises(ToppoError) as refusal:
        describe(env_with(observation, action))
    assert sentence in str(refusal.value)
    assert refusal.value.code == USAGE
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    "action",
    [
        BOX,
        gym.spaces.Discrete(3, start=2),
        gym.spaces.MultiDiscrete([2, 3], start=[1, -1]),
        gym.spaces.MultiBinary((2, 2)),
        gym.spaces.Box(np.array([-np.inf, 0.0]), np.array([np.inf, np.inf]), dtype=np.float64),
    ],
)
def test_spaces_survive_strict_json(action):
    spaces = describe(env_with(action=action))
    assert spaces_from_json(json.loads(json.dumps(spaces_to_json(spaces), allow_nan=False))) == spaces


@pytest.mark.parametrize("data", [None, 3, [], {}, {"parts": [3]}])
def test_spaces_from_a_crafted_file_are_refused(data):
    with pytest.raises(ToppoError, match="spaces"):
        spaces_from_json(data)
