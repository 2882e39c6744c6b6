import functools
import sys

import gymnasium as gym
import pytest
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

from tests.support import probes
from toppo.envs.source import factory, factory_path, is_registered, kind_of, make, name_of, strip
from toppo.errors import ToppoError


def test_an_id_a_function_and_an_object_all_make_an_environment():
    env = probes.Walk()
    assert make(env) is env
    assert isinstance(make(probes.walk), probes.Walk)
    made = make("Pendulum-v1")
    assert made.spec.id == "Pendulum-v1"
    made.close()


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("Nowhere-v0", "'Nowhere-v0' is not an environment that Gymnasium can make"),
        ("Pendulum-v99", "'Pendulum-v99' is not an environment that Gymnasium can make"),
        ("not an id!", "is not an environment that Gymnasium can make"),
        ("no.such.module:Env-v0", "needs the module 'no', which is not found: install it, or put its directory on"),
        ("tests.nothing:Env-v0", "needs the module 'tests.nothing', which is not found: install it, or put its"),
        (None, "NoneType None is no environment: give an id, a gymnasium.Env, a function that makes one, or"),
        ([probes.walk], "is no environment: give an id, a gymnasium.Env"),
        (gym.spec("CartPole-v1"), "EnvSpec EnvSpec(id='CartPole-v1'"),
        (dict, "the environment function returned dict, but must return a gymnasium.Env"),
        (probes.unmade, f"unmade cannot be made: it raised OSError: no such robot ({probes.__file__}, line "),
    ],
)
def test_what_cannot_be_made_is_refused_in_one_sentence(source, sentence):
    with pytest.raises(ToppoError) as refusal:
        make(source)
    assert sentence in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_missing_package_is_named_with_the_extra_that_brings_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "mujoco", None)  # as if it were not installed
    for name in [m for m in sys.modules if m.startswith("gymnasium.envs.mujoco")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ToppoError, match=r"HalfCheetah-v5.*mujoco"):
        make("HalfCheetah-v5")


def test_what_a_module_of_ones_own_lacks_is_named(tmp_path, monkeypatch):
    (tmp_path / "my_rooms.py").write_text("import nowhere_to_be_found")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ToppoError, match="'my_rooms:Room-v0' needs the package 'nowhere_to_be_found': pip install now"):
        make("my_rooms:Room-v0")


def test_an_environment_is_called_by_what_is_inside_its_wrappers():
    assert name_of(gym.make("CartPole-v1")) == "CartPoleEnv"
    assert name_of(functools.partial(probes.limited, probes.Walk(), 5)) == "limited"
    assert [name_of(source) for source in ("Hopper-v5", probes.walk, probes.Walk)] == ["Hopper-v5", "walk", "Walk"]


def test_functions_are_found_again_by_their_path():
    path = factory_path(probes.walk)
    assert path == "tests.support.probes:walk"
    assert factory(path) is probes.walk


def test_functions_that_another_process_cannot_find_have_no_path():
    assert factory_path(lambda: probes.Walk()) is None
    assert factory_path(probes.Walk()) is None
    assert factory_path(probes.Walk().reset) is None


def test_kinds():
    assert kind_of("HalfCheetah-v5") == "mujoco"
    assert kind_of("Pendulum-v1") == kind_of("Nowhere-v0") == kind_of(probes.walk) == "other"
    assert is_registered("Pendulum-v1")
    assert not is_registered("os:Pendulum-v1")
    assert not is_registered("Nowhere-v0")


def test_stripping_takes_the_checks_and_the_outermost_limit_only():
    inner = TimeLimit(probes.Walk(), 30)
    bare, limit = strip(TimeLimit(OrderEnforcing(PassiveEnvChecker(inner)), 20))
    assert (bare, limit) == (inner, 20)
    bare, limit = strip(gym.wrappers.RecordEpisodeStatistics(TimeLimit(probes.Walk(), 30)))
    assert limit is None
    assert isinstance(bare, gym.wrappers.RecordEpisodeStatistics)
