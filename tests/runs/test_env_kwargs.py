"""Arguments of an environment are part of the run: they reach every process, and every later command."""

import json

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.classic_control import PendulumEnv

import toppo
from tests.support import probes
from tests.support.settings import tiny, tiny_flags
from toppo.cli import main
from toppo.cli.flags import env_kwargs_in
from toppo.envs import make, resolve
from toppo.envs.source import from_address
from toppo.errors import ToppoError
from toppo.runs.presets import spec_for
from toppo.runs.run import registered_source
from toppo.runs.spec import from_json, to_json

GRAVITY = {"g": 3.0}


def test_arguments_reach_ids_and_functions_here_and_by_their_address():
    for given in ("Pendulum-v1", PendulumEnv):
        source = resolve(given, GRAVITY)
        sent = json.loads(json.dumps(source.address))
        for same in (source, from_address(sent)):
            env = make(same)
            assert env.unwrapped.g == 3.0
            env.close()


def test_a_run_with_worker_processes_has_the_arguments_of_one_without():
    found = []
    for workers, kwargs in ((0, {"how": "death"}), (2, {"how": "death"}), (0, {"how": "never"})):
        agent = toppo.PPO(probes.Ending, env_kwargs=kwargs, n_envs=2, **tiny())
        agent.learn(64, workers=workers)
        found.append(agent.state.return_moments)
    assert found[0] == found[1] != found[2]


def test_a_loaded_agent_has_the_same_environment(tmp_path):
    agent = toppo.PPO("Pendulum-v1", env_kwargs=GRAVITY, **tiny())
    agent.save(tmp_path / "agent")
    for loaded in (toppo.load(tmp_path / "agent"), toppo.load(tmp_path / "agent", env="Pendulum-v1")):
        assert loaded.spec.env_kwargs == GRAVITY
        assert make(loaded.source).unwrapped.g == 3.0
    own = gym.make("Pendulum-v1", g=5.0)
    assert toppo.load(tmp_path / "agent", env=own).source.given is own


def test_the_spec_holds_them_and_an_old_one_has_none():
    spec = spec_for(resolve("Pendulum-v1", {"g": 3.0, "pair": (1, 2)}), "ppo", 10, 0)
    data = json.loads(json.dumps(to_json(spec)))
    assert data["env_kwargs"] == {"g": 3.0, "pair": [1, 2]}
    assert from_json(data) == spec
    del data["env_kwargs"]
    assert from_json(data).env_kwargs == {}
    with pytest.raises(ToppoError, match="env_kwargs is 3, but must be a dict"):
        from_json({**data, "env_kwargs": 3})


@pytest.mark.parametrize(
    ("env", "kwargs", "sentence"),
    [
        ("CartPole-v1", {"x": np.zeros(2)}, "env_kwargs are {'x': array.*, but must be names with JSON data"),
        ("CartPole-v1", {"x": float("nan")}, "must be names with JSON data"),
        ("CartPole-v1", {1: 2}, "must be names with JSON data"),
        ("CartPole-v1", {"length": 2}, "CartPole-v1 cannot be made: .* unexpected keyword argument 'length'"),
        (probes.Walk(), {"x": 1}, "but Walk is made already: give them where it is made"),
    ],
)
def test_what_cannot_be_an_argument_is_refused(env, kwargs, sentence):
    with pytest.raises(ToppoError, match=sentence):
        toppo.PPO(env, env_kwargs=kwargs)


def test_the_command_line_reads_names_and_values():
    assert env_kwargs_in(["a=1", "b=true", "c=x=y", 'd={"e": [1]}']) == {"a": 1, "b": True, "c": "x=y", "d": {"e": [1]}}
    for word in ("a", "=1"):
        with pytest.raises(ToppoError, match="but takes NAME=VALUE"):
            env_kwargs_in([word])


def test_train_resume_and_evaluate_make_the_same_environment(tmp_path, capsys):
    flags = [*tiny_flags(), "--total-timesteps", "64", "--out", str(tmp_path / "run"), "--no-tensorboard"]
    main(["train", "Pendulum-v1", "--env-kwargs", "g=3.0", *flags, "--workers", "0"])
    spec = from_json(json.loads((tmp_path / "run" / "spec.json").read_text()))
    assert make(registered_source(spec)).unwrapped.g == 3.0
    main(["resume", str(tmp_path / "run"), "--workers", "0"])
    main(["evaluate", str(tmp_path / "run"), "--episodes", "1"])
    with_arguments = capsys.readouterr().out.splitlines()[-1]
    main(["evaluate", str(tmp_path / "run"), "--episodes", "1", "--env", "Pendulum-v1"])
    assert capsys.readouterr().out.splitlines()[-1] == with_arguments


def test_arguments_that_a_file_gives_to_an_environment_of_others_must_be_trusted():
    """They may name code to import."""
    if "ProbeEnding-v0" not in gym.registry:
        gym.register("ProbeEnding-v0", probes.Ending)
    spec = spec_for(resolve("ProbeEnding-v0", {"how": "time"}), "ppo", 10, 0)
    with pytest.raises(ToppoError, match=r"if you trust them .*how.*, name the environment yourself with --env"):
        registered_source(spec)
    assert registered_source(spec_for("ProbeEnding-v0", "ppo", 10, 0)).is_registered
