"""The pieces of the V ratio on real simulators, against naive second sources."""

from functools import cache
from typing import Any, NamedTuple

import gymnasium as gym
import jax
import numpy as np
import pytest

from tests.support.settings import tiny
from toppo.envs import resolve
from toppo.envs.single import open_environment
from toppo.learn.session import open_session
from toppo.learn.setup import initial_state
from toppo.reproduce import v_ratio
from toppo.runs.presets import spec_for
from toppo.runs.run import setup_for

N, ITERATIONS = 1000, 4
RUNS = {"geppo": ("Hopper-v5", {"mean_age": 1.5}), "toppo": ("HalfCheetah-v5", {})}


def small_spec(env, algo, steps, seed, preset):
    """What the study would train, in the size of a test."""
    return spec_for(
        env, algo, steps, seed, **tiny(preset=preset, n_steps=N, n_minibatches=2, warmup_steps=N), **RUNS[algo][1]
    )


class Trained(NamedTuple):
    env: str
    setup: Any
    turns: list[Any]
    states: list[Any]  # before every iteration, and after the last


@cache
def trained(algo):
    env = RUNS[algo][0]
    setup = setup_for(small_spec(env, algo, ITERATIONS * N, 0, "paper"), env)
    first = initial_state(setup)
    with open_session(setup, env) as session:
        turns = list(session.train(first))
    return Trained(env, setup, turns, [first, *(turn.state for turn in turns)])


@pytest.fixture(autouse=True)
def short_paths(monkeypatch):
    monkeypatch.setattr(v_ratio, "HORIZON", 20)


def oldest(states):
    """The oldest batch that is held at the end, and the number of its first episode."""
    batch = states[-1].memory[0]
    return batch, states[int(batch.iteration) + 1].episodes[0].started - v_ratio.episodes_in(batch)


@pytest.mark.parametrize("algo", RUNS)
def test_the_simulator_is_put_back_to_the_bit(algo):
    """From every kept state the batch's own actions lead along the batch's own path."""
    env, setup, _, states = trained(algo)
    batch, first = oldest(states)
    rows = np.array([0, 1, 17, 400, 990])
    restarts = v_ratio.replay(setup, open_environment(resolve(env), 0), batch, first, rows)
    assert [r.row for r in restarts] == rows.tolist()
    world = open_environment(resolve(env), 0)
    for restart in reversed(restarts):
        v_ratio.restore(world, restart)
        assert v_ratio.simulator_state(world).tobytes() == restart.state.tobytes()
        assert restart.obs.astype(np.float32).tobytes() == np.asarray(batch.obs)[restart.row, 0].tobytes()
        for row in range(restart.row, len(batch.obs)):
            reward, _, _ = world.step(np.asarray(batch.action)[row, 0])
            assert world.row.astype(np.float32).tobytes() == np.asarray(batch.next_obs)[row, 0].tobytes()
            assert np.float32(reward) == np.asarray(batch.reward)[row, 0]
            if batch.ended[row, 0]:
                break


def test_a_replay_that_leaves_its_path_is_refused():
    _, setup, _, states = trained("geppo")
    batch, first = oldest(states)
    with pytest.raises(RuntimeError, match="left its path at row 0"):
        v_ratio.replay(setup, open_environment(resolve("Hopper-v5"), 0), batch, first + 1, np.array([3]))


def naive_return(batch, policy, restart, noise, setup):
    """The return of one path, with Gymnasium's own environment and the network in JAX."""
    import mujoco

    env = gym.make("Hopper-v5").unwrapped
    env.reset(seed=1)
    mujoco.mj_setState(env.model, env.data, restart.state, mujoco.mjtState.mjSTATE_INTEGRATION)
    act = jax.jit(setup.net.policy)
    obs = restart.obs
    rewards = []
    for z in noise:
        x = np.clip((obs - np.asarray(batch.normaliser.mean)) * np.asarray(batch.normaliser.inv_std), -10, 10)
        dist = act(policy, x[None].astype(np.float32))
        action = (np.asarray(dist.mean) + np.exp(np.asarray(dist.log_std)) * z)[0]
        obs, reward, terminated, _, _ = env.step(np.clip(action, -1, 1))
        rewards.append(min(10.0, max(-10.0, reward * float(batch.normaliser.reward_scale))))
        if terminated:
            break
    return sum(0.995**t * r for t, r in enumerate(rewards)), len(rewards)


