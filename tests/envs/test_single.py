import gymnasium as gym
import numpy as np
import pytest

from tests.support import probes
from toppo.envs.actions import action_to_env
from toppo.envs.single import Environment, open_environment
from toppo.envs.source import resolve
from toppo.envs.spaces import describe
from toppo.errors import BAD_DATA, EnvironmentFault


@pytest.mark.parametrize("env_id", ["Pendulum-v1", "CartPole-v1", "Hopper-v5", "Reacher-v5"])
def test_the_stripped_environment_gives_the_same_bytes_as_gymnasiums_stack(env_id):
    if env_id.endswith("-v5"):
        pytest.importorskip("mujoco", reason="no MuJoCo")
    ours, theirs = open_environment(resolve(env_id), 0), gym.make(env_id)
    spaces = describe(theirs)
    to_env, rng, ends = action_to_env(spaces), np.random.default_rng(0), 0
    ours.reset(7)
    theirs_obs, _ = theirs.reset(seed=7)
    for t in range(450):
        assert ours.row.tobytes() == np.asarray(theirs_obs, float).tobytes(), t
        action = np.asarray(rng.integers(2)) if spaces.discrete else rng.normal(size=spaces.action_size) * 0.8
        action = action if spaces.discrete else action.astype(np.float32)
        reward, terminated, truncated = ours.step(action)
        theirs_obs, *answer, _ = theirs.step(to_env(action))
        assert (reward, terminated, truncated) == tuple(answer), t
        if terminated or truncated:
            ends += 1
            ours.reset(t)
            theirs_obs, _ = theirs.reset(seed=t)
    assert ends >= 2
    ours.close()
    theirs.close()


def test_the_time_limit_truncates_and_does_not_terminate():
    env = Environment(probes.endless(), "endless")
    for _ in range(2):
        env.reset(0)
        assert [env.step(np.asarray(0))[1:] for _ in range(5)] == [(False, False)] * 4 + [(False, True)]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("field", ["reward", "observation"])
def test_a_value_that_is_not_finite_is_named_with_environment_step_and_field(field, value):
    env = Environment(probes.Faulty(field, 3, value), "robot (environment 2)")
    env.reset(7)
    env.step(np.asarray(0))
    env.step(np.asarray(1))
    with pytest.raises(EnvironmentFault) as fault:
        env.step(np.asarray(1))
    sentence = str(fault.value)
    what = {"reward": "a reward", "observation": "an observation"}[field]
    assert sentence.startswith(
        f"robot (environment 2): step 3 of the episode with seed 7 gave {what} that is not finite"
    )
    assert str(value) in sentence
    assert fault.value.code == BAD_DATA
    assert (fault.value.details["field"], fault.value.details["action"]) == (field, "1")


def test_a_bad_observation_after_a_reset_is_named_too():
    env = Environment(probes.Faulty("observation", 0, np.nan), "robot")
    with pytest.raises(EnvironmentFault, match=r"robot: reset\(seed=5\) gave an observation that is not finite"):
        env.reset(5)


def test_large_but_finite_values_pass():
    env = Environment(probes.Faulty("observation", 1, 3e38), "robot")
    env.reset(0)
    env.step(np.asarray(0))
    assert env.row[0] == np.float32(3e38)


def test_observations_come_out_flat():
    class Picture(probes.Walk):
        observation_space = gym.spaces.Box(-9, 9, (2, 3), np.float64)

        def begin(self):
            return np.arange(6.0).reshape(2, 3)

        def act(self, action):
            return self.begin(), 0.0, False, False

    env = Environment(Picture(), "picture")
    for move in (lambda: env.reset(0), lambda: env.step(np.zeros(2, np.float32))):
        env.row[:] = -1
        move()
        assert env.row.tolist() == [0, 1, 2, 3, 4, 5]


def test_the_label_of_a_function_is_its_name():
    assert open_environment(resolve(probes.walk), 3).name == "walk (environment 3)"
    assert open_environment(resolve("Pendulum-v1"), 0).name == "Pendulum-v1 (environment 0)"


class Shrinking(probes.Walk):
    """Shows one number instead of two from its third step on."""

    def act(self, action):
        place, *rest = super().act(action)
        return place[: 1 if self.t > 2 else 2], *rest


def test_an_observation_of_another_shape_is_not_stretched():
    env = Environment(Shrinking(), "shrinking")
    env.reset(0)
    back = np.full(2, -1.0, np.float32)
    env.step(back)
    env.step(back)
    with pytest.raises(
        EnvironmentFault, match=r"shrinking: step 3 .*: the observation has shape \(1,\), but its space"
    ):
        env.step(back)


def test_an_environment_that_wants_to_leave_does_not_take_the_program_with_it():
    class Leaving(probes.Walk):
        def act(self, action):
            raise SystemExit(3)

    env = Environment(Leaving(), "leaving")
    env.reset(0)
    with pytest.raises(EnvironmentFault, match=r"leaving: step 1 .* raised SystemExit: 3"):
        env.step(np.zeros(2, np.float32))
