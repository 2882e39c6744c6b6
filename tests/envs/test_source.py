import functools
import json
import sys
from importlib.metadata import version

import gymnasium as gym
import pytest
from gymnasium.vector import SyncVectorEnv
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

from tests.support import probes
from toppo.envs.single import strip
from toppo.envs.source import from_address, make, resolve
from toppo.errors import ToppoError


def test_an_id_a_function_and_an_object_all_make_an_environment():
    env = probes.Walk()
    assert make(resolve(env)) is env
    assert isinstance(make(resolve(probes.walk)), probes.Walk)
    made = make(resolve("Pendulum-v1"))
    assert made.spec.id == "Pendulum-v1"
    made.close()


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("Nowhere-v0", "'Nowhere-v0' is not an environment that Gymnasium can make"),
        ("Nowhere-v0", "; one of another package is written PACKAGE:Nowhere-v0"),
        ("Pendulum-v99", "'Pendulum-v99' is not an environment that Gymnasium can make"),
        ("not an id!", "is not an environment that Gymnasium can make"),
        ("no.such.module:Env-v0", "needs the module 'no', which is not found: install it, or put its directory on"),
        ("tests.nothing:Env-v0", "needs the module 'tests.nothing', which is not found: install it, or put its"),
        (None, "NoneType None is not an environment: give an id, a gymnasium.Env, a function that makes one, or"),
        ([probes.walk], "is not an environment: give an id, a gymnasium.Env"),
        (gym.spec("CartPole-v1"), "EnvSpec EnvSpec(id='CartPole-v1'"),
        (dict, "the environment function returned dict, but must return a gymnasium.Env"),
        (probes.unmade, f"unmade cannot be made: it raised OSError: no such robot ({probes.__file__}, line "),
    ],
)
def test_what_cannot_be_made_is_refused_in_one_sentence(source, sentence):
    with pytest.raises(ToppoError) as refusal:
        make(resolve(source))
    assert sentence in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_missing_package_is_named_with_the_extra_that_brings_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "mujoco", None)  # as if it were not installed
    for name in [m for m in sys.modules if m.startswith("gymnasium.envs.mujoco")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ToppoError, match=r"^'HalfCheetah-v5' needs the package 'mujoco': pip install .*\[mujoco\]'$"):
        make(resolve("HalfCheetah-v5"))


def test_a_missing_box2d_is_answered_by_our_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "Box2D", None)
    for name in [m for m in sys.modules if m.startswith("gymnasium.envs.box2d")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ToppoError, match=r"^'LunarLander-v3' needs the package 'Box2D': pip install .*\[worlds\]'$"):
        make(resolve("LunarLander-v3"))


def test_a_fetch_task_that_fails_with_this_mujoco_is_answered_by_the_version_that_works():
    pytest.importorskip("gymnasium_robotics", reason="no gymnasium-robotics")
    if version("mujoco") != "3.17.0":
        pytest.skip("tried with mujoco 3.17.0 only")
    for name in ("gymnasium_robotics:FetchReachDense-v4", "FetchReachDense-v4"):  # the first makes the second known
        with pytest.raises(ToppoError, match=rf"^{name} cannot be made with this MuJoCo.*mujoco==3.9.0$"):
            make(resolve(name))


def test_what_a_module_of_ones_own_lacks_is_named(tmp_path, monkeypatch):
    (tmp_path / "my_rooms.py").write_text("import nowhere_to_be_found")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ToppoError, match="'my_rooms:Room-v0' needs the package 'nowhere_to_be_found': pip install now"):
        make(resolve("my_rooms:Room-v0"))


def test_an_environment_is_called_by_what_is_inside_its_wrappers():
    assert resolve(gym.make("CartPole-v1")).name == "CartPoleEnv"
    assert resolve(SyncVectorEnv([probes.Walk])).name == "SyncVectorEnv"
    assert resolve(functools.partial(probes.limited, probes.Walk(), 5)).name == "limited"
    assert [resolve(env).name for env in ("Hopper-v5", probes.walk, probes.Walk)] == ["Hopper-v5", "walk", "Walk"]


