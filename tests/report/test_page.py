"""The report's page: what an untrusted directory cannot do to it, and what a browser says of it."""

import json
import os
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.support.curves import curve, run_directory, study_curves
from toppo.errors import NO_INPUT, ToppoError
from toppo.plotting import QUICK_RUN, to_svg
from toppo.report.compare import groups_of
from toppo.report.figures import curves_figure
from toppo.report.load import load
from toppo.report.page import About, render, sections_of, write_report

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PAYLOADS = [
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "' onmouseover='alert(1)",
    "javascript:alert(1)",
    "<a href='javascript:alert(1)'>x</a>",
    "{{ 7 * 7 }}{% for x in y %}",
    "${7*7} $\\frac{1}{0$ $$ \\n",
    "</svg></figure><iframe src='//evil.example'>",
    "<style>*{display:none}</style>",
    "<!-- -->]]>&lt;&amp;&#60;",
    "\x00\x01\x1b[31m\x7f\u202egnp.exe\ufeff\ud7ff",
    "../../../etc/passwd",
    "🦀" * 40,
    "<img/src/onerror=alert(1)>",
    "<IMG SRC=javascript:alert(1)>",
    "<body onload=alert(1)>",
    "<input autofocus onfocus=alert(1)>",
    "<details open ontoggle=alert(1)>",
    "<video><source onerror=alert(1)>",
    "<math><mtext><script>alert(1)</script></mtext></math>",
    "<svg><animate onbegin=alert(1) attributeName=x dur=1s>",
    "<svg><a xlink:href='javascript:alert(1)'><text>x</text></a></svg>",
    "<svg><use href='data:image/svg+xml,<svg id=x onload=alert(1)>#x'/></svg>",
    "<object data='data:text/html,<script>alert(1)</script>'></object>",
    "<embed src='//evil.example/x.swf'>",
    "<link rel=stylesheet href='//evil.example/x.css'>",
    "<meta http-equiv=refresh content='0;url=//evil.example'>",
    "<base href='//evil.example/'>",
    "<form action='//evil.example'><button>x</button></form>",
    "<template><script>alert(1)</script></template>",
    "<noscript><p title='</noscript><img src=x onerror=alert(1)>'>",
    "<title></title><script>alert(1)</script>",
    "</style><script>alert(1)</script>",
    "</text></svg><script>alert(1)</script>",
    "background:url(//evil.example/x)",
    "url(//evil.example/x)",
    "&#x3C;script&#x3E;alert(1)&#x3C;/script&#x3E;",
    "\u2028\u2029</td></tr></table><h1>x</h1>",
    "x" * 1_000_000,
]
TAGS = """html head meta title style body header main h1 h2 p code ul li div figure figcaption table
thead tbody tr th td svg g path defs clippath rect use text tspan line"""


