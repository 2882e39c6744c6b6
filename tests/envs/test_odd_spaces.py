"""Spaces at the edge of what Gymnasium allows: trained in, or refused in a sentence before the first step."""

import json

import jax
import numpy as np
import pytest
from gymnasium import spaces as gs
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.training import setup_for, train_all
from tests.support.worlds import ACTIONS, BOX, Anything
from toppo.envs.actions import action_to_env
from toppo.envs.check import check_single
from toppo.envs.observations import row_encoder, rows_of
from toppo.envs.spaces import describe_spaces
from toppo.envs.spaces_json import spaces_from_json, spaces_to_json
from toppo.errors import ToppoError

INF, CHOICE = np.inf, ACTIONS["discrete"]
SLOW = ("a picture, height first", "a picture, colours first", "a picture of one point", "actions in a square")
# The first ten are four numbers to the networks, so that one program serves them all.
WORKS: dict[str, tuple[gs.Space, gs.Space]] = {
    "unbounded numbers": (gs.Box(-INF, INF, (4,)), CHOICE),
    "numbers bounded on one side": (gs.Box(np.array([0, -INF, 0, -INF]), np.array([INF, 1, INF, 1])), CHOICE),
    "numbers that cannot move": (gs.Box(1.0, 1.0, (4,)), CHOICE),
    "one number without a shape": (gs.Tuple((gs.Box(-1.0, 1.0, ()), gs.Box(-1.0, 1.0, (1, 3)))), CHOICE),
    "halves": (gs.Box(-9, 9, (4,), np.float16), CHOICE),
    "large whole numbers": (gs.Box(-(2**62), 2**62, (4,), np.int64), CHOICE),
    "a choice of one": (gs.Dict({"a": gs.Discrete(1), "b": gs.Box(-1.0, 1.0, (3,))}), CHOICE),
    "choices in a square": (gs.MultiDiscrete([[1, 1], [1, 1]]), CHOICE),
    "bits in a square": (gs.MultiBinary((2, 1)), CHOICE),
    "dictionaries in tuples in dictionaries": (gs.Dict({"a": gs.Tuple((BOX, gs.Dict({"b": gs.Discrete(2)})))}), CHOICE),
    "a picture, height first": (gs.Box(0, 255, (9, 8, 3), np.uint8), CHOICE),
    "a picture, colours first": (gs.Box(0, 255, (3, 9, 8), np.uint8), CHOICE),
    "a picture of one point": (gs.Box(0, 255, (1, 1), np.uint8), CHOICE),
    "an action of one choice": (BOX, gs.Discrete(1)),
    "actions without bounds": (BOX, gs.Box(-INF, INF, (2,))),
    "actions in a square": (BOX, gs.MultiDiscrete([[2, 3], [2, 2]])),
}
REFUSED: dict[str, tuple[gs.Space, gs.Space, str]] = {
    "no numbers": (gs.Box(0, 1, (0,)), CHOICE, "which has no entries"),
    "an empty dictionary": (gs.Dict({}), CHOICE, "which has no entries"),
    "numbers that no float32 holds": (gs.Box(1e100, 1e101, (2,), np.float64), CHOICE, "more than a float32 can hold"),
    "more choices than a network has inputs": (gs.Discrete(2**40), CHOICE, "has 1,099,511,627,776 choices"),
    "text": (gs.Text(5), CHOICE, "but must be a Box of numbers"),
    "a list of any length": (gs.Sequence(BOX), CHOICE, "but must be a Box of numbers"),
    "a graph": (gs.Graph(BOX, None), CHOICE, "but must be a Box of numbers"),
    "one of several": (gs.OneOf((BOX, BOX)), CHOICE, "but must be a Box of numbers"),
    "no action": (BOX, gs.Box(-1, 1, (0,)), "needs low < high in one dimension"),
    "an action that cannot move": (BOX, gs.Box(1.0, 1.0, (2,)), "needs low < high in one dimension"),
    "whole numbers as a box": (BOX, gs.Box(0, 9, (2,), np.int32), "but must be a Box of floats"),
    "actions in a dictionary": (BOX, gs.Dict({"a": CHOICE}), "but must be a Box of floats"),
}


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in WORKS])
def test_an_odd_space_is_trained_in(name):
    observation, action = WORKS[name]

    def source():
        return Anything(observation, action)

    check_single(source())
    turns = train_all(setup_for("ppo", source, iterations=2), source)
    for leaf in jax.tree.leaves((turns[-1].state.learner, turns[-1].state.memory)):
        assert np.isfinite(leaf).all()


