"""Every algorithm on every action space that it is defined for, and every kind of observation."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support import worlds
from tests.support.training import ALGOS, learned, on_host, setup_for, train_all
from tests.support.worlds import ACTIONS, OBSERVATIONS, Anything, Combination, Forbidden, Glance, dictionary, masked
from toppo.algos.contract import Segment
from toppo.learn.programs import next_values
from toppo.learn.session import open_session
from toppo.learn.setup import initial_state
from toppo.runs.state_io import state_from_arrays, state_to_arrays

# Every algorithm, every action space, every kind of observation, and the pairs that share code of their own.
CASES = [
    ("toppo", "dict", "multi_discrete"),
    ("ppo", "tuple", "multi_binary"),
    ("trpo", "multi_binary", "multi_discrete"),
    ("geppo", "discrete", "multi_discrete"),
    ("otrpo", "multi_discrete", "discrete"),
    ("oppo", "discrete", "multi_binary"),
    ("disc", "matrix", "box"),
    ("toppo", "towers", "multi_discrete"),
    ("geppo", "small_image", "discrete"),
    ("trpo", "small_image", "discrete"),
    ("otrpo", "small_image", "multi_binary"),
    ("oppo", "grey", "discrete"),
    ("disc", "small_image", "box"),
    ("ppo", "grey", "box"),
]


def invisible_resume(setup, source):
    """Three iterations; the last one again from the state before it, through the arrays of a checkpoint."""
    whole = train_all(setup, source)
    arrays, facts = state_to_arrays(whole[1].state)
    state = state_from_arrays(setup, arrays, json.loads(json.dumps(facts)))
    assert learned(train_all(setup, source, state)) == learned(whole[2:])
    for leaf in jax.tree.leaves((whole[-1].state.learner, whole[-1].state.memory)):
        assert np.isfinite(leaf).all()
    return whole


@pytest.mark.parametrize(("algo", "observation", "action"), CASES)
def test_training_runs_and_resumes_on_every_space(algo, observation, action):
    def source():
        return Anything(OBSERVATIONS[observation], ACTIONS[action])

    invisible_resume(setup_for(algo, source), source)


@pytest.mark.parametrize(("algo", "source"), [("toppo", masked), ("geppo", masked), ("ppo", worlds.masked_dials)])
def test_an_action_that_is_not_allowed_is_never_taken_and_has_no_probability(algo, source):
    setup = setup_for(algo, source)
    whole = invisible_resume(setup, source)  # the environment refuses an action that its mask forbids
    choices = setup.spaces.choices
    for batch in whole[-1].state.memory:
        allowed = batch.obs[..., -sum(choices) :] > 0
        logits = np.split(batch.dist.logits, np.cumsum(choices[:-1]), axis=-1)
        probability = np.concatenate([jax.nn.softmax(part) for part in logits], axis=-1)
        assert np.all(probability[~allowed] == 0)
        assert 0 < (~allowed).mean() < 1


@pytest.mark.parametrize("source", [masked, dictionary])
def test_worker_processes_give_the_same_bytes(source):
    setup, found = setup_for("ppo", source, n_envs=2), []
    for workers in (0, 2):
        with open_session(setup, source, workers) as session:
            assert session.collector.processes() == workers
            found.append([on_host(t.state.learner) for t in session.train(initial_state(setup))])
    for a, b in zip(*map(jax.tree.leaves, found), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def test_the_cases_cover_everything():
    algos, observations, actions = (set(column) for column in zip(*CASES, strict=True))
    assert (algos, observations, actions) == (set(ALGOS), set(OBSERVATIONS), set(ACTIONS))


def test_images_are_stored_as_bytes_and_once():
    def source():
        return Anything(OBSERVATIONS["grey"], ACTIONS["discrete"])

    setup = setup_for("toppo", source, alpha=99.0, n_envs=2)
    memory = train_all(setup, source)[-1].state.memory
    assert len(memory) == 3
    for batch in memory:
        assert batch.obs.dtype == np.uint8
        assert batch.obs.shape == (32, 2, 40 * 38)
        truncated = int((batch.ended & ~batch.terminated).sum())
        assert truncated <= len(batch.next_obs) - 2 <= 2 * truncated


def rate(turns):
    return np.mean([t.metrics["rollout/ep_rew_mean"] for t in turns[-4:]])


def test_each_dial_of_a_combination_is_learned():
    assert rate(train_all(setup_for("toppo", Combination, 40), Combination)) > 0.9


def test_masks_by_method_are_obeyed_and_the_best_allowed_action_is_learned():
    assert rate(train_all(setup_for("toppo", Forbidden, 25), Forbidden)) == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("shared", [False, True])
def test_pictures_are_understood(shared):
    def source():
        return Glance(8)

    settings = {"shared_trunk": shared, "normalise_reward": False, "learning_rate": 0.003}
    assert rate(train_all(setup_for("toppo", source, 30, **settings), source)) > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("blind", [False, True])
def test_towers_meet(blind):
    """The answer needs the picture and the number beside it: one alone earns 0.5, their sum 0.75."""

    def source():
        return Glance(8, with_dictionary=True, blind=blind)

    settings = {"learning_rate": 0.002, "anneal_lr": True, "normalise_reward": False, "hidden": (32,)}
    rewards = [t.metrics["rollout/ep_rew_mean"] for t in train_all(setup_for("ppo", source, 40, **settings), source)]
    best = np.convolve(rewards, np.ones(4) / 4, "valid").max()
    assert best < 0.7 if blind else best > 0.9


def test_what_follows_a_step_is_the_next_step_or_what_was_stored():
    rng = np.random.default_rng(0)
    value, after = rng.normal(size=(2, 9, 3))
    terminated = rng.random((9, 3)) < 0.2
    ended = terminated | (rng.random((9, 3)) < 0.3)
    expected = np.where(ended, after, np.concatenate([value[1:], after[-1:]]))
    stored = np.concatenate(
        [after[-1], [after[t, e] for t in range(9) for e in range(3) if (ended & ~terminated)[t, e]]]
    )
    segment = Segment(*[None] * 12)._replace(terminated=jnp.asarray(terminated), ended=jnp.asarray(ended))
    for padding in (0, 5):
        padded = np.concatenate([stored, np.full(padding, np.nan)])
        found = next_values(jnp.asarray(value), jnp.asarray(padded), segment)
        np.testing.assert_allclose(np.asarray(found)[~terminated], expected[~terminated], rtol=1e-6)
