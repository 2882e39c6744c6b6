"""A console that may lose its reader."""

import os
import sys

from rich.console import Console


class Terminal(Console):
    """A console that falls silent when nobody reads it any more, instead of ending what it tells of."""

    def on_broken_pipe(self) -> None:
        """The other end of the pipe is closed."""
        mute()


def mute() -> None:
    """Send what this process still says to nobody."""
    nobody = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nobody, sys.stdout.fileno())
    os.close(nobody)
