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


class Turning(gym.Env):
    """Keeps its word until its third step, and then changes one value."""

    action_space = gym.spaces.Discrete(2)

    def __init__(self, space, obs, field, value):
        self.observation_space = space
        self.usual = {"obs": obs, "reward": 1.0, "terminated": False, "truncated": False, "info": {}}
        self.turned = self.usual | {field: value}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.usual["obs"], {}

    def step(self, action):
        self.t += 1
        return tuple((self.turned if self.t == 3 else self.usual).values())


BOX = gym.spaces.Box(-1, 1, (2, 3), np.float32)
FINE = np.zeros((2, 3), np.float32)
PAIR = gym.spaces.MultiDiscrete([3, 4], start=[0, 5])
IMAGE = gym.spaces.Box(0, 255, (4, 4), np.uint8)
DARK = np.zeros((4, 4), np.uint8)
NESTED = gym.spaces.Dict({"a": gym.spaces.Discrete(3, start=1), "b": BOX})
TURNS = [
    (BOX, FINE, "obs", FINE[:1], "the observation has shape (1, 3), but (2, 3) in its space"),
    (BOX, FINE, "obs", FINE.T, "the observation has shape (3, 2), but (2, 3) in its space"),
    (BOX, FINE, "obs", FINE.ravel(), "the observation has shape (6,), but (2, 3) in its space"),
    (gym.spaces.Discrete(3), 0, "obs", -1, "the observation is int -1, which is not in its space"),
    (gym.spaces.Discrete(3), 0, "obs", 3, "the observation is int 3, which is not in its space"),
    (gym.spaces.Discrete(3), 0, "obs", 0.9, "the observation is float 0.9, which is not in its space"),
    (PAIR, [0, 5], "obs", [-1, 5], "the observation is list [-1, 5], which is not in its space"),
    (PAIR, [0, 5], "obs", [0, 4], "the observation is list [0, 4], which is not in its space"),
    (PAIR, [0, 5], "obs", [3, 5], "the observation is list [3, 5], which is not in its space"),
    (PAIR, [0, 5], "obs", [0, 9], "the observation is list [0, 9], which is not in its space"),
    (NESTED, {"a": 1, "b": FINE}, "obs", {"a": 0, "b": FINE}, "the observation's entry 'a' is int 0, which is not in"),
    (NESTED, {"a": 1, "b": FINE}, "obs", {"a": 1, "b": FINE.T}, "entry 'b' has shape (3, 2), but (2, 3) in its space"),
    (IMAGE, DARK, "obs", DARK.astype(np.float32), "which is not in its space"),
    (IMAGE, DARK, "obs", DARK.astype(int) - 1, "which is not in its space"),
    (BOX, FINE, "reward", "1.0", "the reward is str '1.0', but must be one number"),
    (BOX, FINE, "reward", True, "the reward is bool True, but must be one number"),
    (BOX, FINE, "reward", np.ones(1), "the reward is ndarray array([1.]), but must be one number"),
    (BOX, FINE, "terminated", 1, "the flag terminated is int 1, but must be True or False"),
    (BOX, FINE, "truncated", 0, "the flag truncated is int 0, but must be True or False"),
]


@pytest.mark.parametrize(("space", "obs", "field", "value", "sentence"), TURNS, ids=[turn[-1] for turn in TURNS])
def test_a_value_of_another_kind_than_before_is_refused(space, obs, field, value, sentence):
    env = Environment(Turning(space, obs, field, value), "turning")
    env.reset(0)
    action = np.asarray(0)
    env.step(action)
    env.step(action)
    with pytest.raises(EnvironmentFault, match=r"^turning: step 3 of the episode with seed 0: the ") as fault:
        env.step(action)
    assert sentence in str(fault.value)
    assert "\n" not in str(fault.value)


@pytest.mark.parametrize(
    ("field", "value"),
    [("reward", np.float32(1)), ("reward", 1), ("reward", np.array(1.0)), ("terminated", np.bool_(False))],
)
def test_numpys_numbers_and_flags_are_as_good_as_pythons(field, value):
    env = Environment(Turning(BOX, FINE, field, value), "turning")
    env.reset(0)
    answers = [env.step(np.asarray(0)) for _ in range(4)]
    assert answers == [(1.0, False, False)] * 4
    assert {tuple(map(type, answer)) for answer in answers} == {(float, bool, bool)}


def test_an_environment_that_wants_to_leave_does_not_take_the_program_with_it():
    class Leaving(probes.Walk):
        def act(self, action):
            raise SystemExit(3)

    env = Environment(Leaving(), "leaving")
    env.reset(0)
    with pytest.raises(EnvironmentFault, match=r"leaving: step 1 .* raised SystemExit: 3"):
        env.step(np.zeros(2, np.float32))
