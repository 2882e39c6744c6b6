"""A console whose reader may leave."""

import os
import sys

from rich.console import Console


class Terminal(Console):
    """A console that falls silent when its pipe is closed, so that a run or a study continues."""

    def on_broken_pipe(self) -> None:
        """Discard all further output."""
        mute()


def mute() -> None:
    """Discard what this process prints from now on."""
    nobody = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nobody, sys.stdout.fileno())
    os.close(nobody)
