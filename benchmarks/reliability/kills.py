"""Runs that are killed again and again, also while they resume, end in the bytes of a run left alone."""

import random
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.reliability.processes import Child, command, content, lines
from toppo.algos import REGISTRY

SMALL = ["--hidden", 16, "--n-epochs", 2, "--n-minibatches", 4, "--no-tensorboard"]
# Every algorithm in every kind of environment that it can serve; Atari, whose runs are slow to start, with two.
KINDS = {
    "Box (Pendulum-v1)": ["Pendulum-v1", "--n-steps", 120, "--warmup-steps", 120, "--total-timesteps", 4800],
    "Discrete (CartPole-v1)": ["CartPole-v1", "--n-steps", 96, "--warmup-steps", 96, "--total-timesteps", 3840],
    "MuJoCo (Reacher-v5)": ["Reacher-v5", "--n-steps", 100, "--warmup-steps", 100, "--total-timesteps", 4000],
    "Atari (Pong)": ["PongNoFrameskip-v4", "--n-steps", 64, "--n-envs", 2, "--total-timesteps", 2560],
}
KILLS = 10  # in a chain
HOW = ["--checkpoint-every", 200]  # every second iteration: many kills fall into a save


def chains() -> list[tuple[str, str]]:
    """Algorithm and kind of environment of every chain."""
    pairs = [(algo, kind) for kind in KINDS for algo in REGISTRY if not (algo == "disc" and "Discrete" in kind)]
    return [(algo, kind) for algo, kind in pairs if "Atari" not in kind or algo in ("ppo", "toppo")]


def chain(algo: str, kind: str, kills: int, folder: Path, seed: int) -> dict[str, Any]:
    """One run, killed ``kills`` times on its way, against the same run left alone."""
    rng = random.Random(seed)
    whole = folder / "whole"
    root = folder / "killed"
    log = folder / "log"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    workers = ["--workers", 1 if algo in ("ppo", "toppo") else 0]
    arguments = [*KINDS[kind], "--algo", algo, *SMALL]
    train: list[object] = ["train", *arguments, *HOW, *workers, "--out"]
    ended = command(log, *train, whole).wait()
    assert ended.code == 0, ended.output
    total = lines(whole / "metrics.jsonl")
    metrics = root / "metrics.jsonl"
    child = command(log, *train, root)
    done = 0
    while_resuming = 0
    begun_again = 0
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
            begun_again += 1
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


def campaign(kills: int, folder: Path, done: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Chains of ten kills, at least ``kills`` in all with those that are done."""
    yield from done
    left = [c for c in chains() if c not in {(row["algo"], row["kind"]) for row in done}]
    random.Random(0).shuffle(left)  # so that a campaign that is cut short has seen some of everything
    for number, (algo, kind) in enumerate(left[: max(0, -(-kills // KILLS) - len(done))]):
        yield chain(algo, kind, KILLS, folder / f"{number}", number)
        shutil.rmtree(folder / f"{number}")
