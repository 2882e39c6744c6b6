"""Environments of the libraries whose extras `make setup` leaves out; skipped where they are not installed."""

import jax
import numpy as np
import pytest

from toppo.envs import make, resolve
from toppo.envs.spaces import describe
from toppo.errors import ToppoError
from toppo.jaxenvs import LIBRARIES, make_jax_env

TASKS = {
    "brax": "brax:inverted_pendulum",
    "playground": "playground:CartpoleBalance",
    "navix": "navix:Navix-Empty-5x5-v0",
    "craftax": "craftax:Craftax-Classic-Symbolic-v1",
}
ENDS = {"brax": 1000, "playground": 1000, "navix": 100, "craftax": 10_000}


def installed(library):
    pytest.importorskip(LIBRARIES[library].requires, exc_type=ImportError)
    return TASKS[library]


@pytest.mark.parametrize("library", TASKS)
@pytest.mark.filterwarnings("ignore")
def test_an_environment_can_be_stepped_by_toppo(library):
    env = make(resolve(installed(library)))
    spaces = describe(env)
    first, _ = env.reset(seed=1)
    again, _ = env.reset(seed=1)
    other, _ = env.reset(seed=2)
    assert np.array_equal(first, again)
    assert library == "navix" or not np.array_equal(first, other)  # its room is the same in every episode
    obs, reward, terminated, truncated, _ = env.step(env.action_space.sample())
    assert np.isfinite(obs).all()
    assert np.isfinite(reward)
    assert not terminated
    assert not truncated
    assert spaces.episode_limit == ENDS[library]
    assert spaces.images == ()


@pytest.mark.parametrize("library", TASKS)
@pytest.mark.filterwarnings("ignore")
def test_an_episode_is_truncated_at_its_limit_and_not_terminated(library):
    env = make_jax_env(installed(library))
    env.episode_limit = 2
    if library == "navix":
        env._env = env._env.replace(max_steps=2)
    if library == "craftax":  # which calls its time limit an end like any other
        env._params = env._params.replace(max_timesteps=2)
    state, _ = jax.jit(env.reset)(jax.random.key(0))
    step = jax.jit(env.step)
    ends = []
    for i in range(2):
        action = np.zeros(env.action_space.shape, env.action_space.dtype)
        state, _, _, terminated, truncated = step(jax.random.key(i), state, action)
        ends.append((bool(terminated), bool(truncated)))
    assert ends == [(False, False), (False, True)]


@pytest.mark.parametrize("library", TASKS)
@pytest.mark.filterwarnings("ignore")
def test_a_wrong_name_is_answered_by_the_right_one(library):
    name = installed(library)
    with pytest.raises(ToppoError, match="did you mean"):
        make_jax_env(f"{name}x")
