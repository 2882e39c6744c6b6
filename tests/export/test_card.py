"""A model card, and a model packed into a folder and loaded from it."""

import json
import os
import shutil
import subprocess
import sys

import huggingface_hub
import numpy as np
import pytest
import yaml

import toppo
from tests.support.settings import tiny_flags
from toppo import hub
from toppo.cli import main
from toppo.errors import IO_ERROR, USAGE, ToppoError
from toppo.export.card import Tested, card, pack
from toppo.rundir.checkpoint import ARRAYS, MANIFEST
from toppo.rundir.layout import MAX_JSON_BYTES


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs") / "cartpole"
    small = tiny_flags(total_timesteps=640)
    main(["train", "CartPole-v1", "--algo", "ppo", *small, "--workers", "0", "--no-tensorboard", "--out", str(root)])
    return root


def test_the_card_of_a_run_says_what_the_hub_and_a_reader_need(run, tmp_path, capsys):
    main(["card", str(run), "--episodes", "6", "--seed", "3", "--out", str(tmp_path / "card")])
    assert f"wrote {tmp_path / 'card' / 'README.md'} and {tmp_path / 'card' / 'curve.png'}" in capsys.readouterr().out
    text = (tmp_path / "card" / "README.md").read_text()
    returns = toppo.load(run).evaluate(episodes=6)  # with another seed
    found = huggingface_hub.ModelCard.load(tmp_path / "card" / "README.md").data  # the hub's own reader
    assert found.library_name == "toppo"
    assert {"reinforcement-learning", "ppo", "CartPole-v1"} <= set(found.tags)
    [result] = found.eval_results
    assert (result.dataset_name, result.metric_type) == ("CartPole-v1", "mean_reward")
    mean = float(result.metric_value.split()[0])
    assert 5 < mean <= 500
    assert len(returns) == 6
    assert f"6 test episodes with the most likely action, seed 3: {mean:.4g} [" in text
    assert "640 environment steps with seed 0" in text
    assert "![Learning curve](curve.png)" in text
    assert json.loads(text.split("```json\n")[1].split("```")[0]) == json.loads((run / "spec.json").read_text())
    assert "| jax | " in text
    assert (tmp_path / "card" / "curve.png").read_bytes()[:4] == b"\x89PNG"


def test_few_episodes_have_no_interval_and_a_saved_agent_has_no_curve():
    agent = toppo.PPO("CartPole-v1", n_steps=64)
    text = card(agent, Tested([1.0, 2.0], 0), {"jax": "1"}, has_curve=False)
    assert "seed 0: 1.5 (mean), standard deviation" in text
    assert "curve.png" not in text


def test_names_in_a_checkpoint_stay_text():
    agent = toppo.PPO("CartPole-v1", n_steps=64)
    bad = "x`<script>\u202e|\n---\n![](http://evil)\n```"
    agent.spec = agent.spec.__class__(**{**vars(agent.spec), "env": "x`<script>|```"})
    text = card(agent, Tested([1.0], 0), {bad: bad}, has_curve=False)
    assert "<script" not in text
    assert text.count("```") == 4
    assert yaml.safe_load(text.split("---\n")[1])["model-index"][0]["results"][0]["dataset"]["name"] == "x'(script)/'''"


def test_a_packed_model_is_the_known_files_and_loads_to_the_same_policy(run, tmp_path):
    agent = toppo.load(run)
    pack(agent, Tested([1.0, 2.0], 0), run, tmp_path / "model", "owner/name")
    assert {path.name for path in (tmp_path / "model").iterdir()} == {MANIFEST, ARRAYS, hub.CARD, hub.CURVE}
    assert 'toppo.load("hf://owner/name")' in (tmp_path / "model" / "README.md").read_text()
    loaded = toppo.load(tmp_path / "model")
    observations = np.random.default_rng(0).normal(size=(100, 4)).astype(np.float32)
    expected, _ = agent.predict(observations, deterministic=True)
    assert loaded.predict(observations, deterministic=True)[0].tolist() == expected.tolist()
    assert loaded.num_timesteps == 640
    loaded.learn(64)


