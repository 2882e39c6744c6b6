import dataclasses
import json
import re
import shutil
import subprocess
import sys

import gymnasium as gym
import pytest

from tests.support import probes
from tests.support.settings import tiny_flags
from tests.support.terminal import on_a_terminal
from toppo import __version__
from toppo.algos import REGISTRY
from toppo.algos.settings import Common, help_texts
from toppo.cli import COMMANDS, main
from toppo.rng import Stream, seed_for
from toppo.runs.presets import defaults

TINY = [*tiny_flags(n_steps=96, warmup_steps=96), "--workers", "0"]


def register(name, factory):
    if name not in gym.registry:
        gym.register(name, factory)


@pytest.fixture(scope="module", autouse=True)
def environments():
    register("ProbeNaN-v0", probes.faulty_reward)
    register("ProbeWalk-v0", probes.walk)


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "300")
    return folder


def refused(capsys, *arguments):
    """Exit code and the one sentence on the error output."""
    with pytest.raises(SystemExit) as leave:
        main([str(a) for a in arguments])
    captured = capsys.readouterr()
    return leave.value.code, captured.err


def help_of(capsys, *arguments):
    with pytest.raises(SystemExit) as leave:
        main([*arguments, "--help"])
    assert leave.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"], ["help"]])
def test_the_overview_names_every_command(capsys, arguments):
    main(arguments)
    out = capsys.readouterr().out
    for name, command in COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(command.text)}$", out, re.MULTILINE)


def test_the_version(capsys):
    main(["--version"])
    assert capsys.readouterr().out == f"{__version__}\n"


def test_the_installed_command_works():
    done = subprocess.run([sys.executable, "-m", "toppo", "nonsense"], capture_output=True, text=True)
    assert done.returncode == 64
    assert done.stderr == f"toppo: 'nonsense' is not a command: choose one of {', '.join(COMMANDS)}\n"


@pytest.mark.parametrize("command", [c for c in COMMANDS if c != "train"])
def test_every_command_explains_itself(capsys, command):
    assert f"usage: toppo {command}" in help_of(capsys, command)


@pytest.mark.parametrize("algo", REGISTRY)
def test_every_setting_is_a_flag_with_its_text_and_default(capsys, monkeypatch, algo):
    monkeypatch.setenv("COLUMNS", "80")  # a wide terminal gets two columns
    text = help_of(capsys, "train", "Pendulum-v1", "--algo", algo, "--preset", "paper")
    flat = re.sub(r"[\s│|]+", " ", text)
    for settings in defaults(algo, "Pendulum-v1", "paper"):
        for field in dataclasses.fields(settings):
            name = field.name.replace("_", "-")
            assert re.search(rf"--{name}\b", text), name
            line = re.sub(r"[\s|]+", " ", help_texts(type(settings))[field.name])
            value = getattr(settings, field.name)
            default = " ".join(map(str, value)) if isinstance(value, tuple) else value
            assert f"{line} (default: {default})" in flat, name
            assert bool(re.search(rf"--no-{name}\b(?!-)", text)) == (type(field.default) is bool), name
    others = (
        "total-timesteps seed config print-config env-kwargs out workers checkpoint-every tensorboard on-nan "
        "env-timeout env-restarts evaluate-every"
    )
    for name in others.split():
        assert f"--{name}" in text


