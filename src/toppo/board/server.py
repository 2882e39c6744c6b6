"""Serves the page of a board on the loopback address.  Nothing that comes from a run directory is executed or named.

Only GET is answered, and only under the names of this machine: a page of another site whose name was bound to this
address (DNS rebinding) gets nothing.  No part of an address becomes a part of a path.
"""

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, BinaryIO
from urllib.parse import parse_qs, urlsplit

from toppo.board.board import Board
from toppo.board.watched import VIDEOS
from toppo.errors import CANNOT_CREATE, ToppoError
from toppo.report.page import templates
from toppo.rundir.files import open_regular

HERE = Path(__file__).parent
LOOPBACK = "127.0.0.1"
OWN_HOST = re.compile(r"(127\.0\.0\.1|localhost)(:\d{1,5})?")  # with any port: ssh may forward another one
RANGE = re.compile(r"bytes=(\d{1,15})-(\d{0,15})")
MAX_VIDEO_BYTES = 1_000_000_000
BLOCK = 1 << 16
SECONDS_TO_ASK = 10.0
SCRIPTS = ("/charts.js", "/board.js")
STYLE = "/board.css"
FILES = {STYLE: "text/css; charset=utf-8", **dict.fromkeys(SCRIPTS, "text/javascript; charset=utf-8")}
HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


@contextmanager
def served(board: Board, port: int = 0) -> Iterator[str]:
    """Serve the board while the block runs, on a free port if none is given; return its address."""
    try:
        server = _Server((LOOPBACK, port), _Handler)
    except (OSError, OverflowError) as error:
        why = "its number is too large" if isinstance(error, OverflowError) else str(error.strerror)
        raise ToppoError(f"port {port} cannot be used ({why}): leave out --port", CANNOT_CREATE) from error
    server.board = board
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()
    try:
        yield f"http://{LOOPBACK}:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    board: Board

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a browser that leaves in the middle is no fault, and other faults were answered."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version = "toppo"
    sys_version = ""
    timeout = SECONDS_TO_ASK

    def do_GET(self) -> None:
        """Answer with the page, its files, the data, or a video."""
        host = self.headers.get("Host", "")
        if not OWN_HOST.fullmatch(host):
            return self.send_error(HTTPStatus.FORBIDDEN)
        try:
            asked = urlsplit(self.path)
            words = {name: values[0] for name, values in parse_qs(asked.query).items()}
        except ValueError:
            return self.send_error(HTTPStatus.BAD_REQUEST)
        if asked.path == "/":
            return self._send(_page(self.server.board), "text/html; charset=utf-8")
        if asked.path in FILES:
            return self._send((HERE / asked.path[1:]).read_bytes(), FILES[asked.path])
        if asked.path == "/data":
            return self._send_data(words)
        if asked.path.startswith("/video/"):
            return self._send_video(asked.path.removeprefix("/video/"))
        return self.send_error(HTTPStatus.NOT_FOUND)

    def _send_data(self, words: dict[str, str]) -> None:
        """Send what the page shows, or nothing if the browser has seen it."""
        try:
            data = self.server.board.snapshot(words.get("metric", "return"))
        except ToppoError as error:
            data = {"error": str(error)}
        except OSError as error:
            data = {"error": f"the directory cannot be read: {error.strerror}"}
        body = json.dumps(data, allow_nan=False).encode()
        digest = sha256(body).hexdigest()[:16]
        if words.get("seen") == digest:
            return self._send(b"", "application/json", HTTPStatus.NO_CONTENT)
        return self._send(body, "application/json", extra={"X-Digest": digest})

    def _send_video(self, key: str) -> None:
        """Send the newest video of a run, or the part of it that the browser asks for."""
        video = self.server.board.video(key)
        try:
            file = open_regular(video.path, MAX_VIDEO_BYTES) if video else None
        except ToppoError:
            file = None
        if video is None or file is None:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        with file:
            self._send_part(file, VIDEOS[video.path.suffix])

    def _send_part(self, file: BinaryIO, kind: str) -> None:
        size = file.seek(0, os.SEEK_END)
        part = RANGE.fullmatch(self.headers.get("Range", ""))
        first, last = _bounds(part, size)
        if first > last:
            self.send_error(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE)
            return
        self.send_response(HTTPStatus.PARTIAL_CONTENT if part else HTTPStatus.OK)
        extra = {"Content-Range": f"bytes {first}-{last}/{size}"} if part else {}
        left = last - first + 1
        self._end_headers(kind, left, {"Accept-Ranges": "bytes", **extra})
        file.seek(first)
        while left > 0 and (block := file.read(min(BLOCK, left))):
            self.wfile.write(block)
            left -= len(block)

    def _send(
        self, body: bytes, kind: str, status: HTTPStatus = HTTPStatus.OK, extra: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        self._end_headers(kind, len(body), extra or {})
        self.wfile.write(body)

    def _end_headers(self, kind: str, size: int, extra: dict[str, str]) -> None:
        host = self.headers.get("Host", "")
        policy = [
            "default-src 'none'",
            f"script-src {' '.join(f'http://{host}{script}' for script in SCRIPTS)}",
            f"style-src http://{host}{STYLE}",
            "connect-src 'self'",
            "media-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        ]
        given = {"Content-Type": kind, "Content-Length": str(size), "Content-Security-Policy": "; ".join(policy)}
        for name, value in {**HEADERS, **given, **extra}.items():
            self.send_header(name, value)
        self.end_headers()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer with a status alone: nothing of what was asked is repeated."""
        with suppress(OSError):
            self.send_response(code)
            for name, value in {**HEADERS, "Content-Type": "text/plain", "Content-Length": "0"}.items():
                self.send_header(name, value)
            self.end_headers()

    def log_message(self, *words: Any) -> None:
        """Say nothing about what a browser asks."""


def _page(board: Board) -> bytes:
    return templates(HERE).get_template("board.html").render(title=board.title).encode()


def _bounds(part: re.Match[str] | None, size: int) -> tuple[int, int]:
    """Return the first and the last byte that a request asks for; an empty range if there are none."""
    if part is None:
        return 0, size - 1
    last = int(part[2]) if part[2] else size - 1
    return int(part[1]), min(last, size - 1)
