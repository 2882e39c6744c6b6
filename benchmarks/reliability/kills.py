"""Rows 1 and 2: runs that are killed again and again, also while they resume, end in the bytes of a run left alone."""

import random
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.reliability.processes import Child, command, content, lines
from toppo.algos import REGISTRY

SMALL = ["--hidden", 16, "--epochs", 2, "--minibatches", 4, "--no-tensorboard"]
KINDS = {
    "Box (Pendulum-v1)": ["Pendulum-v1", "--n", 120, "--noop-steps", 120, "--steps", 4800],
    "Discrete (CartPole-v1)": ["CartPole-v1", "--n", 96, "--noop-steps", 96, "--steps", 3840],
    "MuJoCo (Reacher-v5)": ["Reacher-v5", "--n", 100, "--noop-steps", 100, "--steps", 4000],
}
HOW = ["--checkpoint-every", 200]  # every second iteration: many kills fall into a save


def chains() -> list[tuple[str, str]]:
    """Every algorithm on every kind of environment that it can serve."""
    return [(algo, kind) for kind in KINDS for algo in REGISTRY if not (algo == "disc" and "Discrete" in kind)]


def chain(algo: str, kind: str, kills: int, folder: Path, seed: int) -> dict[str, Any]:
    """One run, killed ``kills`` times on its way, against the same run left alone."""
    rng, whole, root, log = random.Random(seed), folder / "whole", folder / "killed", folder / "log"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    workers = ["--workers", 1 if algo in ("ppo", "toppo") else 0]
    arguments = [*KINDS[kind], "--algo", algo, *SMALL]
    train: list[object] = ["train", *arguments, *HOW, *workers, "--out"]
    ended = command(log, *train, whole).wait()
    assert ended.code == 0, ended.output
    total, metrics = lines(whole / "metrics.jsonl"), root / "metrics.jsonl"
    child, done, while_resuming, begun_anew = command(log, *train, root), 0, 0, 0
    while done < kills:
        early = rng.random() < 0.3
        target = lines(metrics) if early else lines(metrics) + rng.randint(1, max(1, total // kills))
        _await(child, metrics, target, rng.random() * (1.5 if early else 0.02))
        child.signal(signal.SIGKILL)
        if child.wait().code == -signal.SIGKILL:
            done += 1
            while_resuming += early
            begun = (root / "spec.json").exists()
            child = command(log, "resume", root, *SMALL[-1:], *HOW, *workers) if begun else command(log, *train, root)
        else:  # it was quicker: once more from the beginning
            begun_anew += 1
            shutil.rmtree(root)
            child = command(log, *train, root)
    ended = child.wait()
    same = ended.code == 0 and content(root) == content(whole)
    tidy = not [p for p in root.rglob("*") if p.name.endswith((".tmp", ".old"))]
    return {"algo": algo, "kind": kind, "kills": done, "early": while_resuming, "same": same, "tidy": tidy}


def _await(child: Child, metrics: Path, target: int, pause: float) -> None:
    while lines(metrics) < target and child.poll() is None:
        time.sleep(0.002)
    time.sleep(pause)


def campaign(kills: int, folder: Path) -> Iterator[dict[str, Any]]:
    """All chains, ``kills`` in all."""
    everyone = chains()
    random.Random(0).shuffle(everyone)  # so that a campaign that is cut short has seen some of everything
    for number, (algo, kind) in enumerate(everyone):
        share = kills // len(everyone) + (number < kills % len(everyone))
        yield chain(algo, kind, share, folder / f"{number}", number)
        shutil.rmtree(folder / f"{number}")
