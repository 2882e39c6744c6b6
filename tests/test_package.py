"""What is installed, and what the messages advise to install."""

import email
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import metadata
from itertools import chain
from pathlib import Path

import pytest

from benchmarks.extras import CHECKS, NOTHING, install, run, use
from toppo.envs.source import EXTRAS as BY_MODULE
from toppo.errors import install_command

ROOT = Path(__file__).parent.parent
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
KNOWN_BREAKS = {"pandas", "mujoco", "mujoco-mjx"}  # pyproject.toml says why
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
    named = set()
    for path in (ROOT / "src").rglob("*.py"):
        named |= set(re.findall(r"install_command\([\"'](\w+)[\"']\)", path.read_text()))
    assert {"atari", "ray", "video"} <= named
    assert named | set(BY_MODULE.values()) <= set(EXTRAS)


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
        "src/toppo/board/board.js",
        "src/toppo/py.typed",
    } <= names
    assert not any(name.startswith(("docs/results/", ".venv")) for name in names)
    assert sdist.stat().st_size < 1_000_000


def test_the_package_page_leads_nowhere_that_only_a_clone_has(sdist):
    with zipfile.ZipFile(next(sdist.parent.glob("*.whl"))) as wheel:
        [name] = [name for name in wheel.namelist() if name.endswith("/METADATA")]
        page = email.message_from_bytes(wheel.read(name)).get_payload()
    assert re.findall(r"\]\((?!https?:|#)", page) == []
    assert "![" not in page
    assert "How runs are saved (`docs/runs.md`)" in page
    assert page.count("\n## ") == (ROOT / "README.md").read_text().count("\n## ")


def test_every_extra_is_tried_by_itself():
    assert set(CHECKS) == {NOTHING, *EXTRAS}


def test_everything_that_is_required_has_a_lower_bound_and_an_exact_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    exact = {line.partition("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().split()}
    for requirement in (*project["dependencies"], *chain.from_iterable(EXTRAS.values())):
        name = re.match(r"[\w-]+", requirement)[0].lower()
        assert name in exact or name == "trackio", requirement  # trackio needs another pillow than the rest
        assert ">=" in requirement or name == "pandas", requirement
        assert "<" not in requirement or name in KNOWN_BREAKS, f"{requirement}: an upper bound needs a known break"


def test_the_dockerfile_follows_the_rules():
    linter = shutil.which("hadolint", path=Path(sys.executable).parent)
    if linter is None:
        pytest.skip("no hadolint")
    done = subprocess.run([linter, "Dockerfile"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_the_dockerfile_installs_what_exists_and_runs_as_a_user():
    text = (ROOT / "Dockerfile").read_text()
    assert set(re.search(r"wheel\}\[([\w,]+)\]", text)[1].split(",")) <= set(EXTRAS)
    sent = {line.removeprefix("!") for line in (ROOT / ".dockerignore").read_text().split() if line[0] == "!"}
    copied = {name for line in re.findall(r"^COPY (.*) \S+$", text, re.MULTILINE) for name in line.split()}
    assert copied | {"constraints.txt"} == sent
    assert all((ROOT / name).exists() for name in sent)
    assert re.findall(r"^USER (\d+)$", text, re.MULTILINE) == re.findall(r"--uid (\d+)", text) != ["0"]
    assert 'ENTRYPOINT ["toppo"]' in text


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["*.whl", "*.tar.gz"])
def test_a_build_installs_and_trains_in_an_empty_environment(sdist, tmp_path, pattern):
    install(NOTHING, next(sdist.parent.glob(pattern)), tmp_path)
    run("python -c", tmp_path, SMOKE)
    use(NOTHING, tmp_path)
