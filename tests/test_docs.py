"""What the documentation says exists, and what exists is documented."""

import ast
import dataclasses
import importlib.util
import json
import re
import shlex
from itertools import pairwise
from pathlib import Path

import pytest

from toppo.algos import REGISTRY
from toppo.algos.settings import Common
from toppo.cli import COMMANDS, main

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def logged(folder: Path) -> dict[str, set[str]]:
    names: dict[str, set[str]] = {"metrics.jsonl": set(), "episodes.jsonl": set(), "timing.jsonl": set()}
    runs = {
        "toppo": [],
        "geppo": ["--eps-vary"],
        "trpo": ["--ent-coef", "[[0, 0.01], [1, 0]]"],
        "disc": [],
    }  # between them they log every name
    for algo, own in runs.items():
        small = "--preset paper --n-steps 256 --warmup-steps 256 --hidden 8 --n-epochs 2 --n-minibatches 4"
        flags = ["--total-timesteps", "1024", "--workers", "0", "--no-tensorboard", "--out", str(folder / algo)]
        main(["train", "Pendulum-v1", "--algo", algo, *own, *small.split(), *flags])
        for name, found in names.items():
            for line in (folder / algo / name).read_text().splitlines()[1:]:
                found |= set(json.loads(line))
    return names


def test_every_logged_name_is_documented_and_every_documented_name_is_logged(tmp_path):
    text, found = (ROOT / "docs" / "metrics.md").read_text(), logged(tmp_path)
    sections = dict(zip(*[iter(re.split(r"^## (.*)$", text, flags=re.MULTILINE)[1:])] * 2, strict=True))
    for file, names in found.items():
        documented = set(re.findall(r"^\| `([^`]+)` \|", sections[file], re.MULTILINE))
        assert documented == names, file


@pytest.mark.parametrize("algo", REGISTRY)
def test_the_settings_on_an_algorithms_page_are_those_of_the_code(algo):
    def shown(value):
        return f"{value:.4g}" if type(value) is float else json.dumps(value) if type(value) is bool else str(value)

    text = (ROOT / "docs" / "algorithms" / f"{algo}.md").read_text().partition("## Settings")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*) \|$", text.replace("\\|", "!"), re.MULTILINE)
    settings = dataclasses.fields(REGISTRY[algo].config)
    assert rows == [(f.name, shown(f.default), f.metadata["help"].replace("|", "!")) for f in settings]
    others = dict(re.findall(r"`(\w+)` = ([\w.-]+\w)", text))
    assert {name: json.loads(value) for name, value in others.items()} == REGISTRY[algo].common


def test_the_page_of_settings_has_every_shared_setting():
    def shown(value):
        if isinstance(value, tuple):
            return " ".join(map(str, value)) or "none"
        return json.dumps(value) if type(value) is bool else f"{value:.4g}" if type(value) is float else str(value)

    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*) \|$", (ROOT / "docs" / "settings.md").read_text(), re.MULTILINE)
    expected = [(f.name, shown(f.default), f.metadata["help"]) for f in dataclasses.fields(Common)]
    assert rows[: len(expected)] == expected


def test_the_config_file_on_the_page_of_settings_is_read(tmp_path, capsys):
    text = (ROOT / "docs" / "settings.md").read_text()
    (tmp_path / "mine.yaml").write_text(re.search(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)[1])
    main(["train", "--config", str(tmp_path / "mine.yaml"), "--print-config"])
    printed = json.loads(capsys.readouterr().out)
    assert (printed["algo"], printed["common"]["gamma"], printed["common"]["hidden"]) == ("ppo", 0.9, [32, 32])
    assert printed["config"]["clip_range"] == [[0.0, 0.2], [1.0, 0.1]]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_every_name_that_a_page_points_to_is_in_that_file(page):
    for file, name, field in re.findall(r"`([\w/]+\.py): (\w+)(?:\.(\w+))?`", page.read_text()):
        tree = ast.parse((ROOT / "src" / "toppo" / file).read_text())
        found = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        assert name in found, f"{file}: {name}"
        if field:
            fields = {node.target.id for node in found[name].body if isinstance(node, ast.AnnAssign)}
            assert field in fields, f"{file}: {name}.{field}"


