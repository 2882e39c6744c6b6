"""Collecting in one compiled program, against the same environments stepped one by one in Python."""

from itertools import accumulate

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support.jax_probes import Counter, Faulty, Flip, Glance, Walk
from tests.support.training import on_host, setup_for, shared_programs
from toppo.collect.faults import FaultPolicy
from toppo.envs import resolve
from toppo.errors import NotFinite, ToppoError
from toppo.learn.compiled import RESET_PARTS, batch_noise, stream_key
from toppo.learn.jax_episodes import JaxEpisodes, advance_sums, no_sums, returns_summary, rows_summary
from toppo.learn.normaliser import normaliser_of, with_statistics
from toppo.learn.session import open_session
from toppo.learn.setup import initial_state
from toppo.maths.moments import summary
from toppo.rng import Stream
from toppo.rundir.checkpoint import CheckpointError, read_checkpoint, write_checkpoint
from toppo.runs.state_io import check_arrays, state_from_arrays, state_to_arrays

E, T = 4, 16


def setup(env, algo="ppo", iterations=3, **settings):
    return setup_for(algo, env, iterations, **{"n_steps": E * T, "n_envs": E} | settings)


def batches(setup, env, count):
    """Raw batches of one policy, with the states before them and the statistics of each."""
    found = []
    state = initial_state(setup)
    with open_session(setup, env) as session:
        for _ in range(count):
            session.collector.start(state)
            session.collector.finish()
            statistics = session.collector.statistics(state)
            found.append((on_host(session.collector.batch()), statistics))
            state = with_statistics(state, statistics)._replace(obs_moments=state.obs_moments)
    return found


class OneByOne:
    """An environment stepped by its own functions, with the keys of (seed, environment, episode, step)."""

    def __init__(self, setup, env, i):
        self.key = jax.random.fold_in(stream_key(setup.seed, Stream.ENV_RESET), i)
        self.reset, self.step_env = jax.jit(env.reset), jax.jit(env.step)
        self.episode, self.over = -1, True

    def step(self, action):
        if self.over:
            self.episode, self.t = self.episode + 1, 0
            self.state, self.obs = self.reset(self.step_key())
        before, self.t = self.obs, self.t + 1
        self.state, self.obs, reward, terminated, truncated = self.step_env(self.step_key(), self.state, action)
        self.over = bool(terminated | truncated)
        return np.ravel(before), np.ravel(self.obs), float(reward), bool(terminated), self.over

    def step_key(self):
        return jax.random.fold_in(jax.random.fold_in(self.key, self.episode), self.t)


@pytest.mark.parametrize("env", [Walk(), Flip()], ids=["walk", "flip"])
def test_every_environment_goes_its_own_way_with_keys_of_its_own(env):
    s = setup(env)
    found = [raw for raw, _ in batches(s, env, 2)]
    for i in range(E):
        alone = OneByOne(s, env, i)
        for raw in found:
            action = raw.action[:, i]
            given = action + 3 if s.spaces.discrete else np.clip(action, -1, 1) * [1.0, 2.0] + [0.0, 2.0]
            for t in range(T):
                obs, after, reward, terminated, ended = alone.step(jnp.asarray(given[t]))
                np.testing.assert_allclose(raw.obs[t, i], obs, rtol=1e-5, atol=1e-6)
                np.testing.assert_allclose(raw.next_obs[t, i], after, rtol=1e-5, atol=1e-6)
                assert raw.reward[t, i] == pytest.approx(reward, rel=1e-5, abs=1e-6)
                assert (raw.terminated[t, i], raw.ended[t, i]) == (terminated, ended)
    assert any(raw.terminated.any() for raw in found)
    assert any((raw.ended & ~raw.terminated).any() for raw in found)
    assert len({raw.obs.tobytes() for raw in found}) == 2


def test_the_policy_acts_on_normalised_observations_with_its_noise():
    env = Flip()
    s = setup(env)
    raw, _ = batches(s, env, 1)[0]
    state = initial_state(s)
    normaliser = normaliser_of(state)
    rows = s.net.preprocess(raw.obs.reshape(T * E, -1), normaliser.mean, normaliser.inv_std)
    noise = np.asarray(batch_noise(s, jnp.arange(E), 0))
    action = s.net.family.sample(s.net.policy(state.learner.params.policy, rows), noise.reshape(T * E, -1))
    assert np.asarray(action).reshape(T, E).tolist() == raw.action.tolist()
    assert len({noise[:, i].tobytes() for i in range(E)}) == E


@pytest.mark.parametrize("dies", [False, True])
def test_the_last_observation_of_an_episode_is_its_own_and_the_next_is_a_reset(dies):
    raw, statistics = batches(setup(Counter()), Counter(dies), 1)[0]
    assert raw.next_obs[:, 0, 0].tolist() == [1, 2, 3] * 5 + [1]
    assert raw.obs[:, 0, 0].tolist() == [0, 1, 2] * 5 + [0]
    assert raw.ended[:, 0].tolist() == [False, False, True] * 5 + [False]
    assert (raw.terminated == (raw.ended & dies)).all()
    assert [(e.step, e.env, e.episode_return, e.length) for e in statistics.finished[: E + 1]] == [
        *((2 * E + i + 1, i, 3.0, 3) for i in range(E)),
        (5 * E + 1, 0, 3.0, 3),
    ]


