"""Terminals: one of the system, and one that breaks its lines again when its width changes, as most do."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

CONTROL = re.compile(r"\x1b\[([\d;?]*)([A-Za-z])|([\r\n])|([^\x1b\r\n]+)")


def on_a_terminal(*arguments: str, columns: int = 80) -> str:
    """What `toppo` prints on a terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR")} | {"TERM": "xterm"}
    with subprocess.Popen([sys.executable, "-m", "toppo", *arguments], stdout=theirs, stderr=theirs, env=environment):
        os.close(theirs)
        parts = []
        try:
            while part := os.read(ours, 4096):
                parts.append(part)
        except OSError:  # the last writer has gone
            pass
    os.close(ours)
    return b"".join(parts).decode()


class ReflowingTerminal:
    """Rows of text, each with a mark if its line continues in the next row."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.rows: list[tuple[str, bool]] = [("", False)]
        self.row = 0
        self.column = 0

    def feed(self, output: str) -> None:
        for numbers, control, move, text in CONTROL.findall(output):
            if control == "A":
                self.row = max(0, self.row - int(numbers or 1))
            elif control == "K":
                self.rows[self.row] = ("", False)
            elif move == "\r":
                self.column = 0
            elif move == "\n":
                self._down()
            for letter in text:
                self._put(letter)

    def resize(self, columns: int) -> None:
        self.columns = columns
        rows = self.rows
        cursor = (self.row, self.column)
        self.rows = []
        line = ""
        offset = None  # of the cursor in its line
        for i, (text, continues) in enumerate(rows):
            if i == cursor[0]:
                offset = len(line) + cursor[1]
            line += text
            if continues:
                continue
            first = len(self.rows)
            parts = [line[at : at + columns] for at in range(0, len(line), columns)] or [""]
            self.rows += [(part, part is not parts[-1]) for part in parts]
            if offset is not None:
                self.row = first + min(max(offset - 1, 0) // columns, len(parts) - 1)
                self.column = offset - columns * (self.row - first)
                offset = None
            line = ""

    def shown(self) -> list[str]:
        return [text.rstrip() for text, _ in self.rows if text.strip()]

    def _down(self) -> None:
        self.row += 1
        self.column = 0
        if self.row == len(self.rows):
            self.rows.append(("", False))

    def _put(self, letter: str) -> None:
        if self.column == self.columns:
            self.rows[self.row] = (self.rows[self.row][0], True)
            self._down()
        text = self.rows[self.row][0].ljust(self.column)
        self.rows[self.row] = (text[: self.column] + letter + text[self.column + 1 :], False)
        self.column += 1