@pytest.mark.parametrize("env", [probes.walk, probes.Walk, "Pendulum-v1", "rooms:Room-v0"])
def test_an_environment_that_another_process_can_make_is_found_by_its_address(env):
    source = resolve(env)
    again = from_address(json.loads(json.dumps(source.address)))
    assert (again.given, again.name, again.address) == (env, source.name, source.address)


def test_what_another_process_cannot_make_has_no_address(monkeypatch):
    monkeypatch.setitem(gym.registry, "ByHand-v0", gym.envs.registration.EnvSpec("ByHand-v0", probes.walk))
    here_only = (lambda: probes.Walk(), probes.Walk(), probes.Walk().reset, SyncVectorEnv([probes.Walk]))
    for env in (*here_only, "ByHand-v0", "Nowhere-v0"):
        assert resolve(env).address is None


def test_kinds():
    assert resolve("HalfCheetah-v5").kind == "mujoco"
    assert {resolve(env).kind for env in ("Pendulum-v1", "Nowhere-v0", probes.walk, probes.Walk())} == {"other"}


def test_only_an_id_that_names_no_module_is_registered():
    names = ("Pendulum-v1", "os:Pendulum-v1", "Nowhere-v0", probes.walk, probes.Walk())
    assert [resolve(env).is_registered for env in names] == [True, False, False, False, False]


def test_an_object_is_known_from_what_makes_one():
    vector = SyncVectorEnv([probes.Walk] * 3)
    sources = [resolve(env) for env in ("Pendulum-v1", probes.walk, probes.Walk(), vector)]
    assert [source.is_object for source in sources] == [False, False, True, True]
    assert [source.is_vector for source in sources] == [False, False, False, True]
    assert [source.num_envs for source in sources] == [None, None, None, 3]
    assert resolve(sources[0]) is sources[0]


def test_stripping_takes_the_checks_and_the_outermost_limit_only():
    inner = TimeLimit(probes.Walk(), 30)
    bare, limit = strip(TimeLimit(OrderEnforcing(PassiveEnvChecker(inner)), 20))
    assert (bare, limit) == (inner, 20)
    bare, limit = strip(gym.wrappers.RecordEpisodeStatistics(TimeLimit(probes.Walk(), 30)))
    assert limit is None
    assert isinstance(bare, gym.wrappers.RecordEpisodeStatistics)


@pytest.mark.parametrize(
    ("arguments", "named", "name"),
    [
        (("CartPole-v1",), {}, "CartPole-v1"),
        ((), {"id": "CartPole-v1"}, "CartPole-v1"),
        (("CartPole-v1", 10), {"sutton_barto_reward": True}, "CartPole-v1(10, sutton_barto_reward=True)"),
        ((gym.spec("CartPole-v1"),), {}, "CartPole-v1()"),
    ],
)
def test_a_partial_of_gym_make_is_named_by_what_it_makes(arguments, named, name):
    source = resolve(functools.partial(gym.make, *arguments, **named))
    assert source.name == name
    # Only the bare id may be made again by its name.
    assert source.is_registered == (name in gym.registry)
    assert isinstance(make(source).unwrapped, gym.envs.classic_control.CartPoleEnv)


class Foreign:
    num_envs = 3


@pytest.mark.parametrize(
    ("module", "sentence"),
    [
        (
            "envpool.python.api",
            "EnvPool's environments take no seed at a reset.*: give the id that the task has in Gymnasium and n_envs=3",
        ),
        (
            "stable_baselines3.common.vec_env",
            "a VecEnv of Stable-Baselines3 .*the function that makes one environment and n_envs=3",
        ),
    ],
)
def test_environments_of_another_interface_are_refused_with_the_way(module, sentence):
    """docs/environments.md says with which versions the real ones were tried; they are too large for the tests."""
    env = type("Foreign", (Foreign,), {"__module__": module})()
    for given in (env, lambda: env):
        with pytest.raises(ToppoError, match=f"^Foreign: {sentence}"):
            make(resolve(given))


def test_a_game_of_pettingzoo_is_refused_with_the_way():
    tictactoe = pytest.importorskip("pettingzoo.classic.tictactoe_v3", reason="no PettingZoo")
    for given in (tictactoe.env(), tictactoe.env):
        with pytest.raises(ToppoError, match="several agents, and toppo trains one: wrap yours"):
            make(resolve(given))
