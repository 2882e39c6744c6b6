"""The program of a worker process.

``python -m toppo.collect.worker_process COMMANDS REPLIES [MEMORY]``, each a file descriptor.
"""

import ctypes
import mmap
import os
import signal
import sys
import traceback
from contextlib import suppress

from toppo.collect.child import receive, send
from toppo.collect.episodes import OpenEpisode
from toppo.collect.faults import FaultPolicy
from toppo.collect.pinning import pin, use_batch_scheduling
from toppo.collect.plan import Plan, buffers_in
from toppo.collect.worker import Task, Worker
from toppo.envs.check import check_env
from toppo.envs.source import from_address
from toppo.envs.spaces_json import spaces_from_json, spaces_to_json
from toppo.errors import Fault, NotFinite, ToppoError

PARENT_DEATH_SIGNAL = 1  # the option of prctl


def serve(commands: int, replies: int, *memory: int) -> None:
    """Check an environment, or obey commands until the run closes its end of the pipe."""
    hello, _ = receive(commands)
    source = from_address(hello["address"])
    if "check" in hello:
        spaces, notes = check_env(source, lambda call: send(replies, {"ok": True, "call": call}))
        send(replies, {"ok": True, "spaces": spaces_to_json(spaces), "notes": notes})
        return
    pin(hello["cores"])
    use_batch_scheduling()
    plan = Plan(**{**hello["plan"], "spaces": spaces_from_json(hello["plan"]["spaces"])})
    buffers = buffers_in(plan, memoryview(mmap.mmap(memory[0], 0)))
    policy = FaultPolicy(on_nan=hello["on_nan"])
    worker = Worker(Task(plan=plan, indices=hello["indices"], source=source, buffers=buffers, fault_policy=policy))
    send(replies, {"ok": True})
    while True:
        command, arrays = receive(commands)
        if command["do"] == "collect":
            worker.start({(i, episode): row for i, episode, row in command["truncations"]})
            send(replies, {"ok": True, "survived": [fault._asdict() for fault in worker.finish()]})
        else:
            failed = worker.restore({command["env"]: OpenEpisode(started=command["started"], **arrays)})
            send(replies, {"ok": True, "failed": list(failed.values())})


def main() -> None:
    """Serve; tell the run what went wrong before leaving."""
    commands, replies, *memory = map(int, sys.argv[1:])
    if sys.platform == "linux":  # the system ends this process when its run is killed, even if an environment hangs
        ctypes.CDLL(None).prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL)
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


def _report(replies: int, error: ToppoError) -> None:
    kind = {"code": error.code, "not_finite": isinstance(error, NotFinite)}
    details = error.details if isinstance(error, Fault) else {}
    with suppress(BrokenPipeError):
        send(replies, {"ok": False, "message": str(error), "details": details, **kind})


if __name__ == "__main__":
    main()
