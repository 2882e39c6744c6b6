"""What is installed, and what the messages advise to install."""

import json
import re
import subprocess
import sys
import tarfile
import venv
from importlib.metadata import metadata
from pathlib import Path

import pytest

from toppo.errors import install_command

ROOT = Path(__file__).parent.parent
SMOKE = "import toppo; print(toppo.PPO('CartPole-v1', n_steps=256, n_envs=1, seed=0).learn(512).evaluate(episodes=1))"


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (None, "pip install 'toppo[ray]'"),
        ({"url": "file:///a%20b/toppo", "dir_info": {"editable": True}}, "pip install -e '/a b/toppo[ray]'"),
        ({"url": "file:///toppo", "dir_info": {}}, "pip install '/toppo[ray]'"),
        ({"url": "https://host/toppo.whl", "archive_info": {}}, "pip install 'toppo[ray]'"),
    ],
)
def test_the_advice_to_install_an_extra_fits_how_toppo_was_installed(monkeypatch, origin, command):
    text = None if origin is None else json.dumps(origin)
    monkeypatch.setattr("importlib.metadata.PathDistribution.read_text", lambda self, name: text)
    assert install_command("ray") == command


def test_every_extra_that_a_message_names_exists():
    extras = set(metadata("toppo").get_all("Provides-Extra"))
    named = set()
    for path in (ROOT / "src").rglob("*.py"):
        named |= set(re.findall(r"install_command\([\"'](\w+)[\"']\)", path.read_text()))
    from toppo.envs.source import EXTRAS

    assert {"atari", "ray", "video"} <= named
    assert named | set(EXTRAS.values()) <= extras


def test_the_metadata_names_every_python_that_is_supported():
    classifiers = metadata("toppo").get_all("Classifier")
    assert [c[-4:] for c in classifiers if "Python :: 3." in c] == ["3.11", "3.12", "3.13"]


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    pytest.importorskip("build", reason="no build")
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "build", "-n", "-o", folder, ROOT], check=True, capture_output=True)
    return next(folder.glob("*.tar.gz"))


def test_the_sdist_is_small_and_has_what_a_build_needs(sdist):
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "src/toppo/report/page.html",
        "src/toppo/report/base.html",
        "src/toppo/py.typed",
    } <= names
    assert not any(name.startswith(("docs/results/", ".venv")) for name in names)
    assert sdist.stat().st_size < 1_000_000


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["*.whl", "*.tar.gz"])
def test_a_build_installs_and_trains_in_an_empty_environment(sdist, tmp_path, pattern):
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    archive = next(sdist.parent.glob(pattern))
    pip = [python, "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", archive]
    subprocess.run(pip, check=True)
    subprocess.run([python, "-m", "pip", "check"], check=True)
    subprocess.run([python, "-c", SMOKE], check=True, cwd=tmp_path)
    subprocess.run([python, "-m", "toppo", "--version"], check=True, cwd=tmp_path)