def commands_in(page: Path) -> list[str]:
    """`toppo ...` in code blocks and in lines of text."""
    text = page.read_text()
    blocks = re.findall(r"^```[a-z]*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    lines = [line.strip().removeprefix("$ ") for block in blocks for line in block.splitlines()]
    lines += [re.sub(r"\s+", " ", code) for code in re.findall(r"`([^`]+)`", prose)]
    lines += re.findall(r"^ {4}(toppo .*)$", prose, re.MULTILINE)
    return [re.split(r"\s{2,}|\s#", line)[0] for line in lines if re.match(r"(\.venv/bin/)?toppo\s", line)]


COMMAND_LINES = [(page.relative_to(ROOT).as_posix(), line) for page in PAGES for line in commands_in(page)]


def known_flags(capsys, monkeypatch, command: str, algo: str) -> set[str]:
    monkeypatch.setenv("COLUMNS", "300")
    with pytest.raises(SystemExit) as leave:
        main([command, *(["Pendulum-v1", "--algo", algo] if command == "train" else []), "--help"])
    assert leave.value.code == 0
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", capsys.readouterr().out)) | {"--help"}


@pytest.mark.parametrize(("page", "line"), COMMAND_LINES, ids=lambda x: x[:60])
def test_every_documented_command_exists(capsys, monkeypatch, page, line):
    words = shlex.split(line)[1:]
    if words == ["--help"] or words == ["--version"] or words == ["COMMAND", "--help"]:
        return
    assert words[0] in COMMANDS
    flags = [w.split("=")[0] for w in words if w.startswith("--")]
    algo = next((b for a, b in pairwise(words) if a == "--algo"), "toppo")
    known = known_flags(capsys, monkeypatch, words[0], "toppo" if algo.isupper() else algo)
    assert set(flags) <= known


def test_the_readme_shows_every_command():
    assert {line.split()[1] for page, line in COMMAND_LINES if page == "README.md"} == set(COMMANDS)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_every_link_to_a_file_leads_somewhere(page):
    targets = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_the_readme_fits_three_screens():
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 90
    assert max(map(len, lines)) <= 160


def test_every_command_is_found_in_a_page(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "Type `toppo list`.\n```\ntoppo train X --n-steps 3    # so\n$ toppo resume RUN\n```\n`toppo`, toppo trains\n"
    )
    assert commands_in(page) == ["toppo train X --n-steps 3", "toppo resume RUN", "toppo list"]


def load_example(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, path.stem)  # every example has a function of its own name that takes the number of steps


def test_the_quickstart_solves_its_task():
    assert min(load_example(ROOT / "examples" / "quickstart.py")()) > 475


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.name)
def test_examples_run(path, tmp_path, monkeypatch):
    if path.name == "demo.py":
        pytest.importorskip("mujoco", reason="no MuJoCo")
    if path.name == "third_party.py":
        pytest.importorskip("minigrid", reason="no MiniGrid")
    if path.name == "one_of_two_players.py":
        pytest.importorskip("pettingzoo", reason="no PettingZoo")
    monkeypatch.chdir(tmp_path)
    load_example(path)(20_480 if path.name == "demo.py" else 2048)  # an episode of HalfCheetah has 1000 steps


FIRST_PAGES = ["index", "first-agent", "own-environment", "from-stable-baselines3", "callbacks"]


@pytest.mark.parametrize("page", FIRST_PAGES)
def test_the_python_of_the_first_pages_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / f"{page}.md").read_text(), re.MULTILINE | re.DOTALL)
    shown = "\n".join(block for block in blocks if "stable_baselines3" not in block)
    assert "import toppo" in shown
    if "wandb" in shown:
        pytest.importorskip("wandb", reason="no W&B")
        monkeypatch.setenv("WANDB_MODE", "offline")
    code = re.sub(r"(learn\(\s*)[\d_]+", r"\g<1>2048", shown).replace("steps = 40_000", "steps = 4096")
    exec(code, {"observation": [0.0, 0.0, 0.0, 0.0], "__name__": page})


def test_there_are_examples():
    assert {"quickstart.py", "own_environment.py"} <= {p.name for p in EXAMPLES}