@pytest.mark.parametrize("factor", [None, 30.0])
def test_returns_are_in_the_critics_units(factor):
    """Rewards by the batch's own frozen factor, clipped at 10, discounted, until the episode terminates."""
    _, setup, _, states = trained("geppo")
    batch, first = oldest(states)
    if factor is not None:  # so large that the clip acts
        batch = batch._replace(normaliser=batch.normaliser._replace(reward_scale=np.float32(factor)))
    world, policy = open_environment(resolve("Hopper-v5"), 0), states[-1].learner.params.policy
    restarts = v_ratio.replay(setup, world, batch, first, np.array([2, 30]))
    returns = v_ratio.monte_carlo(setup, world, batch, policy, restarts, 3, np.random.default_rng(0))
    rng, lengths = np.random.default_rng(0), []
    for restart, row in zip(restarts, returns, strict=True):
        for value in row:
            noise = rng.standard_normal((20, 3), dtype=np.float32)
            expected, length = naive_return(batch, policy, restart, noise, setup)
            lengths.append(length)
            assert value == pytest.approx(expected, rel=1e-3)
    assert min(lengths) < 20  # some paths terminate


@pytest.mark.parametrize("algo", ["geppo", "toppo"])
def test_each_estimate_meets_the_policy_that_it_speaks_of(algo, monkeypatch):
    """pi_k for V-trace, mu for ToPPO's own advantages; V_hat is the label that training used."""
    env, _, turns, states = trained(algo)
    seen, original = [], v_ratio.monte_carlo

    def record(setup, world, batch, policy, restarts, rollouts, rng):
        seen.append((batch, policy, [r.row for r in restarts]))
        returns = original(setup, world, batch, policy, restarts, rollouts, rng)
        seen[-1] += (returns,)
        return returns

    monkeypatch.setattr(v_ratio, "monte_carlo", record)
    monkeypatch.setattr(v_ratio, "spec_for", small_spec)
    monkeypatch.setattr("toppo.learn.session.train", lambda *given: iter(turns))  # trained already, with this spec
    scale = v_ratio.Scale(steps=ITERATIONS * N, every=1500, states=4, rollouts=2, seeds=1)
    found = v_ratio.measure_during_training(algo, env, scale, 0)
    assert [m.step for m in found] == [2000, 3000]
    for m, (batch, policy, rows, returns) in zip(found, seen, strict=True):
        k, mu = m.step // N - 1, int(batch.iteration)
        assert m.age == k - mu > 0
        kept = [b for b in states[k + 1].memory if int(b.iteration) == mu]
        speaks_of = states[k if algo == "geppo" else mu].learner.params.policy
        for a, b in zip(jax.tree.leaves(policy), jax.tree.leaves(speaks_of), strict=True):
            assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
        estimates, value = np.asarray(kept[0].ret)[rows, 0].astype(float), returns.mean(1)
        assert m.ratio == pytest.approx(np.abs(value - estimates).sum() / np.abs(value).sum(), rel=1e-5)


def test_the_ratio_by_hand():
    estimates, returns = np.array([1.0, -3.0]), np.array([[1.0, 3.0], [-4.0, -4.0]])
    m = v_ratio.compare(10, 2, estimates, returns)
    assert (m.step, m.age) == (10, 2)
    assert m.ratio == pytest.approx((1 + 1) / (2 + 4))
    assert m.median == pytest.approx((1 / 2 + 1 / 4) / 2)
    assert m.noise == pytest.approx(1.0 * np.sqrt(2 / np.pi) / 6)  # standard errors 1 and 0


def test_the_noise_is_what_perfect_estimates_show():
    rng = np.random.default_rng(0)
    value = rng.uniform(5, 10, 4000)
    m = v_ratio.compare(0, 0, value, value[:, None] + rng.normal(size=(4000, 8)))
    assert m.noise == pytest.approx(m.ratio, rel=0.05)