@pytest.mark.parametrize("name", ["", "name", "a/b/c", "a b/c", "../x", "/x", "a/", ".a/b", "a/" + "b" * 97])
def test_a_wrong_name_is_one_sentence(name, capsys, tmp_path):
    with pytest.raises(ToppoError, match="is not the name of a model on the hub: it must be owner/name"):
        toppo.load(f"hf://{name}")
    if name:
        with pytest.raises(SystemExit) as leave:
            main(["push", str(tmp_path), name])
        assert leave.value.code == USAGE
        assert "must be owner/name" in capsys.readouterr().err


def test_a_missing_package_and_a_missing_token_are_one_sentence(run, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(huggingface_hub.constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    with pytest.raises(SystemExit):
        main(["push", str(run), "owner/name"])
    assert "only with a token: type `hf auth login`, or set HF_TOKEN" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(SystemExit):
        main(["push", str(run), "owner/name"])
    assert "the hub needs the package huggingface_hub: pip install" in capsys.readouterr().err
    with pytest.raises(ToppoError, match="needs the package huggingface_hub"):
        toppo.load("hf://owner/name")


def test_without_a_network_both_ways_are_one_sentence(run, monkeypatch, tmp_path):
    """A port that nobody listens on, in a process of its own: the client reads its address when it is imported."""
    code = (
        "import toppo, sys; from toppo.cli import main\n"
        "from toppo.errors import ToppoError\n"
        "try: toppo.load('hf://owner/name')\n"
        "except ToppoError as error: print(error.code, error)\n"
        "main(['push', sys.argv[1], 'owner/name', '--episodes', '1'])\n"
    )
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("HF_TOKEN", "hf_none")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    done = subprocess.run([sys.executable, "-c", code, run], capture_output=True, text=True)
    assert done.returncode == IO_ERROR, done.stderr
    assert done.stdout.startswith(f"{IO_ERROR} hf://owner/name: the hub cannot be reached")
    assert done.stderr == "toppo: hf://owner/name: the hub cannot be reached\n"


def cached(home, files):
    """A model as the client keeps it: links to blobs."""
    model = home / "hub" / "models--owner--name"
    snapshot = model / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text("0" * 40)
    (model / "blobs").mkdir()
    for path in files:
        shutil.copyfile(path, model / "blobs" / path.name)
        (snapshot / path.name).symlink_to(f"../../blobs/{path.name}")
    return model


def loaded_offline(home):
    """Load a model whose hub is a port that nobody listens on; the client reads its address when it is imported."""
    code = (
        "import toppo\nfrom toppo.errors import ToppoError\n"
        "try: print(toppo.load('hf://owner/name').num_timesteps)\n"
        "except ToppoError as error: print(error)\n"
    )
    env = {**os.environ, "HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": str(home)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_model_in_the_clients_cache_is_loaded_without_a_network(run, tmp_path):
    pack(toppo.load(run), Tested([1.0], 0), run, tmp_path / "model", "owner/name")
    cached(tmp_path / "home", [tmp_path / "model" / name for name in (MANIFEST, ARRAYS)])
    assert loaded_offline(tmp_path / "home") == "640\n"


def test_a_model_that_is_too_large_or_none_of_ours_is_one_sentence(tmp_path):
    (tmp_path / MANIFEST).write_text("{}")
    cached(tmp_path / "home", [tmp_path / MANIFEST])
    assert loaded_offline(tmp_path / "home") == f"hf://owner/name is not a model of toppo: it has no {ARRAYS}\n"
    with (tmp_path / MANIFEST).open("wb") as file:
        file.truncate(MAX_JSON_BYTES + 1)
    cached(tmp_path / "large", [tmp_path / MANIFEST])
    said = f"hf://owner/name: {MANIFEST} has 1,000,001 bytes, but at most 1,000,000 are read\n"
    assert loaded_offline(tmp_path / "large") == said
