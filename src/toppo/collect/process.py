"""The program of a worker process: ``python -m toppo.collect.process COMMANDS REPLIES MEMORY`` (file descriptors)."""

import mmap
import os
import signal
import sys
import traceback
from contextlib import suppress

from toppo.collect.wire import receive, send
from toppo.collect.worker import Plan, Worker, buffers_in
from toppo.envs.make import factory
from toppo.errors import ToppoError
from toppo.types import OpenEpisode


def serve(commands: int, replies: int, memory: int) -> None:
    """Obey commands until the run closes its end of the pipe."""
    hello, _ = receive(commands)
    plan = Plan(**hello["plan"])
    buffers = buffers_in(plan, memoryview(mmap.mmap(memory, 0)))
    source = hello["id"] if hello["id"] is not None else factory(hello["factory"])
    worker = Worker(plan, hello["indices"], source, buffers)
    send(replies, {"ok": True})
    while True:
        command, arrays = receive(commands)
        if command["do"] == "collect":
            worker.collect(command["batch"])
            send(replies, {"ok": True})
        else:
            episode = OpenEpisode(command["started"], *arrays)
            send(replies, {"ok": True, "exact": worker.restore(command["env"], episode)})


def main() -> None:
    """Serve; tell the run what went wrong before leaving."""
    commands, replies, memory = map(int, sys.argv[1:])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the run decides when to stop
    try:
        serve(commands, replies, memory)
    except (EOFError, BrokenPipeError):
        pass
    except ToppoError as error:
        _report(replies, str(error))
    except Exception as error:
        traceback.print_exc()
        _report(replies, f"{type(error).__name__}: {error}")
    # Leave at once: environments may hold threads or windows that outlive their process otherwise.
    os._exit(0)


def _report(replies: int, message: str) -> None:
    with suppress(BrokenPipeError):
        send(replies, {"ok": False, "message": message})


if __name__ == "__main__":
    main()
