"""The thin steps of MuJoCo's tasks against Gymnasium's own, byte for byte."""

import gymnasium as gym
import numpy as np
import pytest

from toppo.envs.make import quiet_mujoco
from toppo.envs.mujoco import TASKS, thin_step
from toppo.presets import PAPER_TASKS

pytest.importorskip("mujoco")
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
def test_the_thin_step_gives_gymnasiums_bytes(name, settings):
    quiet_mujoco()
    theirs, ours = (gym.make(name, **settings).unwrapped for _ in range(2))
    row = np.zeros(ours.observation_space.shape)
    step, rng = thin_step(ours, row), np.random.default_rng(0)
    assert step is not None
    low, high = theirs.action_space.low, theirs.action_space.high
    ends = 0
    for episode in range(4):
        first, second = (env.reset(seed=episode)[0] for env in (theirs, ours))
        assert first.tobytes() == second.tobytes()
        for _ in range(60):
            action = rng.uniform(low, high).astype(np.float32)
            obs, reward, terminated, truncated, _ = theirs.step(action)
            thin_reward, thin_terminated, thin_truncated = step(action)
            assert row.dtype == obs.dtype
            assert row.tobytes() == obs.tobytes()
            assert float(thin_reward).hex() == float(reward).hex()
            assert (bool(thin_terminated), thin_truncated) == (bool(terminated), truncated)
            ends += bool(terminated)
            if terminated:
                break
    falls = "Hopper" in name or "Walker" in name or name == "Humanoid-v5"
    assert (ends > 0) is (falls and settings.get("terminate_when_unhealthy", True))


def test_every_task_of_the_paper_has_a_thin_step_and_nothing_else_does():
    assert len(TASKS) == len(PAPER_TASKS)
    assert thin_step(gym.make("CartPole-v1").unwrapped, np.zeros(4)) is None

    from gymnasium.envs.mujoco.hopper_v5 import HopperEnv

    class Custom(HopperEnv):
        """A subclass may mean something else by a step."""

    assert thin_step(Custom(), np.zeros(11)) is None
