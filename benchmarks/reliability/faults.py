"""Disks that fail, environments that fail, signals, and two runs in one directory."""

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.reliability.files import TRAIN
from benchmarks.reliability.processes import Child, command, content, lines
from tests.support import probes
from tests.support.collecting import batch_bytes, fill_weights, plan_for
from toppo.collect.episodes import advance, no_episode
from toppo.collect.faults import FaultPolicy
from toppo.collect.pool import open_pool
from toppo.errors import EnvironmentFault, ToppoError
from toppo.rundir.checkpoint import newest_checkpoint
from toppo.rundir.lock import exclusive

RUN = [*TRAIN, "--total-timesteps", 9600, "--workers", 0, "--no-tensorboard"]
HOW = ["--checkpoint-every", 480, "--workers", 0, "--no-tensorboard"]


def whole(folder: Path) -> Path:
    """The same run, left alone."""
    root = folder / "alone"
    if not root.exists():
        ended = command(folder / "log", "train", *RUN, "--checkpoint-every", 480, "--out", root).wait()
        assert ended.code == 0, ended.output
    return root


def judge(name: str, root: Path, ended: Any) -> dict[str, Any]:
    """What a failed write must leave: a sentence, the code for it, a checkpoint that can be read, and no litter."""
    checkpoint, damaged = newest_checkpoint(root / "checkpoint")
    litter = [p.name for p in root.rglob("*") if p.name.endswith((".tmp", ".old"))]
    steps = checkpoint.facts["state"]["steps"]
    ok = ended.code == 74 and "Traceback" not in ended.output and not damaged and not litter and steps > 0
    return {"fault": name, "code": ended.code, "saved_steps": steps, "litter": litter, "ok": ok}


def disks(folder: Path) -> Iterator[dict[str, Any]]:
    """A disk that is full, read-only, limits the size of files, gives errors; needs the right to mount, and strace."""
    disk = folder / "disk"
    log = folder / "log"
    train = ["train", *RUN, "--checkpoint-every", 480, "--out"]
    disk.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "none", str(disk)], check=True)
    try:
        root = disk / "run"
        found = judge("full disk", root, command(log, *train, root).wait())
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        ended = command(log, "resume", root, *HOW).wait()
        yield {
            "fault": "read-only disk",
            "code": ended.code,
            "ok": ended.code == 73 and "Traceback" not in ended.output,
        }
        subprocess.run(["mount", "-o", "remount,rw,size=50m", str(disk)], check=True)
        same = command(log, "resume", root, *HOW).wait().code == 0 and content(root) == content(whole(folder))
        yield {**found, "resumed to the same bytes": same, "ok": found["ok"] and same}
    finally:
        subprocess.run(["umount", str(disk)], check=True)

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
        from toppo.cli import main

        main([str(a) for a in [*train, folder / "limited"]])

    yield judge("limit on the size of files", folder / "limited", Child(limited, log).wait())
    inject = ["-e", "trace=fsync", "-e", "inject=fsync:error=EIO:when=60+"]
    program = [sys.executable, "-m", "toppo", *map(str, train), str(folder / "eio")]
    done = subprocess.run(["strace", "-qq", "-f", "-o", os.devnull, *inject, *program], capture_output=True, text=True)
    ended = type("Done", (), {"code": done.returncode, "output": done.stdout + done.stderr})
    yield judge("errors of the disk", folder / "eio", ended)


def signals(folder: Path) -> Iterator[dict[str, Any]]:
    """Each signal saves and leaves with its code, and the run goes on to the same bytes."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1"):
        number = signal.Signals[name]
        root = folder / name
        child = command(folder / "log", "train", *RUN, "--checkpoint-every", 10**6, "--out", root)
        while lines(root / "metrics.jsonl") < 5 and child.poll() is None:
            time.sleep(0.002)
        sent = time.monotonic()
        child.signal(number)
        code = child.wait().code
        seconds = time.monotonic() - sent
        resumed = command(folder / "log", "resume", root, *HOW).wait().code == 0
        same = resumed and content(root) == content(whole(folder))
        yield {"signal": name, "code": code, "seconds": round(seconds, 2), "ok": same and code == 128 + number}
        shutil.rmtree(root)


def races(folder: Path, count: int) -> dict[str, Any]:
    """Two processes want the same directory at the same moment."""
    winners = []
    for i in range(count):
        at = time.monotonic() + 0.05
        place = folder / f"race{i}"
        place.mkdir()

        def enter(at: float = at, place: Path = place) -> None:
            while time.monotonic() < at:
                pass
            try:
                with exclusive(place / ".lock"):
                    time.sleep(0.3)
            except ToppoError as refused:
                raise SystemExit(refused.code) from None

        pair = [Child(enter, folder / f"log{j}") for j in range(2)]
        winners.append(sorted(child.wait().code for child in pair) == [0, 73])
    return {"races": count, "exactly one winner": sum(winners)}


def collect(workers: int, tolerance: FaultPolicy) -> tuple[list[dict[str, bytes]], list[Any]]:
    """Batches of an environment that fails as the variables FAULT and MARK say."""
    plan = plan_for(probes.failing, 2, 40)
    pool = open_pool(plan, probes.failing, workers, tolerance)
    episodes = (no_episode(plan),) * 2
    data = []
    notices = []
    try:
        fill_weights(pool.buffers)
        for batch in range(2):
            pool.start(batch, episodes)
            notices += pool.finish()
            data.append(batch_bytes(pool.buffers))
            episodes, _ = advance(episodes, pool.buffers, False)
    finally:
        pool.close()
    return data, notices


def environments(folder: Path) -> Iterator[dict[str, Any]]:
    """Faults of the moment leave no trace; lasting faults end in the same data, whatever their kind."""
    patient = FaultPolicy("truncate", env_timeout=3.0, env_restarts=100)
    when = folder / "when"
    os.environ["MARK"] = ""
    os.environ["WHEN"] = str(when)
    os.environ["FAULT"] = "nothing"
    healthy = collect(0, patient)[0]
    cut = {}
    for where, how in (("", "reward:nan"), ("reset:", "reset:nan")):
        os.environ["FAULT"] = how
        cut[where] = collect(0, patient)[0]
        assert all(np.isfinite(np.frombuffer(batch["reward"])).all() for batch in cut[where])
    kinds = ["raise", "hang", "SIGSEGV", "SIGKILL", "SIGABRT", "reward:nan", "observation:inf", "final:nan"]
    for how in (*kinds, "reset:raise", "reset:hang", "reset:SIGSEGV", "reset:nan"):
        os.environ["FAULT"] = how
        os.environ["MARK"] = ""
        try:
            collect(1, FaultPolicy(env_timeout=3.0))
            sentence = "nothing"
        except EnvironmentFault as fault:
            sentence = str(fault)
        seconds = time.monotonic() - float(when.read_text())
        where = "reset:" if how.startswith("reset:") else ""
        call = "reset(seed=" if where else "step 3 of the episode with seed "
        named = sentence.startswith("failing (environment ") and call in sentence
        lasting = collect(1, patient)[0] == cut[where]
        os.environ["MARK"] = str(folder / f"mark-{how.replace(':', '-')}")
        value = how.split(":")[-1] in ("nan", "inf")  # given again and again, so there is no moment
        momentary = value or collect(1, patient)[0] == healthy
        ok = named and lasting and momentary
        yield {"environment": how, "named": named, "seconds from fault to sentence": round(seconds, 2), "ok": ok}
