"""``toppo tune`` as a user types it: real processes, killed, stopped and continued."""

import dataclasses
import json
import signal
import sys
import time

import pytest

from tests.support.commands import finish, lines, start
from tests.support.settings import tiny
from toppo.cli import main
from toppo.errors import NO_INPUT, USAGE
from toppo.runs.spec import from_json
from toppo.tune.trials import Trials

SPACE = tiny() | {"learning_rate": {"low": 1e-5, "high": 0.03, "log": True}}
TRIALS = 3


def command(folder, *more):
    (folder / "space.json").write_text(json.dumps(SPACE))
    small = ("--total-timesteps", 640, "--jobs", 1, "--space", folder / "space.json")
    return ("tune", "CartPole-v1", "--algo", "ppo", "--trials", TRIALS, *small, "--out", folder / "out", *more)


def trials_in(folder):
    """What is stored, without settings of a search."""
    path = folder / "out" / "study.db"
    if not path.is_file():
        return []
    trials = Trials(path, None, 0, prune=False)
    found = [trial._replace(key=0) for trial in trials.all()]
    trials.close()
    return found


def ended(folder):
    return [trial for trial in trials_in(folder) if trial.state != "running"]


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The search that nobody disturbs; its trials are processes, like those of any other."""
    folder = tmp_path_factory.mktemp("alone")
    main([str(word) for word in command(folder)])
    return folder


def test_killed_and_stopped_it_is_the_same_search(alone, tmp_path, capsys):
    process = start(*command(tmp_path))
    wait(process, lambda: lines(tmp_path / "out" / "trials" / "trial-0000-0" / "metrics.jsonl") > 1)
    process.kill()
    process.communicate()
    assert ended(tmp_path) == []

    process = start(*command(tmp_path))
    wait(process, lambda: lines(tmp_path / "out" / "trials" / "trial-0001-0" / "metrics.jsonl") > 1)
    process.send_signal(signal.SIGINT)
    code, out, err = finish(process)
    assert code == 130, out + err
    assert "stopped by SIGINT; every run is saved, and the same command continues" in out
    before = ended(tmp_path)
    assert before

    process = start(*command(tmp_path))
    wait(process, lambda: len(ended(tmp_path)) > len(before))
    process.kill()
    process.communicate()
    assert ended(tmp_path)[: len(before)] == before

    main([str(word) for word in command(tmp_path)])
    assert trials_in(tmp_path) == trials_in(alone)
    assert (tmp_path / "out" / "best.json").read_bytes() == (alone / "out" / "best.json").read_bytes()
    assert f"{TRIALS} trials: " in capsys.readouterr().out


def test_the_best_settings_can_be_trained_and_the_page_is_there(alone, tmp_path):
    spec = from_json(json.loads((alone / "out" / "best.json").read_text()))
    assert (spec.env, spec.algo, spec.config.n_steps) == ("CartPole-v1", "ppo", 64)
    best = max(trials_in(alone), key=lambda trial: trial.value or 0.0)
    assert spec.common.learning_rate == best.drawn["learning_rate"]
    flags = ["--total-timesteps", "128", "--workers", "0", "--no-tensorboard", "--out", str(tmp_path / "run")]
    main(["train", "--config", str(alone / "out" / "best.json"), *flags])
    trained = from_json(json.loads((tmp_path / "run" / "spec.json").read_text()))
    assert trained == dataclasses.replace(spec, total_timesteps=128)
    assert "<h1>ppo on CartPole-v1</h1>" in (alone / "out" / "tune.html").read_text()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["CartPole-v1", "--algo", "topo"], "'topo' is not an algorithm: did you mean `toppo`?"),
        (["CartPole-v1", "--trials", "0"], "trials is 0, but must be at least 1"),
        (["CartPole-v1", "--seeds", "0"], "seeds is 0, but must be at least 1"),
        (["CartPole-v1", "--seed", str(2**31)], "seed is 2147483648, but must be in"),
        (["CartPole-v1", "--jobs", "0"], "jobs is 0, but must be at least 1"),
        (["CartPole-v1", "--trial", "3"], "toppo tune has no option --trial: did you mean `--trials`?"),
        (["Nowhere-v0"], "'Nowhere-v0' is not an environment"),
        (["CartPole-v1", "--algo", "disc"], "disc needs continuous actions"),
        (["CartPole-v1", "--space", "nothing.json"], "nothing.json does not exist"),
    ],
)
def test_wrong_options_are_one_sentence_and_write_nothing(capsys, tmp_path, monkeypatch, words, sentence):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as leave:
        main(["tune", *words])
    assert leave.value.code in (USAGE, NO_INPUT)
    err = capsys.readouterr().err
    assert sentence in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_missing_optuna_is_one_sentence(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(SystemExit):
        main(["tune", "CartPole-v1"])
    assert "toppo tune needs the package optuna: pip install" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_table_can_be_printed_changed_and_given_back(capsys, tmp_path):
    main(["tune", "CartPole-v1", "--print-space"])
    table = capsys.readouterr().out
    assert json.loads(table)["learning_rate"] == {"low": 3e-5, "high": 3e-3, "log": True}
    (tmp_path / "space.json").write_text(table)
    main(["tune", "CartPole-v1", "--print-space", "--space", str(tmp_path / "space.json")])
    assert capsys.readouterr().out == table


def wait(process, there):
    while not there():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
