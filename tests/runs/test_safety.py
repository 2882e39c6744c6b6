"""Nothing in the package may execute what a file holds."""

import ast
from pathlib import Path

import pytest

import toppo

SOURCES = sorted(Path(toppo.__file__).parent.rglob("*.py"))
MODULES = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "marshal", "shelve", "joblib", "code", "runpy"}
MODULES |= {"multiprocessing", "copyreg", "imp", "zipimport"}  # the first pickles what passes between processes
FROM_FILES = {
    "spec_from_file_location",
    "module_from_spec",
    "exec_module",
    "SourceFileLoader",
    "run_path",
    "load_module",
}
BUILTINS = {"eval", "exec", "compile", "__import__"}
METHODS = {("yaml", name) for name in ("load", "load_all", "full_load", "unsafe_load", "unsafe_load_all")}
METHODS |= {("os", "system"), ("os", "popen"), ("torch", "load")}


def faults(source: str) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [a.name for a in node.names if a.name.split(".")[0] in MODULES]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [node.module] if node.module.split(".")[0] in MODULES else []
        elif isinstance(node, ast.Call):
            found += called(node)
        elif isinstance(node, ast.Attribute) and node.attr in FROM_FILES:
            found.append(node.attr)
        if isinstance(node, ast.ImportFrom):
            found += [a.name for a in node.names if a.name in FROM_FILES]
    return found


def called(node: ast.Call) -> list[str]:
    name = node.func
    found = []
    if isinstance(name, ast.Name) and name.id in BUILTINS:
        found.append(name.id)
    if isinstance(name, ast.Attribute) and isinstance(name.value, ast.Name) and (name.value.id, name.attr) in METHODS:
        found.append(f"{name.value.id}.{name.attr}")
    for keyword in node.keywords:
        value = getattr(keyword.value, "value", True)
        if keyword.arg in ("allow_pickle", "shell") and value is not False:
            found.append(str(keyword.arg))
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(SOURCES[0].parent)))
def test_no_module_can_execute_data(path):
    assert faults(path.read_text()) == []


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from cloudpickle import loads",
        "import marshal as m",
        "eval('1')",
        "exec(x)",
        "yaml.load(f)",
        "np.load(f, allow_pickle=True)",
        "np.load(f, allow_pickle=flag)",
        "subprocess.run(c, shell=True)",
        "def f():\n    import dill",
        "importlib.util.spec_from_file_location('a', path)",
        "from importlib.machinery import SourceFileLoader",
        "from multiprocessing import Queue",
        "yaml.unsafe_load(f)",
        "yaml.full_load(f)",
    ],
)
def test_the_search_finds_what_it_is_for(source):
    assert faults(source)


def test_imports_by_name_are_of_our_commands_trackers_adapters_and_of_a_function_that_the_user_gave():
    users = [p.relative_to(SOURCES[0].parent).as_posix() for p in SOURCES if "import_module" in p.read_text()]
    assert users == ["cli/__init__.py", "envs/source.py", "jaxenvs/__init__.py", "tracking/__init__.py"]
