"""Environments of gymnax itself: the adapter, batches, exact resume and the refusals."""

from urllib.error import URLError

import gymnax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.learn.test_compiled import T, batches, run_iterations, setup, through_a_file
from tests.support.training import learned
from toppo.envs import make, resolve
from toppo.envs.spaces import describe
from toppo.errors import ToppoError
from toppo.jaxenvs import make_jax_env
from toppo.learn.compiled import stream_key
from toppo.rng import Stream

NAMES = [name for name in gymnax.registered_envs if name != "MNISTBandit-bsuite"]


@pytest.mark.parametrize("name", NAMES)
def test_every_environment_can_be_stepped_by_toppo(name):
    env = make(resolve(f"gymnax:{name}"))
    spaces = describe(env)
    env.reset(seed=0)
    env.action_space.seed(0)
    obs, reward, terminated, truncated, _ = env.step(env.action_space.sample())
    assert spaces.action_size > 0
    assert spaces.episode_limit > 0
    assert np.isfinite(reward)
    assert not (terminated and truncated)
    assert np.shape(obs) == env.observation_space.shape


@pytest.mark.parametrize(("name", "episodes"), [("CartPole-v1", True), ("MountainCar-v0", False)])
def test_a_batch_is_what_gymnax_gives_with_the_keys_of_seed_environment_and_episode(name, episodes):
    own, params = gymnax.make(name)
    s = setup(f"gymnax:{name}", n_steps=4 * 224, n_minibatches=4)
    [(raw, _)] = batches(s, f"gymnax:{name}", 1)
    reset, step = jax.jit(own.reset_env), jax.jit(own.step_env)
    for i in range(4):
        key = jax.random.fold_in(stream_key(s.seed, Stream.ENV_RESET), i)
        episode, t, over = -1, 0, True
        for row in range(224):
            if over:
                episode, t = episode + 1, 0
                of_episode = jax.random.fold_in(key, episode)
                obs, state = reset(jax.random.fold_in(of_episode, 0), params)
            np.testing.assert_allclose(raw.obs[row, i], obs, rtol=1e-3, atol=1e-5)
            t += 1
            action = jnp.asarray(raw.action[row, i])
            obs, state, reward, terminated, _ = step(jax.random.fold_in(of_episode, t), state, action, params)
            over = bool(terminated) or t == params.max_steps_in_episode
            np.testing.assert_allclose(raw.next_obs[row, i], obs, rtol=1e-3, atol=1e-5)
            assert raw.reward[row, i] == pytest.approx(float(reward), rel=1e-5)
            assert (raw.terminated[row, i], raw.ended[row, i]) == (bool(terminated), over)
    assert raw.terminated.any() == episodes
    assert (raw.ended & ~raw.terminated).any() != episodes  # only MountainCar reaches its time limit so early


@pytest.mark.parametrize(("algo", "name"), [("toppo", "CartPole-v1"), ("ppo", "Breakout-MinAtar")])
def test_a_run_goes_on_from_a_checkpoint_to_the_same_bytes(algo, name, tmp_path):
    env = f"gymnax:{name}"
    s = setup(env, algo, iterations=4)
    whole = run_iterations(s, env)
    rest = run_iterations(s, env, through_a_file(s, whole[1].state, tmp_path / "checkpoint"))
    assert learned(rest[-1:]) == learned(whole[-1:])
    assert [t.metrics for t in rest] == [t.metrics for t in whole[2:]]
    assert whole[-1].state.steps == T * 4 * 4


def test_files_that_cannot_be_loaded_are_one_sentence(monkeypatch):
    def refuse(*args):
        raise URLError("Name or service not known")

    monkeypatch.setattr("gymnax.utils.load_mnist.urlretrieve", refuse)
    monkeypatch.setattr("gymnax.utils.load_mnist.path.isfile", lambda path: False)
    with pytest.raises(ToppoError) as error:
        make_jax_env("gymnax:MNISTBandit-bsuite")
    assert str(error.value) == (
        "'gymnax:MNISTBandit-bsuite' needs files that gymnax loads from the network, and that failed: "
        "<urlopen error Name or service not known>"
    )


def test_a_wrong_name_is_answered_by_the_right_one():
    with pytest.raises(ToppoError, match="did you mean `CartPole-v1`"):
        make_jax_env("gymnax:CartPole-v0")
