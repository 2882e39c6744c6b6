"""The help of every command as Markdown, from the command line itself."""

import os
from contextlib import redirect_stdout, suppress
from io import StringIO

from toppo.cli import COMMANDS, main

WIDTH = "88"


def commands() -> str:
    """One section per command with its line of text and its help."""
    sections = [f"```text\n{_printed(['--help'])}```"]
    for name, command in COMMANDS.items():
        sections.append(f"## toppo {name}\n\nThis is the command to {command.text}.\n\n{_block(name)}")
    return "\n\n".join(sections)


def _block(name: str) -> str:
    return f"```text\n{_printed([name, '--help'])}```"


def _printed(words: list[str]) -> str:
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = WIDTH
    try:
        with redirect_stdout(StringIO()) as screen, suppress(SystemExit):
            main(words)
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before
    return "\n".join(line.rstrip() for line in screen.getvalue().strip("\n").splitlines()) + "\n"
