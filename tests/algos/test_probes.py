"""Environments with a known value and a known best action, solved by every algorithm in seconds."""

from typing import Any

import gymnasium as gym
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support.probes import Probe
from tests.support.training import ALGOS, setup_for, train_all
from toppo.maths.moments import standard_deviation

# As many observations and actions as ``walk`` has, so that the programs of the other tests serve again.
BOX = {"observation_space": gym.spaces.Box(-10.0, 10.0, (2,)), "action_space": gym.spaces.Box(-1.0, 1.0, (2,))}


class Pair(Probe):
    """Observations (x, 1)."""

    observation_space = BOX["observation_space"]
    action_space = BOX["action_space"]

    def see(self, x: float) -> np.ndarray:
        return np.array([x, 1.0], np.float32)

    def toss(self) -> np.ndarray:
        self.x = 1.0 if self.np_random.random() < 0.5 else -1.0
        return self.see(self.x)


class Sign(Pair):
    """One step; reward x: V(x) = x."""

    def begin(self) -> np.ndarray:
        return self.toss()

    def act(self, action: Any) -> tuple[np.ndarray, float, bool, bool]:
        return self.see(0.0), self.x, True, False


class Same(Pair):
    """One step, one observation, one reward: there is nothing to learn, and nothing to divide by."""

    def begin(self) -> np.ndarray:
        return self.see(1.0)

    def act(self, action: Any) -> tuple[np.ndarray, float, bool, bool]:
        return self.see(1.0), 1.0, True, False


class Later(Pair):
    """Two steps; x is seen, then 2 x, then rewarded: V = gamma x, then x."""

    def begin(self) -> np.ndarray:
        return self.toss()

    def act(self, action: Any) -> tuple[np.ndarray, float, bool, bool]:
        return self.see(2 * self.x), self.x * (self.t == 2), self.t == 2, False


class Aim(Pair):
    """One step; reward -(a_0 - x/2)^2: the best action is half the observation."""

    def begin(self) -> np.ndarray:
        return self.toss()

    def act(self, action: Any) -> tuple[np.ndarray, float, bool, bool]:
        return self.see(0.0), -float((action[0] - 0.5 * self.x) ** 2), True, False


class Pick(Probe):
    """One step; the action that the observation points at earns 1.  Shaped like ``flip``."""

    observation_space = gym.spaces.Box(0.0, 1.0, (3,))
    action_space = gym.spaces.Discrete(3)

    def begin(self) -> np.ndarray:
        self.right = int(self.np_random.integers(3))
        return np.eye(3, dtype=np.float32)[self.right]

    def act(self, action: Any) -> tuple[np.ndarray, float, bool, bool]:
        return np.zeros(3, np.float32), float(action == self.right), True, False


def solved(algo: str, kind: type[Probe], iterations: int) -> tuple[Any, Any]:
    """Value and mean action as functions of x."""
    setup = setup_for(algo, kind, iterations)
    state = train_all(setup, kind)[-1].state
    net = setup.net
    moments, params = state.obs_moments, state.learner.params

    def see(x: float) -> Any:
        obs = np.array([[x, 1.0]])
        return jnp.asarray(np.clip((obs - moments.mean) / standard_deviation(moments), -10, 10), jnp.float32)

    scale = float(standard_deviation(state.return_moments))
    return (lambda x: float(net.value(params.value, see(x))[0]) * scale), lambda x: net.policy(
        params.policy, see(x)
    ).mean[0]


@pytest.mark.parametrize("algo", ALGOS)
def test_equal_advantages_do_no_harm(algo):
    value, action = solved(algo, Same, 4)  # a value that is not finite would end the run
    assert np.isfinite([value(1.0), *action(1.0)]).all()


@pytest.mark.parametrize("algo", ALGOS)
def test_the_value_depends_on_the_observation(algo):
    value, _ = solved(algo, Sign, 25)
    assert [value(1.0), value(-1.0)] == pytest.approx([1.0, -1.0], abs=0.1)


@pytest.mark.parametrize("algo", ALGOS)
def test_the_value_is_discounted(algo):
    value, _ = solved(algo, Later, 40)
    assert [value(x) for x in (1.0, -1.0, 2.0, -2.0)] == pytest.approx([0.9, -0.9, 1.0, -1.0], abs=0.06)


@pytest.mark.parametrize("algo", ALGOS)
def test_the_action_depends_on_the_observation(algo):
    _, action = solved(algo, Aim, 60)
    assert [float(action(x)[0]) for x in (1.0, -1.0)] == pytest.approx([0.5, -0.5], abs=0.2)


@pytest.mark.parametrize("algo", [a for a in ALGOS if a != "disc"])
def test_the_right_choice_is_made(algo):
    last = train_all(setup_for(algo, Pick, 60), Pick)[-5:]
    assert np.mean([t.metrics["rollout/ep_rew_mean"] for t in last]) > 0.9
