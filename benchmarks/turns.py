"""Processes that measure when they are asked, so that rows of a table take turns on a busy machine."""

import json
import subprocess
import sys
import time
from collections.abc import Callable

SECONDS = 0.4  # of the processor, for a repetition


def take_turns(batch: Callable[[], object], steps: int) -> None:
    """Take some batches for every line of the input, and print seconds and processor seconds as JSON."""
    for _ in range(4):
        began = time.process_time()
        batch()
    batches = max(1, round(SECONDS / (time.process_time() - began)))
    print(f"ready {batches * steps}", flush=True)
    for _ in sys.stdin:
        seconds, processor = time.perf_counter(), time.process_time()
        for _ in range(batches):
            batch()
        print(json.dumps([time.perf_counter() - seconds, time.process_time() - processor]), flush=True)


class Process:
    """A process that measures when it is asked."""

    def __init__(self, command: list[str], steps: int) -> None:
        """Wait until it has compiled; ``steps`` of a repetition, if it does not say."""
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        while not (line := self.child.stdout.readline()).startswith("ready"):
            if not line:
                sys.exit(f"{' '.join(command)} failed")
        self.steps = int((line.split()[1:] or [steps])[0])

    def measure(self, number: int) -> tuple[float, float]:
        """Steps per second, and per second of the processor."""
        self.child.stdin.write(f"{number}\n")
        self.child.stdin.flush()
        seconds, processor = json.loads(self.child.stdout.readline())
        return self.steps / seconds, self.steps / processor

    def close(self) -> None:
        """End it."""
        self.child.stdin.close()
        self.child.wait()