def test_a_batch_begins_with_a_reset_when_asked():
    (_, first), (raw, _) = batches(setup(Counter(), reset_each_batch=True), Counter(), 2)
    assert (raw.obs[0] == 0).all()
    assert not any(first.episodes.sums.length)


def test_resets_are_computed_only_where_an_episode_has_ended():
    calls = []

    class Counted(Counter):
        def reset(self, key):
            jax.debug.callback(lambda: calls.append(1))
            return super().reset(key)

    n = 4 * RESET_PARTS
    s = setup(Counted(), n_steps=n * T, n_envs=n)
    calls.clear()
    batches(s, Counted(), 1)
    jax.effects_barrier()
    # At the start, and after rows 2, 5, 8, 11 and 14 of 16; four environments in every call.
    assert len(calls) == 6 * RESET_PARTS


def test_returns_are_those_of_a_naive_account():
    rng = np.random.default_rng(0)
    sums, rewards, returns = no_sums(3), [[] for _ in range(3)], []
    lengths, at_ends = [], []
    for _ in range(4):
        reward = rng.normal(size=(7, 3))
        ended = rng.random((7, 3)) < 0.2
        sums, finished, at_end = advance_sums(sums, reward, reward, ended, 0.9)
        lengths += list(zip(finished.t.tolist(), finished.env.tolist(), finished.length.tolist(), strict=True))
        at_ends.append(at_end)
        for t in range(7):
            for e in range(3):
                rewards[e].append(reward[t, e])
                if ended[t, e]:
                    returns += accumulate(rewards[e][::-1], lambda later, now: now + 0.9 * later)
                    assert lengths.pop(0) == (t, e, len(rewards[e]))
                    rewards[e] = []
    merged = type(sums)(*np.concatenate(at_ends, axis=1))
    found, expected = returns_summary(merged), summary(np.array(returns))
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    assert returns_summary(no_sums(3)) == (0.0, 0.0, 0.0)
    totals = [sum(r) for r in rewards]
    np.testing.assert_allclose(sums.total, totals, atol=1e-12)