def test_settings_of_another_algorithm_are_not_offered(capsys):
    assert "--alpha" not in help_of(capsys, "train", "Pendulum-v1", "--algo", "ppo")
    assert "--alpha" in help_of(capsys, "train", "Pendulum-v1", "--algo=toppo")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["Nowhere-v0"], "'Nowhere-v0' is not an environment that Gymnasium can make"),
        (["no.module:Env-v0"], "'no.module:Env-v0' needs the module 'no'"),
        (["Pendulum-v1", "--algo", "sac"], "'sac' is not an algorithm: choose one of toppo, ppo"),
        (["Pendulum-v1", "--gamma", 1.5], "gamma is 1.5, but must be in [0, 1]"),
        (["Pendulum-v1", "--learning-rate", "inf"], "learning_rate is inf, but must be finite"),
        (["Pendulum-v1", "--log-std-init", "nan"], "log_std_init is nan, but must be finite"),
        (["Pendulum-v1", "--total-timesteps", 0], "total_timesteps is 0, but must be at least 1"),
        (["Pendulum-v1", "--seed", -1], "seed is -1, but must be in [0, 2^31)"),
        (["Pendulum-v1", "--n-steps", 100, "--n-envs", 3], "n_steps is 100, but must be a multiple of n_envs = 3"),
        (["Pendulum-v1", "--workers", -1], "workers is -1, but must be at least 0"),
        (["Pendulum-v1", "--checkpoint-every", 0], "checkpoint_every is 0, but must be at least 1"),
        (
            ["CartPole-v1", "--algo", "disc"],
            "CartPole-v1: disc needs continuous actions, but the environment's are discrete: use another algorithm",
        ),
        (
            ["Pendulum-v1", "--reset-each-batch", "--n-steps", 128, "--n-envs", 1],
            "reset_each_batch needs whole episodes in a batch, but n_steps / n_envs is 128 and an episode of "
            "Pendulum-v1 may last 200: use --no-reset-each-batch, fewer --n-envs or more --n-steps",
        ),
        (["ProbeWalk-v0", "--reset-each-batch"], "may last for ever"),
    ],
)
def test_a_mistake_is_one_sentence_and_nothing_is_written(capsys, empty_folder, arguments, sentence):
    code, errors = refused(capsys, "train", *arguments)
    assert code == 64
    assert errors.startswith("toppo: ")
    assert sentence in errors
    assert errors.count("\n") == 1
    assert list(empty_folder.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["trian"], "'trian' is not a command: did you mean `train`?"),
        (["xyz"], f"'xyz' is not a command: choose one of {', '.join(COMMANDS)}"),
        (
            ["train", "Pendulum-v1", "--learning-rat", 1],
            "toppo train has no option --learning-rat: did you mean `--learning-rate`?",
        ),
        (
            ["train", "Pendulum-v1", "--no_early_stopp"],
            "toppo train has no option --no-early-stopp: did you mean `--no-early-stop`?",
        ),
        (
            ["train", "Pendulum-v1", "--zzzz=3"],
            "toppo train has no option --zzzz: toppo train --help shows all",
        ),
        (
            ["train", "Pendulum-v1", "--steps", "1e6"],
            "toppo train has no option --steps: it is total_timesteps, in Python an argument of learn",
        ),
        (["resume", "run", "--worker", 1], "toppo resume has no option --worker: did you mean `--workers`?"),
        (["train", "Pendulum-v1", "--algo", "topppo"], "'topppo' is not an algorithm: did you mean `toppo`?"),
        (["study", "performence"], "'performence' is not a study or a JSON file: did you mean `performance`?"),
        (["reproduce", "run-times"], "'run-times' is not a figure: did you mean `run-time`?"),
    ],
)
def test_a_wrong_name_is_answered_with_the_near_one(capsys, arguments, sentence):
    assert refused(capsys, *arguments) == (64, f"toppo: {sentence}\n")


@pytest.mark.parametrize(
    "arguments",
    [["Pendulum-v1", "--total-timesteps", "many"], [], ["Pendulum-v1", "extra"]],
)
def test_what_cannot_be_parsed_is_explained(capsys, empty_folder, arguments):
    code, errors = refused(capsys, "train", *arguments)
    assert code == 64
    assert errors
    assert "Traceback" not in errors
    assert list(empty_folder.iterdir()) == []


def test_an_existing_directory_is_left_alone(capsys, empty_folder):
    (empty_folder / "thesis").mkdir()
    (empty_folder / "thesis" / "chapter").write_text("1")
    (empty_folder / "file").write_text("2")
    for out, sentence in (
        ("thesis", "thesis exists already: continue it with `toppo resume thesis` or choose another --out"),
        ("file", "file exists already"),
        ("file/below", "file/below cannot be created"),
    ):
        code, errors = refused(capsys, "train", "Pendulum-v1", "--out", out)
        assert code == 73
        assert sentence in errors
        assert errors.count("\n") == 1
    assert sorted(p.name for p in empty_folder.rglob("*")) == ["chapter", "file", "thesis"]


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (["resume", "nothing"], "nothing/spec.json does not exist: is this a run directory?"),
        (["evaluate", "nothing"], "nothing is not a checkpoint directory"),
        (["plot", "nothing"], "nothing is not a directory: name one with runs or curves"),
    ],
)
def test_a_run_that_is_not_there(capsys, empty_folder, command, sentence):
    code, errors = refused(capsys, *command)
    assert (code, errors) == (66, f"toppo: {sentence}\n")
    assert list(empty_folder.iterdir()) == []


