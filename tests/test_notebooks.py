"""The notebooks run from their first cell to their last in a real kernel, and are kept with what they showed."""

import json
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parent.parent / "docs" / "notebooks").glob("*.ipynb"))


def test_there_are_notebooks():
    assert {path.stem for path in NOTEBOOKS} == {"first_agent", "compare_algorithms"}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
@pytest.mark.filterwarnings("ignore")  # those of the kernel's own libraries
def test_a_notebook_runs(path, tmp_path, monkeypatch):
    client = pytest.importorskip("nbclient", reason="no nbclient")
    pytest.importorskip("ipykernel", reason="no ipykernel")
    import nbformat

    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(path, as_version=4)
    client.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    kept = json.loads(path.read_text())["cells"]
    assert [kinds(cell) for cell in notebook.cells] == [kinds(cell) for cell in kept]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_notebook_is_small_and_names_no_place(path):
    text = path.read_text()
    assert len(text) < 100_000
    assert "/work/" not in text
    assert "/tmp" not in text


def kinds(cell) -> list[str]:
    """What a cell shows: text and pictures."""
    return [kind for output in cell.get("outputs", []) for kind in sorted(output.get("data", {"text": ""}))]
