"""A console whose reader may leave, a live view on it, and times as people read them."""

import os
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, ConsoleRenderable, RenderableType, RenderHook
from rich.control import Control
from rich.live import Live
from rich.segment import ControlType, Segment


class Terminal(Console):
    """A console that falls silent when its reader has gone, so that a run or a study continues."""

    def say(self, text: str) -> None:
        """Print text without markup or colours; a terminal gets lines that end between words."""
        try:
            self.print(self.at_words(text), markup=False, highlight=False, soft_wrap=True)
        except OSError:  # the terminal has gone
            mute()

    def at_words(self, text: str, end: str = "") -> str:
        """Break long lines between words for a terminal, which would break inside them; ``end`` closes a broken one."""
        return at_words(text, self.width, end) if self.is_terminal else text

    def on_broken_pipe(self) -> None:
        """Discard all further output."""
        mute()


def at_words(text: str, width: int, end: str = "") -> str:
    """Break lines longer than ``width`` between words; what follows is indented, and ``end`` closes a broken line."""

    def broken(line: str) -> str:
        indent = " " * (len(line) - len(line.lstrip()) + 4 * bool(end))
        parts = textwrap.wrap(
            line, width - len(end), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )
        return f"{end}\n".join(parts)

    return "\n".join(broken(line) if len(line) > width else line for line in text.splitlines())


def mute() -> None:
    """Discard what this process prints from now on."""
    nobody = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nobody, sys.stdout.fileno())
    os.close(nobody)


@contextmanager
def live_view(console: Console) -> Iterator[Live | None]:
    """A part of the terminal that is drawn again and again; None if the output is not a terminal."""
    if not console.is_terminal:
        yield None
        return
    live = Live(console=console, transient=True)
    console.push_render_hook(_Reflow(console, live))
    try:
        with live:
            yield live
    finally:
        console.pop_render_hook()


class _Reflow(RenderHook):
    """Erases the rows that a terminal adds when it becomes narrower and breaks the lines of the live view.

    ``Live`` itself moves the cursor up by the rows that it has drawn, and would leave the others where they are.
    """

    def __init__(self, console: Console, live: Live) -> None:
        self._console = console
        self._live = live
        self._widths: list[int] = []  # of the lines that were drawn last

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        """Go up by the rows that were added, and note what is drawn now."""
        if not self._console.is_interactive:
            return renderables
        columns = max(1, self._console.width)
        added = sum((width - 1) // columns for width in self._widths if width)
        lines = self._console.render_lines(self._live.renderable, pad=False)
        self._widths = [Segment.get_line_length(line) for line in lines[: self._console.height]]
        up = ((ControlType.CURSOR_UP, 1), (ControlType.ERASE_IN_LINE, 2))
        return [Control(*up * added), *renderables]


class PacedView:
    """Work that takes long: drawn again every second on a terminal, and told in a line every minute elsewhere."""

    SECONDS_BETWEEN_DRAWINGS = 1.0
    SECONDS_BETWEEN_LINES = 60.0

    def __init__(self, console: Terminal, live: Live | None) -> None:
        self.console = console
        self.live = live
        self.began = time.monotonic()
        self._next_look = self.began
        self._next_line = self.began + self.SECONDS_BETWEEN_LINES

    def say(self, text: str) -> None:
        """Print a line after the time since the beginning."""
        self.console.say(f"[{clock(time.monotonic() - self.began)}] {text}")

    def is_due(self) -> bool:
        """Tell whether it is time to look at the work again."""
        now = time.monotonic()
        if now < self._next_look:
            return False
        self._next_look = now + self.SECONDS_BETWEEN_DRAWINGS
        return True

    def show(self, drawing: Callable[[], RenderableType], line: Callable[[], str]) -> None:
        """Draw the work, or print a line if it is time."""
        now = time.monotonic()
        if self.live:
            self.live.update(drawing())
        elif now >= self._next_line:
            self._next_line = now + self.SECONDS_BETWEEN_LINES
            self.say(line())


def clock(seconds: float) -> str:
    """[hours:]minutes:seconds"""
    hours, rest = divmod(round(seconds), 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"
