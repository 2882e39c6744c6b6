"""A headless Chromium for tests of pages; they are skipped where there is none."""

import base64
import fcntl
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
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


class Browser:
    """A window whose page can be asked while time goes by; it speaks the browser's protocol through two pipes."""

    def __init__(self, folder: Path, width: int = 1280, height: int = 900) -> None:
        commands, self._commands = os.pipe()
        self._answers, answers = os.pipe()
        high = [fcntl.fcntl(end, fcntl.F_DUPFD, 100) for end in (commands, answers)]
        flags = [flag for flag in FLAGS if "virtual-time" not in flag]
        flags += [f"--user-data-dir={folder / 'profile'}", "--remote-debugging-pipe"]

        def join() -> None:
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self._process = subprocess.Popen(
            [chromium(), *flags, "about:blank"],
            preexec_fn=join,
            pass_fds=(3, 4),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for end in (commands, answers, *high):
            os.close(end)
        self._rest = b""
        self._number = 0
        self._session: dict[str, str] = {}
        self.asked: list[str] = []  # addresses that the page asked for
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = {"sessionId": self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]}
        self._call("Network.enable")
        self._call("Page.enable")
        size = {"width": width, "height": height, "deviceScaleFactor": 1}
        self._call("Emulation.setDeviceMetricsOverride", **size, mobile=False)  # a window is never narrower than 500

    def open(self, address: str) -> None:
        self._call("Page.navigate", url=address)

    def value(self, expression: str) -> Any:
        """What JavaScript makes of an expression in the page."""
        found = self._call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def wait_for(self, expression: str, seconds: float = 60.0) -> Any:
        """Wait until an expression is true."""
        end = time.monotonic() + seconds
        while not (found := self.value(expression)):
            assert time.monotonic() < end, f"{expression} stayed {found!r}"
            time.sleep(0.05)
        return found

    def screenshot(self, picture: Path) -> None:
        picture.write_bytes(base64.b64decode(self._call("Page.captureScreenshot")["data"]))

    def close(self) -> None:
        self._process.kill()
        self._process.wait(timeout=60)
        os.close(self._commands)
        os.close(self._answers)

    def _call(self, method: str, **parameters: Any) -> Any:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters, **self._session}
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("method") == "Network.requestWillBeSent":
                self.asked.append(answer["params"]["request"]["url"])
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]

    def _next(self) -> Any:
        while b"\0" not in self._rest:
            part = os.read(self._answers, 1 << 16)
            assert part, "the browser has ended"
            self._rest += part
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)


@contextmanager
def browser(folder: Path, width: int = 1280, height: int = 900) -> Iterator[Browser]:
    """A window that is closed at the end."""
    window = Browser(folder, width, height)
    try:
        yield window
    finally:
        window.close()