def test_moments_of_the_observations_are_those_of_the_batch():
    raw, statistics = batches(setup(Walk()), Walk(), 1)[0]
    expected = summary(raw.obs.reshape(-1, 2))
    np.testing.assert_allclose(statistics.obs.mean, expected.mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(statistics.obs.squares, expected.squares, rtol=1e-4)
    mean, squares = np.array([[1.0], [3.0]]), np.array([[2.0], [0.0]])
    assert [x.tolist() for x in rows_summary(mean, squares, 2)[1:]] == [[2.0], [6.0]]
    assert batches(setup(Walk(), normalise_obs=False), Walk(), 1)[0][1].obs is None


def test_images_are_stored_once_with_the_last_of_truncated_episodes():
    env = Glance()
    s = setup(env)
    raw, _ = batches(s, env, 1)[0]
    assert raw.obs.dtype == np.uint8
    truncated = np.argwhere(raw.ended & ~raw.terminated)
    count = 1 << (len(truncated) - 1).bit_length()
    assert raw.next_obs.shape == (E + count, s.spaces.row_size)
    pixels = raw.next_obs[E:, -64:].reshape(-1, 8, 8)
    assert set(pixels.max((1, 2)).tolist()) == {252}  # what a second step shows
    assert (pixels[:, 0, 0] == 252).all()  # an episode is truncated where the left is lit
    assert {1, 2} == set(raw.obs[..., :8].copy().view(np.float32).argmax(-1).ravel() + 1)


def run_iterations(s, env, state=None):
    with open_session(s, env) as session, pytest.MonkeyPatch.context() as patch:
        patch.setattr("toppo.learn.loop.Programs", shared_programs)
        if state is not None:
            state, failed = session.restore(state)
            assert failed == {}
        return [t._replace(state=on_host(t.state)) for t in session.train(state or initial_state(s))]


def through_a_file(s, state, path):
    arrays, counters = state_to_arrays(state)
    write_checkpoint(path, arrays, {"state": counters})
    read = read_checkpoint(path, lambda facts, declared: check_arrays(s, declared, facts["state"]))
    return state_from_arrays(s, read.arrays, read.facts["state"])


@pytest.mark.parametrize(("algo", "env"), [("toppo", Walk()), ("ppo", Flip()), ("geppo", Walk()), ("ppo", Glance())])
def test_a_run_goes_on_from_a_checkpoint_to_the_same_bytes(algo, env, tmp_path):
    s = setup(env, algo, iterations=4)
    whole = run_iterations(s, env)
    state = through_a_file(s, whole[1].state, tmp_path / "checkpoint")
    rest = run_iterations(s, env, state)
    assert [t.metrics for t in rest] == [t.metrics for t in whole[2:]]
    assert [t.episodes for t in rest] == [t.episodes for t in whole[2:]]
    names = [state_to_arrays(t[-1].state)[0] for t in (whole, rest)]
    assert {n: a.tobytes() for n, a in names[0].items()} == {n: a.tobytes() for n, a in names[1].items()}


def test_arrays_of_any_type_and_value_are_kept(tmp_path):
    s = setup(Walk(), iterations=1)
    state = run_iterations(s, Walk())[-1].state
    again = through_a_file(s, state, tmp_path / "checkpoint")
    with open_session(s, Walk()) as session:
        restored, _ = session.restore(again)
    types = [str(x.dtype) for x in restored.episodes.worlds.leaves]
    assert {"bfloat16", "float16", "int8", "uint16", "bool", "uint32", "int32", "float32"} == set(types)
    for a, b in zip(state.episodes.worlds.leaves, restored.episodes.worlds.leaves, strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
    assert any(not np.isfinite(np.asarray(x)).all() for x in restored.episodes.worlds.leaves if x.dtype == np.float32)


def test_the_state_of_another_environment_is_refused(tmp_path):
    s = setup(Flip(), iterations=1)
    state = run_iterations(s, Flip())[-1].state

    class Other(Flip):
        def reset(self, key):
            state, obs = super().reset(key)
            return state._replace(bits=jnp.zeros((3, 2), jnp.uint16)), obs

    for env, why in (
        (Other(), "array 7 of their state is uint16[4, 2, 2], but must be uint16[4, 3, 2]"),
        (Counter(), ""),
    ):
        with open_session(s, env) as session, pytest.raises(ToppoError) as error:
            session.restore(state)
        assert why in str(error.value)
        assert "the checkpoint's environments are not those of" in str(error.value)


def test_a_checkpoint_with_other_shapes_is_refused():
    s = setup(Walk(), iterations=1)
    arrays, counters = state_to_arrays(run_iterations(s, Walk())[-1].state)
    name = "worlds/leaves/0"
    for change in (
        {name: arrays[name][:2]},
        {"worlds/started": arrays["worlds/started"].astype(np.int64)},
        {"sums/total": np.full(E, np.nan)},
        {"worlds/row": np.full_like(arrays["worlds/row"], np.inf)},
    ):
        with pytest.raises(CheckpointError, match="the checkpoint does not fit its spec"):
            state_from_arrays(s, arrays | change, counters)
    with pytest.raises(CheckpointError):
        state_from_arrays(s, arrays, counters | {"state_arrays": 3})


def test_environments_of_the_other_kind_begin_new_episodes():
    from tests.support.probes import Walk as PythonWalk

    in_jax, in_python = Walk(), PythonWalk
    s = setup(in_jax, iterations=1)
    state = run_iterations(s, in_jax)[-1].state
    with open_session(s, in_python) as session:
        other, failed = session.restore(state)
        assert set(failed) == set(range(E))
        session.collector.start(other)
        session.collector.finish()
    with open_session(s, in_jax) as session:
        _, failed = session.restore(other)
    assert set(failed) == set(range(E))
    assert isinstance(state.episodes, JaxEpisodes)


BAD = [("observation", 0, "the reset"), ("observation", 2, "step 2"), ("reward", 1, "step 1")]


@pytest.mark.parametrize(("field", "step", "call"), BAD)
@pytest.mark.parametrize("length", [6, 32])  # the episode lies in the second batch, or in the first
def test_a_value_that_is_not_finite_is_named(field, step, call, length):
    def is_bad_key(key):
        episode = jax.random.fold_in(jax.random.fold_in(stream_key(0, Stream.ENV_RESET), 1), 2)
        return (jax.random.key_data(key) == jax.random.key_data(jax.random.fold_in(episode, 0))).all()

    env = Faulty(field, step, is_bad_key)
    with pytest.raises(NotFinite) as fault:
        batches(setup(env, n_steps=length * 2, n_envs=2, n_minibatches=2), env, 3)
    expected = (
        f"Faulty (environment 1): {call} of episode 2 gave {'an' if field[0] == 'o' else 'a'} {field} that is not"
    )
    assert str(fault.value).startswith(expected)
    assert fault.value.details == {"environment": "Faulty (environment 1)", "episode": 2, "step": step, "field": field}


@pytest.mark.parametrize("policy", [FaultPolicy(on_nan="truncate"), FaultPolicy(env_restarts=1)])
def test_faults_of_single_environments_are_refused(policy):
    with (
        pytest.raises(ToppoError, match="step together, in one program"),
        open_session(setup(Walk()), Walk(), 0, policy),
    ):
        pass
    assert resolve(Walk()).is_jax


def test_wide_observations_are_stored_once_and_learn_the_same(monkeypatch):
    env = "gymnax:Breakout-MinAtar"
    s = setup(env, iterations=2)
    once = run_iterations(s, env)
    assert batches(s, env, 1)[0][0].next_obs.shape == (E, 400)
    monkeypatch.setattr("toppo.learn.compiled_collector.MAX_STORED_TWICE", 400)
    twice = run_iterations(s, env)
    assert batches(s, env, 1)[0][0].next_obs.shape == (T, E, 400)
    for a, b in zip(*(jax.tree.leaves(t[-1].state.learner.params) for t in (once, twice)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
