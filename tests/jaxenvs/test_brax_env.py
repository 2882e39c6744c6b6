"""The adapter of Brax and Playground on a stand-in, where neither is installed."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import pytest

from toppo.jaxenvs.brax_env import BraxEnv


class State(NamedTuple):
    obs: Any
    reward: Any
    done: Any


class Robot:
    """Counts its steps and ends after ``ends``; the simulator knows more than the robot sees."""

    action_size = 2

    def __init__(self, ends):
        self.ends = ends

    def reset(self, key):
        return State({"state": jnp.zeros(3), "privileged_state": jnp.ones(5)}, 0, jnp.float32(0))

    def step(self, state, action):
        obs = jax.tree.map(lambda x: x + 1, state.obs)
        return State(obs, action.sum(), (obs["state"][0] >= self.ends).astype(float))


@pytest.mark.parametrize(("dies", "ends"), [(9, (False, True)), (3, (True, True)), (2, (True, False))])
def test_the_end_of_time_is_no_death_and_the_policy_gets_what_the_robot_sees(dies, ends):
    env = BraxEnv(Robot(dies), 3)
    assert (env.observation_space.shape, env.action_space.shape) == ((3,), (2,))
    state, obs = env.reset(jax.random.key(0))
    assert obs.tolist() == [0, 0, 0]
    for count in range(1, 4):
        state, obs, reward, terminated, truncated = env.step(jax.random.key(0), state, jnp.ones(2))
        assert (obs.tolist(), reward) == ([count] * 3, 2.0)
        if terminated or truncated:
            break
        assert count < min(dies, 3)
    assert (bool(terminated), bool(truncated)) == ends
