"""`toppo train --config FILE` and `--print-config`."""

import json

import pytest

from tests.support.settings import tiny_flags
from toppo.cli import main
from toppo.runs.spec import from_json, to_json

YAML = """
env: Pendulum-v1
algo: ppo
total_timesteps: 1e5
seed: 4
env_kwargs: {g: 3.0}
common:
  learning_rate: 1e-3      # YAML 1.1 reads this as text
  hidden: [32, 16]
  n_epochs: 4
  ent_coef: [[0, 1e-2], [1, 0]]
config:
  clip_range: linear
  n_steps: 1.6e3
"""


def printed(capsys, *arguments):
    main(["train", *arguments, "--print-config"])
    return from_json(json.loads(capsys.readouterr().out))


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_file_of_some_settings_fills_up_with_defaults(here, capsys):
    (here / "mine.yaml").write_text(YAML)
    spec = printed(capsys, "--config", "mine.yaml")
    assert (spec.env, spec.algo, spec.total_timesteps, spec.seed) == ("Pendulum-v1", "ppo", 100_000, 4)
    assert spec.env_kwargs == {"g": 3.0}
    assert (spec.common.learning_rate, spec.common.hidden, spec.common.n_epochs) == (1e-3, (32, 16), 4)
    assert spec.common.ent_coef == ((0.0, 0.01), (1.0, 0.0))
    assert (spec.config.n_steps, spec.config.clip_range) == (1600, ((0.0, 0.2), (1.0, 0.0)))
    assert spec.common.gae_lambda == printed(capsys, "Pendulum-v1", "--algo", "ppo").common.gae_lambda
    assert [p.name for p in here.iterdir()] == ["mine.yaml"]


def test_flags_win_over_the_file(here, capsys):
    (here / "mine.yaml").write_text(YAML)
    flags = ["--seed", "9", "--gamma", "0.5", "--n-epochs", "7", "--hidden", "8", "--env-kwargs", "g=4"]
    spec = printed(capsys, "--config", "mine.yaml", *flags)
    assert (spec.seed, spec.common.gamma, spec.common.n_epochs, spec.common.hidden) == (9, 0.5, 7, (8,))
    assert spec.common.learning_rate == 1e-3
    assert spec.env_kwargs == {"g": 4}
    other = printed(capsys, "CartPole-v1", "--config", "mine.yaml")
    assert (other.env, other.common.n_epochs) == ("CartPole-v1", 4)
    assert other.env_kwargs == {}  # they were for the other environment


def test_what_is_printed_is_a_config_file_and_a_spec_of_a_run_is_one_too(here, capsys):
    flags = ["CartPole-v1", "--algo", "toppo", *tiny_flags(), "--total-timesteps", "64", "--learning-rate", "linear"]
    main(["train", *flags, "--print-config"])
    text = capsys.readouterr().out
    (here / "first.json").write_text(text)
    main(["train", "--config", "first.json", "--print-config"])
    assert capsys.readouterr().out == text
    main(["train", "--config", "first.json", "--out", "run", "--workers", "0", "--no-tensorboard"])
    capsys.readouterr()
    assert (here / "run" / "spec.json").read_text() == text
    assert to_json(printed(capsys, "--config", "run/spec.json")) == json.loads(text)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("gamma: 0.9", "bad.yaml: `gamma` stands at the top, but belongs under `common`"),
        ("clip_range: 0.9", "bad.yaml: `clip_range` stands at the top, but belongs under `config`"),
        ("common: {gama: 1}", "bad.yaml: `common` has no setting `gama`: did you mean `gamma`?"),
        ("config: {alhpa: 1}", "bad.yaml: `config` of ToPPO has no setting `alhpa`: did you mean `alpha`?"),
        ("colour: 1", "bad.yaml: it has no setting `colour`: choose one of algo, common, config, env, "),
        ("env: 3", "bad.yaml: env is 3, but must be a name"),
        ("common: 3", "bad.yaml: common is 3, but must be names with values"),
        ("total_timesteps: 1.5", "bad.yaml: total_timesteps is 1.5, but must be a whole number"),
        ("schema: 9", "bad.yaml: it has schema 9, but this version of toppo reads"),
        ("a: [", "bad.yaml is not valid YAML or JSON (line "),
        ("- 1", "bad.yaml: it holds no names with values"),
        ("", "bad.yaml: it holds no names with values"),
        ("common: {gamma: 3}", "the config file cannot be used: gamma is 3.0, but must be in [0, 1]"),
        ("common: {gamma: x}", "the config file cannot be used: gamma is 'x', but must be a float"),
        ("algo: sac", "'sac' is not an algorithm"),
        ("x: !!python/object/apply:os.mkdir [made]", "bad.yaml is not valid YAML or JSON (line 1: "),
    ],
)
def test_a_wrong_file_is_one_sentence(here, capsys, text, sentence):
    (here / "bad.yaml").write_text(text)
    with pytest.raises(SystemExit) as leave:
        main(["train", "CartPole-v1", "--config", "bad.yaml"])
    errors = capsys.readouterr().err
    assert leave.value.code in (64, 65)
    assert errors.startswith(f"toppo: {sentence}")
    assert errors.count("\n") == 1
    assert [p.name for p in here.iterdir()] == ["bad.yaml"]


def test_a_file_that_is_not_there(capsys):
    with pytest.raises(SystemExit) as leave:
        main(["train", "--config", "none.yaml"])
    assert leave.value.code == 66
    assert "none.yaml cannot be read (No such file or directory)" in capsys.readouterr().err