def test_an_environment_that_gives_nan_stops_the_run_with_a_sentence(capsys, empty_folder):
    code, errors = refused(capsys, "train", "ProbeNaN-v0", *TINY, "--out", "run", "--no-tensorboard")
    assert code == 65
    seed = seed_for(0, Stream.ENV_RESET, 0, 0)
    sentence = (
        f"ProbeNaN-v0 (environment 0): step 4 of the episode with seed {seed} gave a reward that is not finite (nan)"
    )
    assert errors.startswith(f"toppo: {sentence}")
    status = json.loads((empty_folder / "run" / "status.json").read_text())
    assert status["state"] == "failed"
    assert status["message"].startswith(sentence)
    fault = json.loads((empty_folder / "run" / "fault.json").read_text())
    known = ("environment", "seed", "step", "field", "reward")
    assert [fault[name] for name in known] == ["ProbeNaN-v0 (environment 0)", seed, 4, "reward", "nan"]
    assert fault["fault"] == status["message"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    root = tmp_path_factory.mktemp("cli") / "run"
    main(["train", "CartPole-v1", *TINY, "--total-timesteps", "480", "--out", str(root)])
    return root


def test_a_run_leaves_what_the_documentation_says(trained):
    names = {p.name for p in trained.iterdir() if not p.name.startswith(".")}
    expected = {"spec.json", "versions.json", "metrics.jsonl", "episodes.jsonl", "timing.jsonl", "status.json"}
    assert names == expected | {"checkpoint", "tensorboard"}
    assert json.loads((trained / "status.json").read_text())["state"] == "finished"
    assert len(list((trained / "tensorboard").glob("events*"))) == 1
    for name, schema in {"spec.json": 2, "versions.json": 1, "status.json": 1}.items():
        assert json.loads((trained / name).read_text())["schema"] == schema
    for name in ("metrics.jsonl", "episodes.jsonl", "timing.jsonl"):
        assert json.loads((trained / name).read_text().splitlines()[0]) == {"schema": 1}


def test_the_closing_words_say_what_to_type_next(capsys, empty_folder):
    main(["train", "CartPole-v1", *TINY, "--total-timesteps", "96", "--out", "run", "--no-tensorboard"])
    out = capsys.readouterr().out
    assert re.search(r"^ToPPO on CartPole-v1, seed 0: finished in \d+:\d\d\n  return  ", out, re.MULTILINE)
    assert "toppo evaluate run --video run/video.mp4" in out
    assert "toppo plot run --out run/curve.png" in out


def test_a_finished_run_that_is_resumed_says_so_and_how_to_make_it_longer(capsys, empty_folder):
    main(["train", "CartPole-v1", *TINY, "--total-timesteps", "96", "--out", "run", "--no-tensorboard"])
    capsys.readouterr()
    main(["resume", "run"])
    out = capsys.readouterr().out
    assert "ToPPO on CartPole-v1, seed 0: it was finished already, with 96 steps" in out
    assert "toppo resume run --total-timesteps 192" in out
    assert "no episode has ended" not in out


def test_what_to_type_next_names_an_environment_that_a_file_may_not_choose(capsys, empty_folder):
    flags = [*TINY, "--total-timesteps", "96", "--out", "run", "--no-tensorboard"]
    main(["train", "tests.support.probes:ProbeWalk-v0", *flags])
    assert "toppo evaluate run --env tests.support.probes:ProbeWalk-v0 --video run/video.mp4" in capsys.readouterr().out
    main(["evaluate", "run", "--env", "tests.support.probes:ProbeWalk-v0", "--episodes", "1"])


@pytest.mark.parametrize("figure", ["v-ratio", "run-time"])
def test_a_figure_without_a_study_refuses_what_is_for_studies(capsys, empty_folder, figure):
    with pytest.raises(SystemExit):
        main(["reproduce", figure, "--jobs", "2", "--band", "std"])
    assert f"{figure} needs no study: leave out --band std --jobs 2" in capsys.readouterr().err


def test_evaluate_says_what_it_saw_and_says_it_again(capsys, trained):
    outputs = []
    for _ in range(2):
        main(["evaluate", str(trained), "--episodes", "3"])
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1]
    assert re.match(
        r"ToPPO on CartPole-v1 after 480 steps:\nreturn [\d.]+ \+- [\d.]+ over 3 episodes, mean length", outputs[0]
    )
    main(["evaluate", str(trained), "--episodes", "3", "--stochastic", "--seed", "1"])
    assert capsys.readouterr().out != outputs[0]
    assert "cut off" not in outputs[0]
    main(["evaluate", str(trained), "--episodes", "3", "--max-steps", "4"])
    assert capsys.readouterr().out.endswith("mean length 4\n3 of them were cut off after 4 steps (--max-steps)\n")
    for name in ("episodes", "max-steps", "seed"):
        assert refused(capsys, "evaluate", trained, f"--{name}", -1)[0] == 64
    code, errors = refused(capsys, "evaluate", trained, "--env", "Pendulum-v1")
    assert code == 65
    assert "Pendulum-v1 (environment 0) has other spaces than the policy was trained in: its obs" in errors


