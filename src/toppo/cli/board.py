"""``toppo board``: a live page about a run or a study."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from toppo.cli.flags import flag, parse
from toppo.display.console import Terminal
from toppo.errors import ToppoError
from toppo.runs.signals import stop_request

SECONDS_BETWEEN_CHECKS = 0.1


@dataclass(frozen=True, kw_only=True)
class BoardFlags:
    """Serve a live page about a run or a study on this machine; Ctrl-C closes it."""

    folder: Annotated[Path, flag("Run directory, study, or a directory with several runs.", "RUN")]
    port: Annotated[int | None, flag("Port of the page (default: a free one).", "INT")] = None


def board(arguments: list[str]) -> None:
    """Serve a page until a signal closes it."""
    from toppo.board.board import Board
    from toppo.board.server import served
    from toppo.runs.spec import default_settings

    given = parse("board", BoardFlags, arguments)
    if given.port is not None and not 1 <= given.port <= 65_535:
        raise ToppoError(f"--port is {given.port}, but must be from 1 to 65535; without it, toppo takes a free one")
    console = Terminal()
    with stop_request() as request, served(Board(given.folder, default_settings), given.port or 0) as address:
        console.say(f"{given.folder}: {address}  Ctrl-C closes it")
        while request.signal is None:
            time.sleep(SECONDS_BETWEEN_CHECKS)
    raise SystemExit(128 + request.signal)
