"""Checkpoints that a test wrote itself, and all that a run directory says of its run."""

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
from safetensors.numpy import save

from toppo.rundir.checkpoint import ARRAYS, MANIFEST, newest_checkpoint


def craft(path, change=lambda manifest: None, payload=None, close=True):
    """A checkpoint as an untrusted person might make it, with a right digest."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    payload = save({"a": np.zeros(2)}) if payload is None else payload
    manifest = {
        "schema": 1,
        "facts": {},
        "arrays": {"bytes": len(payload), "sha256": hashlib.sha256(payload).hexdigest()},
    }
    change(manifest)
    if close:
        manifest["digest"] = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
    (path / MANIFEST).write_text(json.dumps(manifest))
    (path / ARRAYS).write_bytes(payload)


def content(root: Path):
    """All that must be the same, however the run came about."""
    checkpoint, damaged = newest_checkpoint(root / "checkpoint")
    assert damaged == []
    arrays = {name: (a.dtype.str, a.shape, a.tobytes()) for name, a in checkpoint.arrays.items()}
    files = {name: (root / name).read_bytes() for name in ("spec.json", "metrics.jsonl", "episodes.jsonl")}
    facts = {name: checkpoint.facts[name] for name in ("spec", "spaces", "state", "exact")}
    offsets = {name: checkpoint.facts["offsets"][name] for name in ("metrics", "episodes")}
    return files, arrays, facts, offsets, json.loads((root / "status.json").read_text())
