"""Environments that one call steps give what they give alone, and come back to where they were."""

import importlib

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from tests.support.collecting import collect_batches, fill_weights, plan_of
from tests.support.probes import Walk, flip, walk
from tests.support.worlds import BOX, Forbidden, masked
from toppo.collect.episodes import advance, after_replay, no_episode
from toppo.collect.faults import STRICT, FaultPolicy
from toppo.collect.pool import open_pool
from toppo.envs.check import check_env
from toppo.envs.source import open_vec_env, resolve
from toppo.envs.vector import ResetSpec
from toppo.errors import EnvironmentFault, ToppoError


def check(env):
    return check_env(resolve(env))


MODES = [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED]


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
@pytest.mark.parametrize("source", [flip, masked, Forbidden])
def test_a_vector_environment_gives_the_same_bytes_as_its_parts(mode, source):
    vector = SyncVectorEnv([source] * 3, autoreset_mode=mode)
    spaces, notes = check(vector)
    assert (spaces, notes) == (check(source)[0], [])
    plan = plan_of(spaces, 3)
    together, alone = open_pool(plan, vector, 2), open_pool(plan, source, 0)
    assert collect_batches(together, 3) == collect_batches(alone, 3)
    together.close()
    alone.close()


@pytest.mark.parametrize("source", [walk, masked])
def test_a_vector_environment_is_brought_back_to_where_it_was(source):
    make = lambda: SyncVectorEnv([source] * 3, autoreset_mode=AutoresetMode.DISABLED)  # noqa: E731
    plan = plan_of(check(source)[0], 3, steps=7)
    pool = open_pool(plan, make(), 0, STRICT)
    fill_weights(pool.buffers)
    episodes = (no_episode(plan),) * 3
    for batch in range(4):
        pool.start(batch, episodes)
        pool.finish()
        episodes, _ = advance(episodes, pool.buffers, False)
        assert open_pool(plan, make(), 0, STRICT).restore(episodes) == {}
    assert len({len(e.actions) for e in episodes}) > 1  # they are at different steps of their episodes
    again = open_pool(plan, make(), 0, STRICT)
    assert again.restore(episodes) == {}
    assert collect_batches(again, 2, 4) == collect_batches(pool, 2, 4)
    for strange, what in (
        ([e._replace(obs=e.obs + 1) for e in episodes], "led to another observation"),
        ([e._replace(rewards=e.rewards + 1) for e in episodes], "gave other rewards"),
    ):
        lost = open_pool(plan, make(), 0, STRICT).restore(tuple(strange))
        assert list(lost) == [i for i, e in enumerate(episodes) if len(e.actions)]
        for i, sentence in lost.items():
            assert sentence.endswith(f"(environment {i}): its replay of {len(episodes[i].actions)} steps {what}")


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ("raise", "SyncVectorEnv: step raised ZeroDivisionError: a bug"),
        ("reward", "SyncVectorEnv (environment 1): a step gave a reward that is not finite"),
        ("observation", "SyncVectorEnv (environment 1): a step gave an observation that is not finite"),
    ],
)
def test_a_replay_that_fails_gives_its_episodes_up_and_new_ones_begin(how, sentence):
    plan = plan_of(check(walk)[0], 2, steps=2)
    pool = open_pool(plan, moody(how), 0, STRICT)
    fill_weights(pool.buffers)
    episode = no_episode(plan)._replace(started=4, actions=np.zeros((5, 2), np.float32), rewards=np.zeros(5))
    lost = pool.restore((episode, episode))
    assert list(lost) == [0, 1]
    assert all(sentence in reason for reason in lost.values())
    pool.start(9, after_replay((episode, episode), lost))
    pool.finish()
    assert pool.buffers.begun.all()
    assert pool.buffers.started.tolist() == [5, 5]


def test_a_vector_environment_whose_replay_ends_early_is_lost_alone():
    plan = plan_of(check(walk)[0], 2, steps=2)
    never = no_episode(plan)._replace(started=1, actions=np.zeros((30, 2), np.float32), rewards=np.zeros(30))
    lost = open_pool(plan, moody("good"), 0, STRICT).restore((no_episode(plan), never))
    assert list(lost) == [1]
    assert "SyncVectorEnv (environment 1): its replay ended at step " in lost[1]


def test_the_number_of_environments_must_be_that_of_the_vector():
    with pytest.raises(ToppoError, match="n_envs is 2, but the vector environment has 3: use n_envs=3"):
        open_vec_env(resolve(SyncVectorEnv([Walk] * 3)), 2)


def games():
    return importlib.import_module("ale_py.vector_env").AtariVectorEnv("breakout", 2)


class NoMask(gym.vector.VectorEnv):
    num_envs, metadata = 2, {}
    single_observation_space, single_action_space = Walk.observation_space, Walk.action_space

    def reset(self, *, seed=None, options=None):
        if options is not None:
            raise ValueError("no options are known")
        return np.zeros((2, 2)), {}

    def step(self, actions):
        return np.zeros((2, 2)), np.zeros(2), np.array([True, False]), np.zeros(2, bool), {}