def test_plot_draws_a_picture(capsys, empty_folder, trained):
    main(["plot", str(trained), "--out", "deep/curve.png"])
    assert (empty_folder / "deep" / "curve.png").read_bytes().startswith(b"\x89PNG")
    code, errors = refused(capsys, "plot", trained, "--out", "curve.nonsense")
    assert code == 74
    assert "curve.nonsense cannot be written" in errors
    assert refused(capsys, "plot", trained, "--out", empty_folder)[0] == 74
    assert refused(capsys, "plot")[0] == 64
    assert refused(capsys, "theory", "--mdps", 0)[0] == 64
    assert refused(capsys, "study", "nothing.json")[0] == 66


def test_list_names_algorithms_and_tasks(capsys):
    main(["list"])
    out = capsys.readouterr().out
    for name, algorithm in REGISTRY.items():
        assert re.search(rf"^ {name} +{algorithm.title}: {re.escape(algorithm.summary)}", out, re.MULTILINE)
    assert "HalfCheetah-v5" in out


def test_a_run_whose_environment_is_unknown_here_is_not_made_from_its_file(capsys, empty_folder, trained):
    shutil.copytree(trained, "run")
    spec = json.loads((empty_folder / "run" / "spec.json").read_text())
    (empty_folder / "run" / "spec.json").write_text(json.dumps({**spec, "env": "os:CartPole-v1"}))
    code, errors = refused(capsys, "resume", "run")
    assert code == 64
    assert "'os:CartPole-v1' is not registered with Gymnasium here" in errors


@pytest.mark.parametrize("first", [True, False])
def test_the_defaults_of_an_environment_do_not_depend_on_where_it_stands(empty_folder, first):
    pytest.importorskip("mujoco", reason="no MuJoCo")
    flags = ["--algo", "ppo", "--total-timesteps", "96", *TINY, "--no-tensorboard", "--out", "run"]
    main(["train", "Reacher-v5", *flags] if first else ["train", *flags, "Reacher-v5"])
    spec = json.loads((empty_folder / "run" / "spec.json").read_text())
    assert spec["env"] == "Reacher-v5"
    assert spec["common"]["reset_each_batch"] is True


@pytest.mark.parametrize("order", [("HalfCheetah-v5", "--algo", "toppo"), ("--algo", "toppo", "HalfCheetah-v5")])
def test_help_shows_the_defaults_of_the_environment(order, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    flat = re.sub(r"[\s│|]+", " ", help_of(capsys, "train", *order, "--preset", "paper"))
    line = help_texts(Common)["reset_each_batch"]
    assert f"{line} (default: True)" in flat


@pytest.mark.parametrize("command", COMMANDS)
def test_help_fits_80_columns(capsys, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "80")
    assert max(map(len, help_of(capsys, command).splitlines())) <= 80


@pytest.mark.parametrize("command", COMMANDS)
def test_the_usage_names_the_arguments_and_leaves_the_options_to_the_text_below(capsys, command):
    assert re.fullmatch(rf"usage: toppo {command} \[OPTIONS\]( [A-Z]+)*", help_of(capsys, command).splitlines()[0])


def test_help_has_colours_on_a_terminal_and_nowhere_else(capsys):
    shown = on_a_terminal("card", "--help")
    assert shown.startswith("usage: toppo card [OPTIONS] RUN\r\n")
    assert "\x1b[" in shown
    assert "\x1b" not in help_of(capsys, "card")
