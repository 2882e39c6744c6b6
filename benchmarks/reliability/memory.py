"""Resident memory and open files of a long run."""

import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.reliability.processes import command

TRAIN = ["CartPole-v1", "--algo", "toppo", "--n-steps", 2048, "--n-epochs", 1, "--n-minibatches", 4, "--hidden", 16]


def long_run(steps: int, folder: Path) -> dict[str, Any]:
    """Train for ``steps`` steps in a process of its own and look at it twice a second."""
    root = folder / "long"
    child = command(folder / "log", "train", *TRAIN, "--total-timesteps", steps, "--workers", 0, "--out", root)
    rows = []
    while child.poll() is None:
        row = look(child.pid, root / "metrics.jsonl")
        if row and (not rows or row[0] > rows[-1][0]):
            rows.append(row)
        time.sleep(0.5)
    ended = child.wait()
    assert ended.code == 0, ended.output
    data = np.array(rows, float)
    settled = data[data[:, 0] >= steps / 4]  # programs are compiled and caches are full by then
    slope = np.polyfit(settled[:, 0], settled[:, 1], 1)[0] * 1e5
    bytes_per_step = sum(p.stat().st_size for p in root.rglob("*") if p.is_file()) / steps
    return {
        "steps": steps,
        "mb_per_100k_steps": round(float(slope), 3),
        "mb_first": round(float(settled[0, 1]), 1),
        "mb_last": round(float(settled[-1, 1]), 1),
        "files_open_least_and_most": [int(settled[:, 2].min()), int(settled[:, 2].max())],
        "threads_most": int(settled[:, 3].max()),
        "bytes_on_disk_per_step": round(bytes_per_step, 2),
        "rows": [[int(s), round(m, 1), int(f)] for s, m, f, _ in rows[:: max(1, len(rows) // 300)]],
    }


def look(pid: int, metrics: Path) -> tuple[int, float, int, int] | None:
    """Steps so far, resident MB, open files, threads; None before the first iteration."""
    try:
        with metrics.open("rb") as file:
            file.seek(max(0, metrics.stat().st_size - 4000))
            steps = json.loads(file.read().splitlines()[-1])["time/total_timesteps"]
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        threads = len(os.listdir(f"/proc/{pid}/task"))
        return steps, pages * os.sysconf("SC_PAGE_SIZE") / 2**20, len(os.listdir(f"/proc/{pid}/fd")), threads
    except (OSError, ValueError, KeyError, IndexError):
        return None


def draw(result: dict[str, Any], path: Path) -> None:
    """Memory and open files against steps."""
    from toppo.plotting import save, subplots

    steps, memory, files = np.array(result["rows"], float).T
    sheet, axes = subplots(2, 1, width=6.0, height=2.2)
    upper, lower = axes[:, 0]
    upper.plot(steps / 1e6, memory)
    upper.set_ylabel("resident memory, MB")
    upper.set_ylim(0)
    lower.plot(steps / 1e6, files)
    lower.set_ylabel("open files")
    lower.set_ylim(0)
    lower.set_xlabel("million steps")
    save(sheet, path)
