"""The example in JavaScript acts as the agent does; it is tried where Node and onnxruntime-web are installed."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import toppo
from tests.support.settings import tiny
from toppo.cli import main

EXAMPLE = Path(__file__).parents[2] / "examples" / "run_in_javascript.mjs"


@pytest.fixture
def modules():
    """Where npm installs packages for all, if onnxruntime-web is among them."""
    if not (shutil.which("node") and shutil.which("npm")):
        pytest.skip("no Node")
    folder = Path(subprocess.run(["npm", "root", "-g"], check=True, capture_output=True, text=True).stdout.strip())
    if not (folder / "onnxruntime-web").is_dir():
        pytest.skip("no onnxruntime-web: npm install -g onnxruntime-web")
    return folder


@pytest.mark.parametrize(("env", "size"), [("CartPole-v1", 4), ("Pendulum-v1", 3)])
def test_a_policy_acts_in_javascript_as_in_python(tmp_path, modules, env, size):
    agent = toppo.PPO(env, seed=0, **tiny()).learn(1000)
    agent.save(tmp_path / "agent")
    main(["export", str(tmp_path / "agent"), "--out", str(tmp_path / "policy.onnx")])
    shutil.copy(EXAMPLE, tmp_path)
    (tmp_path / "node_modules").symlink_to(modules)
    observations = np.random.default_rng(0).normal(0, 1, (100, size)).astype(np.float32)
    lines = "".join(f"{json.dumps(row.tolist())}\n" for row in observations)
    words = ["node", EXAMPLE.name, "policy.onnx"]
    done = subprocess.run(words, cwd=tmp_path, input=lines, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    actions = np.array([json.loads(line) for line in done.stdout.splitlines()])
    expected, _ = agent.predict(observations, deterministic=True)
    np.testing.assert_allclose(actions.reshape(expected.shape), expected, atol=1e-5)
