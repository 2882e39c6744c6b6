"""The program of a worker process: ``python -m toppo.collect.worker_process COMMANDS REPLIES [MEMORY]`` (file descriptors)."""

import ctypes
import mmap
import os
import signal
import sys
import traceback
from contextlib import suppress

from toppo.collect.child import receive, send
from toppo.collect.episodes import OpenEpisode
from toppo.collect.pinning import pin, use_batch_scheduling
from toppo.collect.plan import buffers_in, plan_from_json
from toppo.collect.worker import Worker
from toppo.envs.check import check_env
from toppo.envs.source import from_address
from toppo.envs.spaces_json import spaces_to_json
from toppo.errors import Fault, NotFinite, ToppoError


def serve(commands: int, replies: int, *memory: int) -> None:
    """Look at an environment, or obey commands until the run closes its end of the pipe."""
    hello, _ = receive(commands)
    source = from_address(hello["address"])
    if "look" in hello:
        spaces, notes = check_env(source, lambda call: send(replies, {"ok": True, "call": call}))
        send(replies, {"ok": True, "spaces": spaces_to_json(spaces), "notes": notes})
        return
    pin(hello["cores"])
    use_batch_scheduling()
    plan = plan_from_json(hello["plan"])
    buffers = buffers_in(plan, memoryview(mmap.mmap(memory[0], 0)))
    worker = Worker(plan, hello["indices"], source, buffers, hello["on_nan"])
    send(replies, {"ok": True})
    while True:
        command, arrays = receive(commands)
        if command["do"] == "collect":
            ends = {(i, episode): t for i, episode, t in command["ends"]}
            send(replies, {"ok": True, "notices": worker.collect(command["batch"], ends)})
        else:
            episode = OpenEpisode(command["started"], *arrays)
            send(replies, {"ok": True, "lost": worker.restore_one(command["env"], episode)})


def main() -> None:
    """Serve; tell the run what went wrong before leaving."""
    commands, replies, *memory = map(int, sys.argv[1:])
    die_with_the_run()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)  # these reach the whole group; the run decides when to stop
    try:
        serve(commands, replies, *memory)
    except (EOFError, BrokenPipeError):
        pass
    except ToppoError as error:
        _report(replies, error)
    except Exception as error:
        traceback.print_exc()
        _report(replies, Fault(f"{type(error).__name__}: {error}"))
    # Leave at once: environments may hold threads or windows that outlive their process otherwise.
    os._exit(0)


def die_with_the_run() -> None:
    """Ask the system to end this process when its run is killed, even if an environment hangs (Linux only)."""
    if sys.platform == "linux":
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)


def _report(replies: int, error: ToppoError) -> None:
    details = error.details if isinstance(error, Fault) else {}
    kind = {"code": error.code, "not_finite": isinstance(error, NotFinite)}
    answer = {"ok": False, "message": str(error), "details": details, **kind}
    with suppress(BrokenPipeError):
        send(replies, answer)


if __name__ == "__main__":
    main()
