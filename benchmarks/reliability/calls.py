"""Runs as the system sees them: what they open, execute, sync and listen on, by strace."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.reliability.files import TRAIN

WATCHED = "execve,openat,open,creat,rename,renameat,renameat2,fsync,fdatasync,listen,bind,connect,accept,accept4"
SYSTEM = ("/usr/", "/lib", "/etc/", "/proc/", "/sys/", "/dev/null", "/dev/urandom", "/opt/", "/bin/")


class Call(NamedTuple):
    """One system call that succeeded."""

    pid: int
    name: str
    text: str  # arguments
    path: str  # that was opened or synced, all links resolved

    @property
    def writes(self) -> bool:
        """May something be written by it?"""
        return any(flag in self.text for flag in ("O_WRONLY", "O_RDWR", "O_CREAT"))


def watch(folder: Path, program: list[object], **variables: str) -> list[Call]:
    """Run a program with all its children, and return what they did."""
    trace = folder / "trace"
    strace = ["strace", "-f", "-y", "-qq", "--seccomp-bpf", "-s", "300", "-o", str(trace), "-e", f"trace={WATCHED}"]
    done = subprocess.run(
        [*strace, *map(str, program)], capture_output=True, text=True, env={**os.environ, **variables}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return list(parse(trace.read_text(errors="replace")))


def parse(trace: str) -> Iterator[Call]:
    """The calls of a trace; those that another process interrupted are put together again."""
    begun: dict[str, str] = {}
    for line in trace.splitlines():
        pid, _, rest = line.partition(" ")
        rest = rest.strip()
        if rest.endswith("<unfinished ...>"):
            begun[pid] = rest.removesuffix("<unfinished ...>")
            continue
        if rest.startswith("<..."):
            rest = begun.pop(pid, "") + rest.partition("resumed>")[2]
        found = re.match(r"(\w+)\((.*)\)\s+= (\d+)(?:<(.*)>)?$", rest)
        if found:
            name, text, _, path = found.groups()
            synced = re.match(r"\d+<(.*)>", text)
            yield Call(int(pid), name, text, path or (synced[1] if synced else ""))


def network(calls: list[Call]) -> dict[str, int]:
    """Calls that would let somebody in or send something out; local sockets of the system are none."""
    outside = [c for c in calls if c.name in ("bind", "connect") and "AF_INET" in c.text]
    heard = [c for c in calls if c.name in ("listen", "accept", "accept4")]
    return {"listening": len(heard), "bound or connected": len(outside)}


def executed(calls: list[Call]) -> list[str]:
    """Programs that were started, other than this Python itself."""
    programs = [re.match(r'"([^"]*)"', c.text) for c in calls if c.name == "execve"]
    mine = os.path.realpath(sys.executable)
    return sorted({p[1] for p in programs if p and os.path.realpath(p[1]) != mine})


def elsewhere(calls: list[Call], places: list[str], written: bool) -> list[str]:
    """Files that were opened outside of these places, of the system's, of Python's and of the caches."""
    caches = [os.path.expanduser(f"~/{name}") for name in (".cache", ".config")]
    readable = (*SYSTEM, sys.prefix, sys.base_prefix, os.path.dirname(np.__path__[0]), os.getcwd())
    threads = r"/proc/\d+/task/\d+/comm"  # their names
    plain = map(re.escape, (*caches, *(() if written else readable)))
    known = re.compile("|".join(["/dev/null", threads, *places, *plain]))
    opened = [c for c in calls if c.name in ("open", "openat", "creat") and c.writes == written]
    return sorted({c.path for c in opened if c.path.startswith("/") and not known.match(c.path)})


def appeared(calls: list[Call], root: Path) -> dict[str, int]:
    """Checkpoints that were renamed to their name, and those whose files and directory were on the disk before."""
    synced: set[str] = set()
    count = safe = 0
    for call in calls:
        if call.name in ("fsync", "fdatasync"):
            synced.add(call.path)
        names = re.findall(r'"([^"]*)"', call.text) if call.name.startswith("rename") else []
        if len(names) == 2 and Path(names[1]).parent == root / "checkpoint" and names[1].rsplit("/")[-1].isdigit():
            count += 1
            needed = {names[0], *(f"{names[0]}/{f}" for f in ("arrays.safetensors", "manifest.json"))}
            safe += {os.path.realpath(n) for n in needed} <= {os.path.realpath(s) for s in synced}
            synced = set()
    return {"checkpoints": count, "synced before they appeared": safe}


def calls(folder: Path, out: Path, go_on: bool) -> Iterator[dict[str, Any]]:
    """A run with a worker process, a study on this machine, and every crafted directory with four commands."""
    toppo = [sys.executable, "-m", "toppo"]
    root = folder / "watched"
    flags = ["--total-timesteps", 960, "--checkpoint-every", 96, "--workers", 1, "--out", root]
    found = watch(folder, [*toppo, "train", *TRAIN, *flags])
    yield {
        "what": "train",
        **network(found),
        "executed": executed(found),
        "written elsewhere": elsewhere(found, [re.escape(str(root))], written=True),
        **appeared(found, root),
    }
    study = folder / "small.json"
    arm = {"algo": "ppo", "settings": {"n_steps": 96, "warmup_steps": 0}}
    grid = {"arms": [arm], "envs": ["CartPole-v1"], "total_timesteps": 192, "seeds": 2}
    study.write_text(json.dumps({"schema": 2, "grids": [grid]}))
    found = watch(folder, [*toppo, "study", study, "--out", folder / "study", "--jobs", 2])
    yield {"what": "study", **network(found), "executed": executed(found)}
    scratch = folder / "inner"
    scratch.mkdir()
    again = [sys.executable, "-m", "benchmarks.reliability", "--only", "crafted", "--out", out]
    again += ["--go-on"] if go_on else []
    found = watch(folder, again, TMPDIR=str(scratch))
    theirs = [c for c in found if c.pid != found[0].pid]  # all but the process that makes the directories
    places = [rf"{re.escape(str(scratch))}/([^/]+/)?(hostile|log|example)"]
    yield {
        "what": "crafted",
        **network(theirs),
        "executed": executed(theirs),
        "written elsewhere": elsewhere(theirs, places, written=True),
        "read elsewhere": elsewhere(theirs, places, written=False),
    }
