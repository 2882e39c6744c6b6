"""The fast steps of MuJoCo's tasks against Gymnasium's own, byte for byte."""

import gymnasium as gym
import numpy as np
import pytest

from toppo.envs.mujoco import OTHER_TASKS, RUNNERS, control_costs, fast_step
from toppo.envs.single import Environment, batch_step
from toppo.envs.source import make, quiet_mujoco, resolve
from toppo.errors import EnvironmentFault, NotFinite
from toppo.runs.presets import PAPER_TASKS

mujoco = pytest.importorskip("mujoco")
VARIANTS = [
    *((name, {}) for name in PAPER_TASKS),
    ("HalfCheetah-v5", {"exclude_current_positions_from_observation": False, "forward_reward_weight": 2.5}),
    ("Hopper-v5", {"terminate_when_unhealthy": False, "healthy_reward": 0.3, "ctrl_cost_weight": 0.7}),
    ("Hopper-v5", {"healthy_state_range": (-3.0, 3.0)}),
    ("Walker2d-v5", {"healthy_z_range": (1.1, 1.3), "frame_skip": 2}),
    ("Reacher-v5", {"reward_dist_weight": 0.5, "reward_control_weight": 2.0}),
    ("Humanoid-v5", {"include_cinert_in_observation": False, "contact_cost_range": (0.1, 0.2)}),
    ("HumanoidStandup-v5", {"include_cfrc_ext_in_observation": False, "impact_cost_range": (0.0, 0.01)}),
]


@pytest.mark.parametrize(("name", "settings"), VARIANTS, ids=lambda x: x if isinstance(x, str) else ",".join(x))
def test_the_fast_step_gives_gymnasiums_bytes(name, settings):
    quiet_mujoco()
    theirs, ours = (gym.make(name, **settings).unwrapped for _ in range(2))
    row = np.zeros(ours.observation_space.shape)
    fast, rng = fast_step(ours, row), np.random.default_rng(0)
    assert fast is not None
    low, high = theirs.action_space.low, theirs.action_space.high
    ends = 0
    for episode in range(4):
        first, second = (env.reset(seed=episode)[0] for env in (theirs, ours))
        assert first.tobytes() == second.tobytes()
        for _ in range(60):
            action = rng.uniform(low, high).astype(np.float32)
            obs, reward, terminated, truncated, _ = theirs.step(action)
            reward_before, fast_terminated = fast.step(action)
            fast_reward = reward_before - float(control_costs(action, fast.control_cost_weight))
            assert row.dtype == obs.dtype
            assert row.tobytes() == obs.tobytes()
            assert float(fast_reward).hex() == float(reward).hex()
            assert (bool(fast_terminated), False) == (bool(terminated), truncated)
            ends += bool(terminated)
            if terminated:
                break
    falls = "Hopper" in name or "Walker" in name or name == "Humanoid-v5"
    assert (ends > 0) is (falls and settings.get("terminate_when_unhealthy", True))


def herd(name, count, **settings):
    """Environments whose rows lie in one block."""
    quiet_mujoco()
    envs = [gym.make(name, **settings) for _ in range(count)]
    rows = np.zeros((count, envs[0].observation_space.shape[0]))
    return [Environment(env, f"{name} {i}", row=row) for i, (env, row) in enumerate(zip(envs, rows, strict=True))], rows


@pytest.mark.parametrize(("name", "settings"), VARIANTS, ids=lambda x: x if isinstance(x, str) else ",".join(x))
def test_a_batch_step_gives_the_bytes_of_one_by_one(name, settings):
    (ours, rows), (single, lone_rows) = (herd(name, 3, max_episode_steps=25, **settings) for _ in range(2))
    step_all, rng = batch_step(ours, rows), np.random.default_rng(1)
    assert step_all is not None
    over, ends = [True] * 3, 0
    for t in range(60):
        for i in np.flatnonzero(over):
            for env in (ours[i], single[i]):
                env.reset(100 * t + int(i))
        actions = rng.normal(size=(3, *ours[0].env.action_space.shape)).astype(np.float32)
        rewards, ended = step_all(actions)
        rewards = [r - float(env.control_costs(a)) for r, env, a in zip(rewards, ours, actions, strict=True)]
        expected = [env.step(action) for env, action in zip(single, actions, strict=True)]
        assert [reward.hex() for reward in rewards] == [reward.hex() for reward, _, _ in expected]
        over = [terminated or truncated for _, terminated, truncated in expected]
        assert ended == [(i, expected[i][1]) for i in np.flatnonzero(over)]
        assert rows.tobytes() == lone_rows.tobytes()
        ends += len(ended)
    assert ends >= 6