def test_a_vector_environment_that_resets_only_as_a_whole_is_refused():
    with pytest.raises(ToppoError, match=r"does not reset single environments, .*no options are known.*and n_envs=2"):
        check(NoMask())


@pytest.mark.parametrize("make", [lambda: gym.make_vec("CartPole-v1", 2, "vector_entry_point"), games])
def test_a_vector_environment_with_one_seed_for_all_is_refused(make):
    with pytest.raises(ToppoError, match=r"VectorEnv does not reset single environments, .*[sS]eed.*and n_envs=2"):
        check(make())


class ResetsAll(SyncVectorEnv):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)


class FixedStart(Walk):
    """Shows the same after every reset."""

    def begin(self):
        super().begin()
        self.place = np.zeros(2)
        return self.place.copy()


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
@pytest.mark.parametrize("source", [Walk, FixedStart])
def test_a_vector_environment_that_resets_more_than_it_is_told_is_refused(source, mode):
    assert check(SyncVectorEnv([source] * 3, autoreset_mode=mode))[1] == []
    with pytest.raises(ToppoError, match=r"does not reset single .* \(environment 1 was to be left alone"):
        check(ResetsAll([source] * 3, autoreset_mode=mode))


class Liar(gym.vector.VectorEnv):
    """Shows in its steps what its space does not hold."""

    num_envs, metadata, single_action_space = 2, {}, Walk.action_space

    def __init__(self, space, first, later):
        self.single_observation_space, self.first, self.later = space, first, later

    def reset(self, *, seed=None, options=None):
        return self.first, {}

    def step(self, actions):
        return self.later, np.zeros(2), np.ones(2, bool), np.zeros(2, bool), {}


PAIR, BOTH = gym.spaces.Dict({"a": BOX, "n": gym.spaces.Discrete(3)}), np.zeros((2, 2), np.float32)


@pytest.mark.parametrize(
    ("space", "first", "later", "sentence"),
    [
        (
            BOX,
            np.zeros((2, 3), np.float32),
            BOTH,
            "after reset(), the observation has shape (3,), but (2,) in its space",
        ),
        (
            BOX,
            BOTH,
            np.zeros((2, 5), np.float32),
            "after step(), the observation has shape (5,), but (2,) in its space",
        ),
        (
            PAIR,
            {"a": BOTH, "n": np.array([0, 3])},
            BOTH,
            "after reset(), the observation's entry 'n' is int64 np.int64(3), which is not in its space Discrete(3)",
        ),
        (PAIR, {"a": BOTH}, BOTH, "reset() gave dict {'a': array([0., 0.], dtype=float32)} without the observation's"),
        (BOX, np.array([["a", "b"]] * 2), BOTH, "reset() gave is of type <U1, but must be numbers"),
    ],
)
def test_what_a_vector_environment_shows_is_held_against_its_space(space, first, later, sentence):
    with pytest.raises(EnvironmentFault, match=r"Liar \(environment [01]\): ") as refusal:
        check(Liar(space, first, later))
    assert sentence in str(refusal.value)


@pytest.mark.parametrize(
    ("place", "value", "sentence"),
    [
        (0, np.zeros((2, 1, 2), np.float32), "Liar (environment 0): after a step, the observation has shape (1, 2)"),
        (
            1,
            np.array(["1", "2"]),
            "Liar: step() returned rewards of shape (2,) and type <U1, but they must be 2 numbers",
        ),
        (1, np.ones(2, bool), "Liar: step() returned rewards of shape (2,) and type bool, but they must be 2 numbers"),
        (
            2,
            np.ones(2, int),
            "Liar: step() returned terminated of shape (2,) and type int64, but they must be 2 booleans",
        ),
        (
            3,
            np.ones(2, int),
            "Liar: step() returned truncated of shape (2,) and type int64, but they must be 2 booleans",
        ),
    ],
)
def test_a_vector_environment_that_turns_after_the_check_is_refused(place, value, sentence, monkeypatch):
    liar = Liar(BOX, BOTH, BOTH)
    vec_env = open_vec_env(resolve(liar), 2)
    vec_env.reset({0: ResetSpec(0), 1: ResetSpec(0)})
    actions = np.zeros((2, 2), np.float32)
    vec_env.step(actions)
    answer = liar.step(actions)
    monkeypatch.setattr(liar, "step", lambda actions: (*answer[:place], value, *answer[place + 1 :]))
    with pytest.raises(EnvironmentFault) as fault:
        vec_env.step(actions)
    assert sentence in str(fault.value)


def test_what_is_odd_about_a_vector_environment_is_noted_once():
    far = np.full((2, 2), 3.0)
    notes = check(Liar(BOX, far, far))[1]
    assert [note for note in notes if "leaves the bounds" in note]
    assert [note for note in notes if "of type float64, but its space has float32" in note]
    assert len(notes) == 2


