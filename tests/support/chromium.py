"""A headless Chromium for tests of pages; they are skipped where there is none."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--virtual-time-budget=8000",
]


class Page(NamedTuple):
    """What a browser makes of an address."""

    html: str  # after its scripts have run
    hosts: set[str]  # that the page asked for anything


def chromium() -> str:
    """The browser; the test is skipped where there is none."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    pytest.skip("no Chromium")


def opened(address: str, folder: Path) -> Page:
    """Open an address, and record whom the page asks for anything."""
    log = folder / "net-log.json"
    html = _run(folder, f"--log-net-log={log}", "--dump-dom", address)
    return Page(html, set(_hosts(json.loads(log.read_text()))))


def screenshot(address: str, picture: Path, width: int, height: int) -> None:
    """Save what a window of this size shows."""
    _run(picture.parent, f"--window-size={width},{height}", f"--screenshot={picture}", address)


def _run(folder: Path, *words: str) -> str:
    command = [chromium(), *FLAGS, f"--user-data-dir={folder / 'profile'}", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout


def _hosts(log: dict) -> Iterator[str]:
    for event in log["events"]:
        asked = event.get("params", {})
        address = urlsplit(str(asked.get("url", "")))
        by_the_page = asked.get("initiator", "not an origin") != "not an origin"  # the browser asks for itself too
        if by_the_page and address.scheme in ("http", "https", "ws", "wss"):
            yield address.hostname or ""
