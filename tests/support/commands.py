"""Starting `toppo` as a real process."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

TOPPO = [sys.executable, "-m", "toppo"]


def start(*arguments: object, cwd: Path | None = None) -> subprocess.Popen[str]:
    """A process of its own, in a group of its own, whose output is kept."""
    return subprocess.Popen(
        [*TOPPO, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        cwd=cwd,
        start_new_session=True,
        env={**os.environ, "COLUMNS": "200", "TERM": "dumb"},
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=600)
    return process.returncode, out, err


def run(*arguments: object, cwd: Path | None = None) -> tuple[int, str, str]:
    """Exit code, output, errors."""
    return finish(start(*arguments, cwd=cwd))


def lines(path: Path) -> int:
    try:
        return path.read_bytes().count(b"\n")
    except FileNotFoundError:  # not yet, or not any more: a run without a checkpoint begins its logs again
        return 0


def wait_for_lines(process: subprocess.Popen[str], path: Path, count: int) -> bool:
    """Wait until the file has so many lines; False if the process ended before."""
    while lines(path) < count:
        if process.poll() is not None:
            return False
        time.sleep(0.002)
    return True


def kill(process: subprocess.Popen[str]) -> bool:
    """kill -9; was the process still there?"""
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    return process.returncode == -signal.SIGKILL
