"""The search space: its table, files of users, and what is refused before anything is written."""

import json
import re
from pathlib import Path

import pytest

from tests.support.searching import task
from toppo.algos import REGISTRY
from toppo.errors import ToppoError
from toppo.runs.presets import PRESETS
from toppo.tune.space import OWN, SHARED, Choices, default_space, read_space, space_from_json


@pytest.mark.parametrize("algo", REGISTRY)
def test_every_value_of_the_table_can_be_trained(algo):
    for env in ("Pendulum-v1", "CartPole-v1"):
        if (algo, env) != ("disc", "CartPole-v1"):
            found = task(env, algo)
            space = space_from_json(default_space(found), found)
            assert {"learning_rate", "gamma", "n_steps"} < set(space.searched)
            assert ("log_std_init" in space.searched) == (env == "Pendulum-v1")
            assert space.fixed == {}


def test_every_algorithm_has_a_table():
    assert set(OWN) == set(REGISTRY)


def test_choices_that_do_not_suit_the_environment_are_left_out(monkeypatch):
    pytest.importorskip("mujoco", reason="no MuJoCo")
    monkeypatch.setitem(PRESETS, "default", PRESETS["paper"])
    # Every batch begins with a reset there, and an episode has 1000 steps.
    assert default_space(task("Hopper-v5", "toppo"))["n_steps"] == {"choices": [1024, 2048, 4096]}
    assert SHARED["n_steps"]["choices"][:2] == [256, 512]


def test_a_file_names_ranges_choices_and_values(tmp_path):
    data = {
        "n_epochs": {"low": 2, "high": 4},
        "gae_lambda": {"low": 0, "high": 1},
        "hidden": {"choices": [[8], [16, 16]]},
        "n_steps": 64,
    }
    (tmp_path / "space.json").write_text(json.dumps(data))
    found = task("CartPole-v1", "ppo")
    space = space_from_json(read_space(tmp_path / "space.json"), found)
    assert space.fixed == {"n_steps": 64}
    assert type(space.searched["n_epochs"].low) is int
    assert type(space.searched["gae_lambda"].low) is float  # or only 0 and 1 would be drawn
    assert isinstance(space.searched["hidden"], Choices)
    spec = found.spec(0, space.settings({"n_epochs": 3, "gae_lambda": 0.5, "hidden": "[16, 16]"}))
    assert (spec.common.hidden, spec.common.n_epochs, spec.config.n_steps) == ((16, 16), 3, 64)


def test_the_space_in_the_documentation_can_be_trained():
    page = (Path(__file__).parents[2] / "docs" / "tune.md").read_text()
    data = json.loads(re.search(r"```json\n(.*?)```", page, re.DOTALL)[1])
    space = space_from_json(data, task("CartPole-v1", "toppo"))
    assert (set(space.searched), space.fixed) == ({"learning_rate", "n_epochs", "hidden"}, {"n_envs": 8})


def test_a_value_that_needs_another_searched_value_is_allowed():
    space = {"n_steps": {"choices": [8, 64]}, "n_minibatches": {"choices": [4, 16]}}
    assert set(space_from_json(space | {"n_envs": 1}, task("CartPole-v1", "ppo")).searched) == set(space)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({"learning_rat": {"low": 1e-5, "high": 1e-3}}, "did you mean `learning_rate`?"),
        ({"gamma": {"low": 0.9, "high": 1.5}}, "gamma is 1.5, but must be in"),
        ({"n_steps": {"choices": [64, 100.5]}}, "n_steps is 100.5, but must be"),
        ({"n_envs": 3, "gamma": {"choices": [0.9]}}, "n_steps is 2048, but must be a multiple of n_envs = 3"),
        ({"gamma": {"low": 0.99, "high": 0.9}}, "gamma the range 0.99 to 0.9: low must be below high"),
        ({"ent_coef": {"low": 0, "high": 0.1, "log": True}}, "low must be above 0 if log is true"),
        ({"gamma": {"low": 0.9}}, 'gamma = {"low": 0.9}, but must have a value'),
        ({"gamma": {"low": 0.9, "high": 1, "step": 3}}, "but must have a value"),
        ({"gamma": {"choices": []}}, "but must have a value"),
        ({"gamma": {"low": 0.9, "high": float("nan")}}, "low must be below high"),
        ({"hidden": {"choices": [[64], {"a": 1}]}}, "hidden is {'a': 1}, but must be"),
        ({"gamma": 0.9}, "the search space is empty"),
        ({}, "the search space is empty"),
    ],
)
def test_what_no_trial_can_have_is_one_sentence(data, sentence):
    with pytest.raises(ToppoError) as refused:
        space_from_json(data, task("CartPole-v1", "ppo"))
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("text", "sentence"), [("[]", "is not a search space"), ("{", "is not valid JSON")])
def test_a_file_that_is_not_a_space_is_named(tmp_path, text, sentence):
    (tmp_path / "space.json").write_text(text)
    with pytest.raises(ToppoError, match=sentence):
        read_space(tmp_path / "space.json")
    with pytest.raises(ToppoError, match="does not exist"):
        read_space(tmp_path / "none.json")
