"""What the board's server answers, and to whom."""

import json
import re
import signal
import socket
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest

from tests.support.commands import finish, start
from tests.support.curves import run_directory
from toppo.board.board import Board
from toppo.board.server import served
from toppo.cli import main
from toppo.errors import CANNOT_CREATE, ToppoError

VIDEO = bytes(range(256)) * 1000


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = run_directory(tmp_path_factory.mktemp("runs") / "mine")
    (root / "video.mp4").write_bytes(VIDEO)
    return root


@pytest.fixture(scope="module")
def port(root):
    with served(Board(root)) as address:
        yield urlsplit(address).port


def ask(port, path="/", method="GET", **headers):
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer, answer.read()
    finally:
        connection.close()


def test_the_page_and_its_files_are_served_with_a_strict_policy(port):
    answer, page = ask(port)
    assert answer.status == 200
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    scripts = re.findall(r'(?:src|href)="(/[^"]+)"', page.decode())
    assert sorted(scripts) == ["/board.css", "/board.js", "/charts.js"]
    for script in scripts:
        assert f"http://127.0.0.1:{port}{script}" in policy
        answer, _ = ask(port, script)
        assert answer.headers["Content-Type"].startswith("text/css" if script.endswith("css") else "text/javascript")
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert not re.search(r"<script(?! src)|\son\w+=|\sstyle=|https?:", page.decode())


def test_the_data_are_sent_once(port):
    answer, body = ask(port, "/data")
    found = json.loads(body)
    assert (found["title"], found["runs"][0]["steps"], found["metric"]) == ("mine", 1000, "return")
    digest = answer.headers["X-Digest"]
    answer, body = ask(port, f"/data?seen={digest}")
    assert (answer.status, body) == (204, b"")
    answer, body = ask(port, f"/data?metric=memory%2Fsize&seen={digest}")
    assert json.loads(body)["metric"] == "memory/size"


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost:80:80", "127.0.0.1:x", "", "a b"]
)
@pytest.mark.parametrize("path", ["/", "/data", "/board.js"])
def test_a_page_of_another_name_gets_nothing(port, host, path):
    answer, body = ask(port, path, Host=host)
    assert (answer.status, body) == (403, b"")


@pytest.mark.parametrize("host", ["localhost", "localhost:9000", "127.0.0.1:1"])
def test_the_names_of_this_machine_are_served_behind_any_port(port, host):
    assert ask(port, "/", Host=host)[0].status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "HEAD", "PATCH", "CONNECT", "NONSENSE"])
def test_only_get_is_answered(port, method):
    answer, body = ask(port, "/", method=method)
    assert (answer.status, body) == (501, b"")


@pytest.mark.parametrize(
    "path",
    [
        "/spec.json",
        "/video.mp4",
        "/../spec.json",
        "/%2e%2e/spec.json",
        "/board.js/../../spec.json",
        "//etc/passwd",
        "/video/",
        "/video/../spec.json",
        "/video/video.mp4",
        "/video/%2fetc%2fpasswd",
        "/board.html",
        "/server.py",
        "/<script>",
        "/[",
        "//[",
    ],
)
def test_no_part_of_an_address_becomes_a_path(port, path):
    answer, body = ask(port, path)
    assert (answer.status, body) in ((404, b""), (400, b""))


def video_of(port):
    return "/video/" + json.loads(ask(port, "/data")[1])["runs"][0]["video"]


@pytest.mark.parametrize(
    ("asked", "status", "part"),
    [
        (None, 200, slice(None)),
        ("bytes=0-", 206, slice(None)),
        ("bytes=100-199", 206, slice(100, 200)),
        ("bytes=255990-999999999", 206, slice(255_990, None)),
        ("bytes=-5", 200, slice(None)),
        ("bytes=256000-", 416, slice(0, 0)),
        ("bytes=9-3", 416, slice(0, 0)),
    ],
)
def test_a_video_is_sent_in_the_parts_that_a_browser_asks_for(port, asked, status, part):
    answer, body = ask(port, video_of(port), **({"Range": asked} if asked else {}))
    assert (answer.status, body) == (status, VIDEO[part])
    if status == 206:
        first, last, _ = part.indices(len(VIDEO))
        assert answer.headers["Content-Range"] == f"bytes {first}-{last - 1}/{len(VIDEO)}"
    if status != 416:
        assert answer.headers["Content-Type"] == "video/mp4"


def test_a_video_that_has_become_a_link_is_not_sent(root, port):
    address = video_of(port)
    (root / "video.mp4").rename(root / "kept")
    (root / "video.mp4").symlink_to("/etc/passwd")
    try:
        assert ask(port, address)[0].status == 404
    finally:
        (root / "kept").rename(root / "video.mp4")


def test_a_directory_that_goes_away_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr("toppo.board.board.SECONDS_BETWEEN_LOOKS", 0.0)
    root = run_directory(tmp_path / "a")
    with served(Board(root)) as address:
        root.rename(tmp_path / "b")
        _, body = ask(urlsplit(address).port, "/data")
    assert json.loads(body) == {"error": f"{root} is not a directory: name one with runs or curves"}


def test_the_board_listens_on_this_machine_alone(root, monkeypatch):
    bound = []
    bind = socket.socket.bind
    monkeypatch.setattr(socket.socket, "bind", lambda self, address: bound.append(address) or bind(self, address))
    with served(Board(root)):
        assert bound == [("127.0.0.1", 0)]


def test_a_port_that_is_taken_is_one_sentence(root, port):
    with pytest.raises(ToppoError, match=rf"^port {port} cannot be used \(.*\): leave out --port$") as refusal:
        served(Board(root), port).__enter__()
    assert refusal.value.code == CANNOT_CREATE


@pytest.mark.parametrize("port", ["0", "-1", "65536", "many"])
def test_a_port_that_is_none_is_one_sentence(root, port, capsys):
    with pytest.raises(SystemExit) as leave:
        main(["board", str(root), "--port", port])
    assert leave.value.code == 64
    assert capsys.readouterr().err.startswith(
        f"toppo: --port is {port!r}" if port == "many" else f"toppo: --port is {port}"
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_closes_the_board_with_its_exit_code(root, number):
    process = start("board", root)
    line = process.stdout.readline()
    port = urlsplit(re.search(r"http://\S+", line)[0]).port
    assert ask(port)[0].status == 200
    process.send_signal(number)
    code, out, err = finish(process)
    assert (code, out, err) == (128 + number, "", "")
    with pytest.raises(ConnectionRefusedError):
        ask(port)


def test_a_directory_without_runs_is_refused(tmp_path, capsys):
    with pytest.raises(SystemExit) as leave:
        main(["board", str(tmp_path)])
    assert leave.value.code == 66
    assert capsys.readouterr().err == f"toppo: there is no run in {tmp_path}: name a run directory or a study\n"
