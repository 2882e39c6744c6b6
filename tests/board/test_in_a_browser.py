"""The board in a real browser: it follows a real training, and a hostile directory does nothing."""

import json
import os
import re
from urllib.parse import urlsplit

import numpy as np
import pytest

from tests.support.chromium import browser, chromium
from tests.support.commands import finish, kill, start, wait_for_lines
from tests.support.curves import run_directory
from toppo.board.board import Board
from toppo.board.server import served
from toppo.rundir.layout import write_json

STEPS = "document.querySelector('.tile .value').textContent"
SHOWN = "document.querySelectorAll('#panels path').length"
PAYLOADS = [
    "<script>window.hacked=1</script>",
    "<img src=x onerror=window.hacked=1>",
    '"><svg onload=window.hacked=1>',
    "{{ 7*7 }}${window.hacked=1}",
    "javascript:window.hacked=1",
]


@pytest.fixture(autouse=True)
def _needs_a_browser():
    chromium()


def test_a_number_changes_while_a_run_trains(tmp_path):
    root = tmp_path / "run"
    small = "--total-timesteps 1e7 --n-steps 256 --n-envs 2 --warmup-steps 0 --workers 0 --evaluate-every 2000"
    training = start("train", "CartPole-v1", *small.split(), "--no-tensorboard", "--out", root)
    board = None
    try:
        assert wait_for_lines(training, root / "episodes.jsonl", 20)
        board = start("board", root)
        address = re.search(r"http://\S+", board.stdout.readline())[0]
        with browser(tmp_path, 400, 600) as window:
            window.open(address)
            window.wait_for(f"document.querySelector('.tile') && {SHOWN} > 0")
            window.value("window.scrollTo(0, 200)")
            window.value("window.same = document.querySelector('.tile .value')")
            first = window.value(STEPS)
            for _ in range(2):
                window.wait_for(f"{STEPS} !== {json.dumps(first)}")
                first = window.value(STEPS)
            assert re.fullmatch(r"[\d,]+ steps", first)
            assert window.value("window.same === document.querySelector('.tile .value')")
            assert window.value("window.scrollY") == 200
            assert window.value("document.querySelector('.live').textContent") == "live"
            window.wait_for("document.querySelectorAll('#tests tr').length > 1")
            window.value("(m => { m.value = 'train/approx_kl'; m.dispatchEvent(new Event('change')); })($('metric'))")
            window.wait_for("data.metric === 'train/approx_kl' && data.panels[0].arms[0].runs[0].points.length > 3")
            kill(training)
            window.wait_for("document.querySelector('.tile .name').textContent === 'interrupted'")
            board.send_signal(2)
            assert finish(board)[0] == 130
            window.wait_for("document.querySelector('.live').textContent === 'not connected'")
            assert hosts(window) == {urlsplit(address).netloc}
    finally:
        for process in (training, board):
            if process and process.poll() is None:
                kill(process)


def hosts(window):
    return {urlsplit(url).netloc for url in window.asked if url.startswith("http")}


def hostile(folder):
    """A directory whose every text wants to be a script, and which leads outside."""
    secret = run_directory(folder / "secret", env="Secret-v0")
    root = folder / PAYLOADS[1]
    for i, text in enumerate(PAYLOADS):
        run = run_directory(root / text.replace("/", "\u2215"), algo=text, env=text, seed=i)
        write_json(run / "status.json", {"schema": 1, "state": "failed", "message": text, "steps": 0})
        with (run / "metrics.jsonl").open("a") as file:
            file.write(json.dumps({"time/total_timesteps": 1000, text: 1.0}) + "\n")
        (run / f"{i}<img src=x onerror=window.hacked=1>.mp4").write_text("<script>window.hacked=1</script>")
        (run / "board.js").write_text("window.hacked=1")
    (root / "out").symlink_to(secret)
    (root / "damaged").mkdir()
    (root / "damaged" / "spec.json").write_text(json.dumps({"schema": PAYLOADS[0]}))
    write_json(root / "study-mine.json", {"schema": 2, "runs": [*PAYLOADS, "../../secret"], "grids": []})
    return root


def test_a_hostile_directory_does_nothing(tmp_path):
    root = hostile(tmp_path / "hostile")
    before = sorted(os.walk(root))
    with served(Board(root)) as address, browser(tmp_path) as window:
        window.open(address)
        window.wait_for(f"document.querySelector('#rows') && {SHOWN} >= {len(PAYLOADS)}")
        for name in window.value("[...$('metric').options].map(o => o.value)"):
            window.value(
                f"(m => {{ m.value = {json.dumps(name)}; m.dispatchEvent(new Event('change')); }})($('metric'))"
            )
            window.wait_for(f"data.metric === {json.dumps(name)}")
        text = window.value("document.body.textContent")
        assert all(payload in text for payload in PAYLOADS)
        assert "Secret-v0" not in text
        assert window.value("typeof window.hacked") == "undefined"
        assert window.value("document.querySelectorAll('script').length") == 2
        assert window.value("document.querySelectorAll('img, iframe, object, embed, a, form').length") == 0
        assert hosts(window) == {urlsplit(address).netloc}
        # Not even a script that has come in would run: the policy knows two files.
        window.value(
            "document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.hacked=1'}))"
        )
        window.value("document.body.append(Object.assign(document.createElement('script'), {src: $('video').src}))")
        assert window.value("new Promise(done => setTimeout(() => done(typeof window.hacked), 300))") == "undefined"
    assert sorted(os.walk(root)) == before


@pytest.mark.parametrize("width", [1280, 400])
def test_a_picture_of_the_page(tmp_path, width):
    image = pytest.importorskip("PIL.Image", reason="no Pillow")
    for seed in range(2):
        run_directory(tmp_path / "runs" / f"run-{seed}", seed=seed)
    with served(Board(tmp_path / "runs")) as address, browser(tmp_path, width) as window:
        window.open(address)
        window.wait_for(f"{SHOWN} > 2")
        window.screenshot(tmp_path / "page.png")
        assert window.value("document.documentElement.scrollWidth <= window.innerWidth")
    pixels = np.asarray(image.open(tmp_path / "page.png").convert("L"))
    assert 0.003 < (pixels < 120).mean() < 0.2