@pytest.mark.parametrize("name", REFUSED)
def test_or_refused_before_the_first_step(name):
    observation, action, sentence = REFUSED[name]
    with pytest.raises(ToppoError) as refusal:
        check_single(Anything(observation, action))
    assert sentence in str(refusal.value)
    assert "\n" not in str(refusal.value)


LEAVES = st.one_of(
    st.builds(
        lambda shape, dtype, low: gs.Box(low, 9, tuple(shape), dtype),
        st.lists(st.integers(1, 3), max_size=3),
        st.sampled_from([np.float16, np.float32, np.float64, np.int8, np.int64, np.uint8]),
        st.sampled_from([0, 3]),
    ),
    st.builds(gs.Discrete, st.integers(1, 4), start=st.integers(-3, 3)),
    st.lists(st.integers(1, 3), min_size=1, max_size=4).map(gs.MultiDiscrete),
    st.lists(st.integers(1, 2), min_size=1, max_size=2).map(lambda shape: gs.MultiBinary(tuple(shape))),
    st.just(gs.Text(3)),
)
NAMES = st.text("abc/ü", max_size=3)
OBSERVATIONS = st.recursive(
    LEAVES,
    lambda inner: st.dictionaries(NAMES, inner, max_size=3).map(gs.Dict) | st.lists(inner, max_size=3).map(gs.Tuple),
    max_leaves=6,
)
MOVES = st.one_of(
    st.builds(gs.Discrete, st.integers(1, 5), start=st.integers(-3, 3)),
    st.lists(st.integers(1, 4), min_size=1, max_size=4).map(gs.MultiDiscrete),
    st.integers(1, 4).map(gs.MultiBinary),
    st.builds(
        lambda shape, low, width, dtype: gs.Box(low, low + width if width < INF else INF, tuple(shape), dtype),
        st.lists(st.integers(1, 3), max_size=2),
        st.sampled_from([-INF, -5.0, -np.pi, -0.4, 0.0, 1e-3, 2.0]) | st.floats(-1e3, 1e3),
        st.sampled_from([0.0, 0.1, 0.8, np.pi, 7.0, 1e30, INF]) | st.floats(0, 1e3),
        st.sampled_from([np.float32, np.float64]),
    ),
)


@given(OBSERVATIONS, MOVES, st.booleans(), st.integers(0, 2**31))
@settings(max_examples=200)
def test_any_space_is_described_stored_and_acted_in_or_refused(observation, action, masked, seed):
    try:
        spaces = describe_spaces(observation, action, masked and not isinstance(action, gs.Box), 10)
    except ToppoError:
        return
    assert spaces_from_json(json.loads(json.dumps(spaces_to_json(spaces), allow_nan=False))) == spaces
    observation.seed(seed)
    samples = [observation.sample() for _ in range(2)]
    rows = [row_encoder(spaces)(sample, None) for sample in samples]
    for row, sample in zip(rows, samples, strict=True):
        assert row.shape == (spaces.row_size,)
        again, single = rows_of(spaces, sample)
        assert single
        assert again[0].tobytes() == row.tobytes()
    rng = np.random.default_rng(seed)
    to_env = action_to_env(spaces)
    if spaces.discrete:
        assert action.contains(to_env(np.reshape(rng.integers(spaces.choices), spaces.action_row)))
        return
    for size in (0.3, 3, 1e6):  # inside, at the bounds and inside, at the bounds
        assert action.contains(to_env((rng.normal(size=spaces.action_row) * size).astype(np.float32)))


@pytest.mark.slow
@given(OBSERVATIONS, MOVES)
@settings(max_examples=15)
def test_any_space_that_passes_the_check_is_trained_in(observation, action):
    def source():
        return Anything(observation, action)

    try:
        check_single(source())
    except ToppoError:
        return
    turns = train_all(setup_for("toppo", source, iterations=2), source)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(turns[-1].state.learner))
