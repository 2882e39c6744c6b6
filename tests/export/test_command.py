"""``toppo export`` as a user types it."""

import pytest

import toppo
from toppo.cli import main
from toppo.errors import USAGE


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("agents") / "cartpole"
    toppo.PPO("CartPole-v1", hidden=(8,), n_steps=64).save(folder)
    return folder


def test_files_lie_beside_the_agent_which_can_still_be_loaded(saved, capsys):
    for format_, name in (("onnx", "policy.onnx"), ("numpy", "policy.npz")):
        main(["export", str(saved), "--format", format_])
        assert str(saved / name) in capsys.readouterr().out
        assert (saved / name).stat().st_size > 1000
    assert toppo.load(saved).spec.env == "CartPole-v1"


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (
            ["--format", "onnx", "--out", "policy.npz"],
            "--out is policy.npz, but a file of --format onnx must end in .onnx",
        ),
        (["--fromat", "onnx"], "did you mean `--format`?"),
    ],
)
def test_wrong_options_are_one_sentence_and_write_nothing(saved, capsys, tmp_path, monkeypatch, flags, sentence):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as leave:
        main(["export", str(saved), *flags])
    assert leave.value.code == USAGE
    assert sentence in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
