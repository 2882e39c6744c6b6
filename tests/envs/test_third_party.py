"""Environments of others, from the package index: trained, stopped and continued; and learned, where time allows."""

import json

import pytest

from tests.support.settings import tiny
from toppo.rundir.layout import Layout
from toppo.runs import run as runs
from toppo.runs.presets import spec_for
from toppo.runs.run import RunOptions

ATARI = tiny(n_steps=16, n_envs=2, n_minibatches=2, hidden=(), warmup_steps=0)
CASES = {
    "minigrid:MiniGrid-Empty-5x5-v0": ("toppo", tiny()),  # a dictionary of a small image, a choice and a text
    "LunarLander-v3": ("geppo", tiny()),  # Box2D
    "gymnasium_robotics:PointMaze_UMaze-v3": ("disc", tiny()),  # a dictionary of vectors
    "BreakoutNoFrameskip-v4": ("toppo", ATARI),
}
PACKAGES = {"minigrid": "minigrid", "LunarLander-v3": "Box2D", "gymnasium_robotics": "gymnasium_robotics"}


@pytest.mark.parametrize("env_id", CASES)
def test_a_stopped_run_continues_to_the_same_bytes(env_id, tmp_path):
    pytest.importorskip(PACKAGES.get(env_id.partition(":")[0], "ale_py"), reason="the package is not installed")
    algo, settings = CASES[env_id]
    told = []
    options, silent = RunOptions(workers=0, checkpoint_every=1, tensorboard=False), lambda progress: None
    n = settings["n_steps"]

    def spec(steps):
        return spec_for(env_id, algo, steps, 1, anneal_lr=False, **settings)

    runs.start(spec(3 * n), env_id, tmp_path / "whole", options, silent, told.append)
    runs.start(spec(2 * n), env_id, tmp_path / "part", options, silent)
    layout = Layout(tmp_path / "part")
    data = json.loads(layout.spec.read_text())
    layout.spec.write_text(json.dumps(data | {"total_timesteps": 3 * n}))
    runs.resume(tmp_path / "part", env_id, options, silent)
    for name in ("metrics", "episodes"):
        whole, part = (getattr(Layout(tmp_path / x), name).read_bytes() for x in ("whole", "part"))
        assert whole == part, name
    assert any("'mission' is text and is left out" in sentence for sentence in told) == env_id.startswith("minigrid")
    assert json.loads(layout.status.read_text())["exact"] is True


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env_id", "steps", "least"),
    [
        ("minigrid:MiniGrid-Empty-5x5-v0", 40_000, 0.9),
        ("LunarLander-v3", 300_000, 100.0),
        ("gymnasium_robotics:PointMaze_UMazeDense-v3", 60_000, 150.0),  # 88 after the first batch
        ("CartPole-v1", 100_000, 450.0),
    ],
)
def test_they_are_learned(env_id, steps, least):
    import toppo

    agent = toppo.ToPPO(env_id, seed=0, n_envs=8)
    agent.learn(steps)
    returns = agent.evaluate(episodes=10, deterministic=False)
    assert sum(returns) / 10 > least
