"""The site: it builds, every page is in it, every link leads somewhere, and it needs no network."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import numpy as np
import pytest
import yaml

import toppo
from tests.support.chromium import opened, screenshot
from toppo.algos import REGISTRY
from toppo.cli import COMMANDS

ROOT = Path(__file__).parent.parent
CONFIG = ROOT / "docs" / "site" / "mkdocs.yml"


def pages_of(entry):
    if isinstance(entry, str):
        return [entry]
    parts = entry if isinstance(entry, list) else entry.values()
    return [page for part in parts for page in pages_of(part)]


def test_every_page_notebook_and_example_is_in_the_navigation_once():
    pages = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]
    pages += [f"notebooks/{path.stem}.md" for path in (ROOT / "docs").rglob("*.ipynb")]
    pages += [f"examples/{path.stem}.md" for path in (ROOT / "examples").iterdir() if path.suffix in (".py", ".mjs")]
    listed = pages_of(yaml.safe_load(CONFIG.read_text())["nav"])
    assert sorted(listed) == sorted([*pages, "contributing.md", "changelog.md"])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("mkdocs", reason="no MkDocs")
    folder = tmp_path_factory.mktemp("docs")
    script = ROOT / "docs" / "site" / "build.py"
    done = subprocess.run([sys.executable, script, folder], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


class Targets(HTMLParser):
    """What a page loads by itself, where it leads, and the places in it that a link can name."""

    def __init__(self, path):
        super().__init__()
        self.loads, self.links, self.places = [], [], set()
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.places |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif target := given.get("src") or (tag == "link" and given.get("href")):
            self.loads.append(target)


@pytest.fixture(scope="module")
def pages(site):
    return {path.resolve(): Targets(path) for path in site.rglob("*.html") if path.name != "404.html"}


def test_every_link_and_picture_of_the_built_pages_exists(pages):
    assert len(pages) > 40
    for path, page in pages.items():
        for target in page.loads + page.links:
            parts = urlsplit(target)
            if parts.scheme in ("http", "https", "data", "mailto"):
                continue
            found = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert found.exists(), f"{path.name}: {target}"
            if parts.fragment and found in pages:
                assert unquote(parts.fragment) in pages[found].places | {"__top"}, f"{path.name}: {target}"


def test_nothing_is_loaded_from_elsewhere(site, pages):
    for path, page in pages.items():
        assert [target for target in page.loads if re.match(r"(https?:)?//", target)] == [], path
    for path in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import )[\"']?(https?:)?//", path.read_text()), path


def test_every_command_and_every_public_name_is_on_its_page(site):
    commands = Targets(site / "commands.html")
    assert commands.places >= {f"toppo-{name}" for name in COMMANDS}
    assert "--total-timesteps" in (site / "commands.html").read_text()
    api = Targets(site / "api.html")
    assert api.places >= {f"toppo{name.lower()}" for name in toppo.__all__ if name != "Agent"}
    public = [name for name in vars(toppo.Agent) if not name.startswith("_") and name != "algo"]
    assert api.places >= {f"agent{name}" for name in public}
    text = (site / "api.html").read_text()
    for algorithm in REGISTRY.values():
        assert all(f"<code>{name}</code>" in text for name in (*vars(algorithm.config()), *algorithm.common))


def test_equations_are_shown_without_a_script(site):
    text = (site / "theory.html").read_text()
    assert text.count("<math ") > 100
    assert "arithmatex" not in text
    assert not re.search(r"\$[^<$]*\\[a-z]+[^<$]*\$", text)


@pytest.mark.parametrize(("page", "width"), [("index", 1280), ("index", 480), ("theory", 1280)])
def test_a_screenshot_shows_a_page(site, tmp_path, page, width):
    image = pytest.importorskip("PIL.Image", reason="no Pillow")
    picture = tmp_path / "page.png"
    screenshot(f"{(site / page).as_uri()}.html", picture, width, 900)
    pixels = np.asarray(image.open(picture).convert("L"))
    assert pixels.shape == (900, width)
    assert 0.005 < (pixels < 120)[150:].mean() < 0.5  # the ink below the bar


def test_a_browser_finds_a_word_and_asks_nobody(site, tmp_path):
    page = opened(f"{(site / 'index.html').as_uri()}?q=radius", tmp_path)
    assert re.search(r"\d+ matching documents", page.html)
    assert page.hosts == set()
