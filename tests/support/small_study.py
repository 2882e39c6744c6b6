"""A study of a few seconds, and what it leaves."""

import json
from pathlib import Path
from typing import Any

from tests.support.settings import tiny

SETTINGS = {name: value for name, value in tiny(n_steps=256, warmup_steps=256).items() if name != "preset"}
ARMS = [{"algo": algo, "settings": SETTINGS, "name": algo} for algo in ("toppo", "ppo")]


def study_file(folder: Path, steps: int, arms: list[dict[str, Any]] = ARMS, env: str = "Pendulum-v1") -> Path:
    """One run per arm."""
    grid = {"arms": arms, "envs": [env], "total_timesteps": steps, "seeds": 1, "preset": "paper"}
    path = folder / "small.json"
    path.write_text(json.dumps({"schema": 2, "grids": [grid]}))
    return path


def bytes_of(out: Path) -> dict[str, bytes]:
    """All that must not depend on how the study was carried out."""
    names = ("*/metrics.jsonl", "*/episodes.jsonl", "*/evaluations.jsonl", "*/spec.json", "curves/*.json")
    found = {p.relative_to(out).as_posix(): p.read_bytes() for name in names for p in out.glob(name)}
    # Only the last checkpoint is at the same step however often the run was stopped.
    return found | {p.parts[-4]: p.read_bytes() for p in last_checkpoints(out)}


def last_checkpoints(out: Path) -> list[Path]:
    runs = sorted(p.parent for p in out.glob("*/spec.json"))
    return [max(run.glob("checkpoint/*/arrays.safetensors")) for run in runs]
