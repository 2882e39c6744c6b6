"""Signals as a request to save and leave."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupted(Exception):  # noqa: N818 - not an error: it was asked for
    """The run was asked to stop, and has saved its state."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number
        self.code = 128 + number


class StopRequest:
    """Set by the first SIGINT, SIGTERM, SIGHUP or SIGUSR1; a second SIGINT ends the process at once."""

    signal: int | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal."""
        if self.signal is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = number


@contextmanager
def stop_request() -> Iterator[StopRequest]:
    """Collect stop signals while the block runs (signals reach the main thread only)."""
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
    previous = {number: signal.signal(number, request) for number in numbers}
    try:
        yield request
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