class Speaking(Walk):
    observation_space = gym.spaces.Dict({"place": Walk.observation_space, "word": gym.spaces.Text(3)})

    def begin(self):
        return {"place": super().begin(), "word": "a"}

    def act(self, action):
        place, *rest = super().act(action)
        return {"place": place, "word": "a"}, *rest


def test_short_texts_beside_many_environments_are_left_out():
    assert check(SyncVectorEnv([Speaking] * 3))[1] == ["the observation's entry 'word' is text and is left out"]


class Lapsing(gym.Wrapper):
    """Gives no mask after its third step."""

    def step(self, action):
        obs, reward, terminated, truncated, info = self.env.step(action)
        return obs, reward, terminated, truncated, info if self.env.t < 3 else {}


@pytest.mark.parametrize("others", [[], [masked]])
def test_a_mask_that_is_missing_is_said_of_the_one_that_gave_none(others):
    with pytest.raises(EnvironmentFault, match=r"SyncVectorEnv \(environment 0\): the mask .* there was none; give"):
        check(SyncVectorEnv([lambda: Lapsing(masked()), *others]))


class OldStep(Walk):
    def step(self, action):
        return (*super().step(action)[:3], {})


@pytest.mark.parametrize("vector", [SyncVectorEnv, AsyncVectorEnv])
def test_what_is_wrong_with_one_of_them_is_said_as_if_it_were_alone(vector):
    envs = vector([OldStep] * 2)
    with pytest.raises(EnvironmentFault, match=r"\(environment 0\): step\(\) returned a tuple of 4 \(the four values"):
        check(envs)
    envs.close()


class Asked(Liar):
    """Masks by a method of the vector environment itself."""

    single_action_space = gym.spaces.Discrete(3)

    def action_masks(self):
        return np.array([[True, False, False]] * 2)

    def step(self, actions):
        assert not actions.any(), "an action that is not allowed"
        return super().step(actions)


def test_masks_by_a_method_of_the_vector_environment_are_obeyed():
    assert check(Asked(BOX, BOTH, BOTH))[0].masked


class Moody(Walk):
    """Fails in its third step as it is told, in a mood that no seed sets."""

    def __init__(self, how):
        super().__init__()
        self.how = how

    def act(self, action):
        place, reward, *ends = super().act(action)
        third = self.t == 3
        if self.how == "raise" and third:
            raise ZeroDivisionError("a bug")
        if self.how == "mood":
            place += np.random.default_rng().random()
        if (self.how == "observation" and third) or (self.how == "last observation" and any(ends)):
            place[:] = np.nan
        return place, np.nan if self.how == "reward" and third else reward, *ends


def moody(how, mode=AutoresetMode.DISABLED):
    return SyncVectorEnv([Walk, lambda: Moody(how)], autoreset_mode=mode)


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ("reward", r"SyncVectorEnv \(environment 1\): a step gave a reward that is not finite in float32 \(nan\)"),
        ("observation", r"SyncVectorEnv \(environment 1\): the observation that step\(\) gave is not finite \(\[nan"),
        ("raise", r"SyncVectorEnv: step raised ZeroDivisionError: a bug \(.*test_vector.py, line \d+\)$"),
    ],
)
def test_the_check_before_training_names_what_is_wrong_with_a_vector_environment(how, sentence):
    with pytest.raises(EnvironmentFault, match=sentence):
        check(moody(how))


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
def test_the_last_observation_of_an_episode_is_checked_too(mode):
    with pytest.raises(EnvironmentFault, match=r"\(environment 1\): the observation that step\(\) gave is not finite"):
        check(moody("last observation", mode))


@pytest.mark.parametrize("where", ["around all", "around each"])
def test_a_wrapper_that_remembers_earlier_episodes_is_named(where):
    def one():
        env = gym.make("CartPole-v1")
        return env if where == "around all" else gym.wrappers.NormalizeReward(env)

    env = SyncVectorEnv([one, one])
    if where == "around all":
        env = gym.wrappers.vector.NormalizeReward(env)
    [note] = check_env(resolve(env))[1]
    assert "NormalizeReward carries its statistics from episode to episode; leave it out" in note


def test_a_vector_environment_that_does_not_repeat_itself_is_noted():
    (note,) = check(moody("mood"))[1]
    assert "does not repeat itself after reset(seed=...)" in note
    assert check(moody("good"))[1] == []


@pytest.mark.parametrize(
    ("tolerance", "sentence"),
    [
        (FaultPolicy(on_nan="truncate"), "on_nan is 'truncate', but .* step together"),
        (
            FaultPolicy(env_restarts=2),
            "env_restarts is 2, but a vector environment object cannot be made again",
        ),
    ],
)
def test_what_a_vector_environment_cannot_bear_is_refused_before_the_first_step(tolerance, sentence):
    with pytest.raises(ToppoError, match=sentence):
        open_pool(plan_of(check(walk)[0], 2), moody("good"), 0, tolerance)
