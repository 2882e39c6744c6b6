"""A part imports only parts below it."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import toppo

ROOT = Path(toppo.__file__).parent

# Every part of the package, and all of our own code that it may import.  CONTRIBUTING.md shows the same table.
LEARN = {"errors", "rng", "maths", "jaxenvs", "envs", "collect", "algos", "learn"}
RUNS = LEARN | {"rundir", "tracking", "callbacks", "runs"}
TABLE: dict[str, set[str]] = {
    "errors": set(),
    "rng": set(),
    "maths": set(),
    "plotting": {"rundir", "errors"},
    "display": set(),
    "theory": {"maths", "plotting", "errors"},
    "jaxenvs": {"errors"},
    "envs": {"jaxenvs", "errors"},
    "collect": {"envs", "rng", "errors"},
    "algos": {"maths"},
    "learn": LEARN,
    "rundir": {"errors"},
    "tracking": {"rundir", "errors"},
    "callbacks": {"tracking", "rundir", "errors"},
    "runs": RUNS,
    "report": {"rundir", "plotting", "errors"},
    "board": {"report", "rundir", "plotting", "errors"},
    "studies": RUNS | {"studies"},
    "tune": RUNS | {"studies", "report", "plotting", "tune"},
    "reproduce": RUNS | {"studies", "report", "plotting"},
    "hub": {"rundir", "errors"},
    "agent": RUNS | {"display", "hub"},
    "export": RUNS | {"agent", "display", "hub", "report", "plotting"},
    "cli": RUNS
    | {"agent", "display", "hub", "export", "studies", "tune", "reproduce", "report", "theory", "plotting"}
    | {"board", "__init__"},
    "__init__": {"agent"},
    "__main__": {"cli"},
}
WITHOUT_JAX = (
    "errors",
    "rng",
    "envs",
    "collect",
    "rundir",
    "report",
    "board",
    "plotting",
    "display",
    "callbacks",
    "__init__",
)


def part_of(path: Path) -> str:
    first = path.relative_to(ROOT).parts[0]
    return first.removesuffix(".py")


def typing_only(tree: ast.Module) -> set[ast.AST]:
    """What stands under ``if TYPE_CHECKING``: it is never imported."""
    found: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            found |= {inner for statement in node.body for inner in ast.walk(statement)}
    return found


def imported(source: str) -> set[str]:
    """Parts of our own code that a module imports, also inside functions."""
    tree = ast.parse(source)
    skip, parts = typing_only(tree), set()
    for node in ast.walk(tree):
        if node in skip:
            continue
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports name the package in full"
            module = node.module or ""
            names = [f"toppo.{a.name}" for a in node.names] if module == "toppo" else [module]
        for name in names:
            first, _, rest = name.partition(".")
            if first == "toppo":
                part = rest.split(".")[0]
                parts.add(part if part and known(part) else "__init__")
    return parts


def known(part: str) -> bool:
    return (ROOT / part).is_dir() or (ROOT / f"{part}.py").is_file()


MODULES = sorted(ROOT.rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_downwards(path):
    part = part_of(path)
    assert part in TABLE, f"{part} has no row in the table of layers"
    assert imported(path.read_text()) - {part} <= TABLE[part]


def test_contributing_shows_the_table():
    """A row there names parts; "and below" adds all that these may import."""
    page = (ROOT.parent.parent / "CONTRIBUTING.md").read_text()
    rows = re.findall(r"^\| `(\w+)/?` \| .* \| (.*) \|$", page, re.MULTILINE)
    for part, cell in rows:
        named = set(re.findall(r"`(\w+)`", cell))
        below = set().union(*(TABLE[name] for name in named)) if cell.endswith("and below") else set()
        assert named | below == TABLE[part] - {part}, part
    assert {part for part, _ in rows} == set(TABLE)


def test_every_folder_of_code_is_a_package():
    folders = {path.parent for folder in (ROOT, Path(__file__).parent) for path in folder.rglob("*.py")}
    assert [str(folder) for folder in sorted(folders) if not (folder / "__init__.py").is_file()] == []


def test_the_table_names_only_what_exists():
    assert [part for part in TABLE if not known(part)] == []


def test_the_table_has_no_circle():
    left = {part: set(below) - {part} for part, below in TABLE.items()}
    left["__init__"] = set()  # the front door imports the agent only when it is asked for it
    while ready := {part for part, below in left.items() if not below}:
        left = {part: below - ready for part, below in left.items() if part not in ready}
    assert left == {}


@pytest.mark.parametrize(
    ("source", "parts"),
    [
        ("import toppo.maths.moments", {"maths"}),
        ("from toppo.learn.loop import train", {"learn"}),
        ("from toppo import runs", {"runs"}),
        ("from toppo import __version__", {"__init__"}),
        ("def f():\n    from toppo.rundir.jsonl import JsonLines", {"rundir"}),
        ("if TYPE_CHECKING:\n    from toppo.maths.moments import Moments", set()),
        ("import numpy", set()),
    ],
)
def test_imports_are_found(source, parts):
    assert imported(source) == parts


def without(module: str, code: str) -> None:
    check = f"import sys\n{code}\nassert {module!r} not in sys.modules, 'imported {module}'"
    subprocess.run([sys.executable, "-c", check], check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize("part", WITHOUT_JAX)
def test_parts_that_must_start_quickly_do_not_import_jax(part):
    modules = [
        ".".join(["toppo", *p.relative_to(ROOT).with_suffix("").parts]).removesuffix(".__init__")
        for p in MODULES
        if part_of(p) == part
    ]
    without("jax", f"import {', '.join(modules)}")


def test_a_worker_process_does_not_import_jax():
    without("jax", "import toppo.collect.worker_process")


@pytest.mark.parametrize("module", ["jax", "numpy", "gymnasium", "matplotlib", "rich"])
def test_importing_the_package_and_asking_for_help_stay_light(module):
    without(module, "import toppo\nfrom toppo.cli import main\nmain(['--help'])\nmain(['--version'])")
