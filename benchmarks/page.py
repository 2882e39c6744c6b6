"""A benchmark's page: what it found, under docs/results, with the command that makes it again."""

import json
import sys
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent.parent / "docs" / "results"


def command() -> str:
    """The command of this process, as a reader would type it."""
    return " ".join([f"python -m benchmarks.{Path(sys.argv[0]).stem}", *sys.argv[1:]])


def write_page(name: str, title: str, lines: list[str], record: Any) -> Path:
    """Write a page and the numbers behind it, and print it; the folder is returned, for figures."""
    folder = RESULTS / name
    folder.mkdir(parents=True, exist_ok=True)
    text = "\n".join([f"# {title}", "", f"    {command()}", "", *lines]).rstrip() + "\n"
    (folder / "README.md").write_text(text)
    (folder / "results.json").write_text(json.dumps(record, indent=1) + "\n")
    print("\n" + text)
    return folder