def test_a_fault_in_one_of_them_is_named(monkeypatch):
    ours, rows = herd("HalfCheetah-v5", 2)
    still = np.zeros((2, 6), np.float32)

    def fails_in_the_second(model, data, frames):
        if data is ours[1].env.data:
            happens(data)

    def divide(data):
        1 / 0  # noqa: B018

    def spoil(data):
        data.qvel[2] = np.nan

    happens = divide
    monkeypatch.setattr("mujoco.mj_step", fails_in_the_second)
    step_all = batch_step(ours, rows)
    with pytest.raises(EnvironmentFault, match=r"HalfCheetah-v5 1: step 1 .* raised ZeroDivisionError"):
        step_all(still)
    happens = spoil
    with pytest.raises(NotFinite, match=r"HalfCheetah-v5 1: step 2 .* observation that is not finite"):
        step_all(still)


def test_a_fault_is_named_where_they_step_one_after_the_other():
    ours, rows = herd("Reacher-v5", 2)
    ours[1].fast = ours[1].fast._replace(step=lambda action: 1 / 0)
    with pytest.raises(EnvironmentFault, match=r"Reacher-v5 1: step 1 .* raised ZeroDivisionError"):
        batch_step(ours, rows)(np.zeros((2, 2), np.float32))


def test_environments_that_differ_keep_what_is_their_own():
    """Made by one function, but not alike."""
    quiet_mujoco()
    made = [gym.make("Hopper-v5", healthy_reward=r, healthy_z_range=(z, np.inf)) for r, z in ((1, 0.7), (3, 1.24))]
    rows, lone_rows = np.zeros((2, 2, 11))
    ours = [Environment(env, "ours", row=row) for env, row in zip(made, rows, strict=True)]
    step_all, rng = batch_step(ours, rows), np.random.default_rng(0)
    for env in ours:
        env.reset(3)
    actions = rng.normal(size=(9, 2, 3)).astype(np.float32)
    found = [step_all(a) for a in actions]
    single = [Environment(env, "single", row=row) for env, row in zip(made, lone_rows, strict=True)]
    for i, env in enumerate(single):
        env.reset(3)
        for (rewards, ends), a in zip(found, actions, strict=True):
            reward, terminated, _ = env.step_before_cost(a[i])
            assert (float(rewards[i]).hex(), (i, True) in ends) == (float(reward).hex(), terminated)
    costly = gym.make("Hopper-v5", ctrl_cost_weight=1.0)
    assert batch_step([ours[0], Environment(costly, "costly", row=rows[1])], rows) is None


def test_one_alone_and_what_is_not_mujocos_step_one_by_one():
    assert batch_step(*herd("HalfCheetah-v5", 1)) is None
    carts = [Environment(gym.make("CartPole-v1"), "cart") for _ in range(2)]
    assert batch_step(carts, np.zeros((2, 4))) is None


def test_every_task_of_the_paper_has_a_fast_step_and_nothing_else_does():
    assert len(OTHER_TASKS | RUNNERS) == len(PAPER_TASKS)
    assert fast_step(gym.make("CartPole-v1").unwrapped, np.zeros(4)) is None

    from gymnasium.envs.mujoco.hopper_v5 import HopperEnv

    class Custom(HopperEnv):
        """A subclass may mean something else by a step."""

    assert fast_step(Custom(), np.zeros(11)) is None


def test_models_of_gymnasium_are_silent_inside_a_wrapper_too(capfd):
    mujoco.set_mju_user_warning(None)  # as MuJoCo starts: warnings go to the screen
    made = make(resolve(lambda: gym.wrappers.TimeLimit(gym.make("HalfCheetah-v5"), 9)))
    made.close()
    assert "compiler attribute" not in "".join(capfd.readouterr())