class Nodes(HTMLParser):
    """All elements, attributes and style sheets of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.styles: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += [(k, v or "") for k, v in attrs]

    def handle_data(self, data):
        if self.cdata_elem == "style":
            self.styles.append(data)


def check(page: str) -> None:
    """Nothing live, nothing fetched."""
    nodes = Nodes(page)
    assert nodes.tags <= set(re.findall(r"\w+", TAGS))
    assert not [k for k, _ in nodes.attributes if k.startswith("on") or k in ("src", "action", "srcdoc")]
    assert all(v.startswith("#") for k, v in nodes.attributes if k.endswith("href"))
    styles = [*nodes.styles, *(v for _, v in nodes.attributes)]
    assert all(m == "#" for text in styles for m in re.findall(r"url\((.)", text))
    assert "default-src 'none'" in page


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """Every payload in every text field."""
    folder = tmp_path_factory.mktemp("hostile")
    for i, bad in enumerate(PAYLOADS):
        data = curve(algo=bad, env=PAYLOADS[i % 3], seed=i)
        data["spec"]["common"] = {bad: bad, "hidden": [bad]}
        data["versions"] = {bad: bad, "jax": bad}
        (folder / f"{i}.json").write_text(json.dumps(data))
    (folder / "study-x.json").write_text(json.dumps({"runs": PAYLOADS}))
    (folder / "random.json").write_text(json.dumps({"returns": {PAYLOADS[0]: 0.0, PAYLOADS[1]: "x"}}))
    for name in ("<script>alert(1)</script>".replace("/", "_"), "a\nb<img src=x onerror=alert(1)>"):
        (folder / f"{name}.json").write_text("{")
    out = folder / "report.html"
    loaded = load(folder)
    write_report(loaded, out, About(PAYLOADS[1], f"toppo report {PAYLOADS[0]}"))
    return out, loaded.problems


def test_the_same_runs_give_the_same_page(tmp_path):
    loaded, about = load(study_curves(tmp_path)), About("x", "y")
    assert render(loaded, sections_of(loaded, "std"), about) == render(loaded, sections_of(loaded, "std"), about)


def test_every_payload_is_only_text(hostile):
    out, problems = hostile
    page = out.read_text()
    check(page)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "{{ 7 * 7 }}" in page  # no template inside the template
    assert len(page) < 3_000_000
    assert any("is left out" in p for p in problems)
    assert all("\n" not in p and "\x00" not in p for p in problems)


def test_a_page_has_all_its_parts(tmp_path):
    out = tmp_path / "page.html"
    write_report(
        load(study_curves(tmp_path / "s", seeds=5)), out, About("A study", "toppo report s", quick_run="a tenth of it")
    )
    page = out.read_text()
    check(page)
    for name in (
        *("summary", "curves", "finals", "pairs", "improvements", "aggregates", "profile", "tests", "memory"),
        "settings",
    ):
        assert f'id="{name}"' in page
    assert "toppo (5 runs)" in page
    assert "has the highest final return" in page
    assert f"{QUICK_RUN}: a tenth of it" in page
    figures = {p.name for p in (tmp_path / "page-figures").iterdir()}
    assert {"curves.png", "curves.pdf", "finals.png", "aggregates.pdf"} <= figures
    ids = [v for k, v in Nodes(page).attributes if k == "id"]
    assert len(ids) == len(set(ids))


def browse(page: Path, folder: Path) -> tuple[str, str, list[str]]:
    """What a browser makes of a page: its elements, the words on the console, and who asked the network for anything.

    The browser itself asks for things too (updates, the time); those requests have no origin, a page's have one.
    """
    log = folder / f"{page.stem}-net.json"
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}", "--dump-dom"]
    command += ["--enable-logging=stderr", "--v=0", f"--log-net-log={log}", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    return done.stdout, done.stderr, re.findall(r'"initiator":"(?!not an origin).*?"url":"([^"]+)"', log.read_text())


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")
def test_a_browser_is_content(hostile, tmp_path):
    """Loads without a word on the console and without a request; nothing of a payload became an element."""
    dom, console, asked = browse(hostile[0], tmp_path)
    assert "CONSOLE" not in console
    assert not asked
    check(dom)


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")
def test_a_page_that_asks_would_be_seen(tmp_path):
    page = tmp_path / "asks.html"
    page.write_text("<p>x</p><img src='http://evil.example/x.png'>")
    assert browse(page, tmp_path)[2] == ["http://evil.example/x.png"]


def garble(folder: Path) -> dict[str, Path]:
    """Run directories with damaged logs."""
    found = {n: run_directory(folder / n, seed=i) for i, n in enumerate(("whole", "torn", "nan", "bom", "crlf", "no"))}
    with (found["torn"] / "episodes.jsonl").open("ab") as file:
        file.write(b'{"step": 12, "ret')
    with (found["nan"] / "episodes.jsonl").open("ab") as file:
        file.write(b'{"step": 990, "return": NaN}\n{"step": "x", "return": 1}\n{"step": 5}\n[1]\n{"return": 1e999}\n')
    bom = found["bom"] / "metrics.jsonl"
    bom.write_bytes(b"\xef\xbb\xbf" + bom.read_bytes())
    crlf = found["crlf"] / "episodes.jsonl"
    crlf.write_bytes(crlf.read_bytes().replace(b"\n", b"\r\n"))
    (found["no"] / "timing.jsonl").unlink()
    return found


def test_garbled_logs_are_read_as_far_as_they_go_and_the_rest_is_named(tmp_path):
    garble(tmp_path / "runs")
    loaded = load(tmp_path / "runs")
    write_report(loaded, tmp_path / "out.html", About("x", "y"))
    assert "6 runs" not in (tmp_path / "out.html").read_text()
    assert "5 runs: toppo" in (tmp_path / "out.html").read_text()
    assert [p for p in loaded.problems if p.startswith("no is left out")]
    assert "toppo on Pendulum-v1, seed 2: episodes.jsonl has 5 lines that cannot be read" in loaded.problems
    assert not [p for p in loaded.problems if "seed 1: episodes" in p]  # a torn line is no damage


BAD_FILES = {
    "not-json": "{",
    "a-list": "[1, 2]",
    "empty": "",
    "no-grid": json.dumps({"spec": curve()["spec"], "return": [1]}),
    "short-series": json.dumps(curve() | {"return": [1.0]}),
    "grid-falls": json.dumps(curve() | {"grid": [2, 1]}),
    "grid-of-text": json.dumps(curve() | {"grid": ["a", "b"]}),
    "seed-of-text": json.dumps(curve() | {"spec": curve()["spec"] | {"seed": "x"}}),
    "deep": "[" * 100_000,
    "huge-number": json.dumps(curve()).replace("1.0", "1" + "0" * 400),
}


def test_files_that_are_no_curves_are_named_and_links_are_not_followed(tmp_path):
    folder = study_curves(tmp_path / "s")
    secret = tmp_path / "secret.json"
    secret.write_text(json.dumps(curve(env="Secret-v0")))
    for name, text in BAD_FILES.items():
        (folder / f"{name}.json").write_text(text)
    (folder / "link.json").symlink_to(secret)
    (folder / "out-of-here").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe.json")
    (folder / "null.json").symlink_to("/dev/zero")
    before = {p for p in tmp_path.rglob("*") if "report" not in p.name}
    loaded = load(folder)
    write_report(loaded, folder / "report.html", About("x", "y"))
    problems = " ".join(loaded.problems)
    for name in set(BAD_FILES) - {"huge-number"}:
        assert f"{name}.json is left out" in problems, name
    assert "not followed: 3 links (" in problems
    assert "Secret-v0" not in (folder / "report.html").read_text()
    after = {p for p in tmp_path.rglob("*") if "report" not in p.name and "report-figures" not in p.parent.name}
    assert after == before


def test_an_empty_directory_is_one_sentence(tmp_path):
    for root in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(ToppoError) as refusal:
            load(root)
        assert refusal.value.code == NO_INPUT


def test_a_figure_of_one_panel_is_narrow(tmp_path):
    for envs, kind in ((("E",), "narrow"), (("E", "F"), "wide")):
        groups = groups_of(load(study_curves(tmp_path / kind, ("toppo",), envs, seeds=1)))
        assert to_svg(curves_figure(groups), "x").startswith(f'<svg class="{kind}" ')
