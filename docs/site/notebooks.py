"""A notebook as Markdown: its text, its code, and what it printed and drew."""

import json
from pathlib import Path
from typing import Any


def page_of(path: Path) -> str:
    """The cells in order, with a link to the notebook itself."""
    cells = json.loads(path.read_text())["cells"]
    parts = [part for cell in cells for part in _parts(cell)]
    heading, *others = parts
    return "\n\n".join([heading, f"[Download this notebook]({path.name})", *others]) + "\n"


def _parts(cell: dict[str, Any]) -> list[str]:
    text = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return [text]
    return [f"```python\n{text}\n```", *(_output(output) for output in cell["outputs"])]


def _output(output: dict[str, Any]) -> str:
    data = output.get("data", {})
    if "image/png" in data:
        return f"![output of the cell above](data:image/png;base64,{''.join(data['image/png']).strip()})"
    text = "".join(output["text"] if "text" in output else data["text/plain"])
    return f"```text\n{text.rstrip()}\n```"
