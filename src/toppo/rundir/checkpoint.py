"""Checkpoints: named arrays in safetensors and a JSON manifest that knows their digest.  Never pickle.

A checkpoint is a directory that appears under its name only when it is complete.  The manifest is closed by its own
digest, so a flipped bit anywhere is found.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from toppo.errors import BAD_DATA, NO_INPUT, ToppoError
from toppo.rundir.layout import read_json, sync_directory

SCHEMA = 1
MOST_ARRAY_BYTES = 2_000_000_000
MOST_HEADER_BYTES = 10_000_000
ARRAYS, MANIFEST = "arrays.safetensors", "manifest.json"


class Checkpoint(NamedTuple):
    """Arrays by name, and everything that is not an array."""

    arrays: dict[str, np.ndarray]
    facts: dict[str, Any]


class CheckpointError(ToppoError):
    """A checkpoint that is damaged or is not one."""

    def __init__(self, sentence: str, code: int = BAD_DATA) -> None:
        """Bad data, unless it is not there at all."""
        super().__init__(sentence, code)


def write_checkpoint(target: Path, arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> None:
    """Write a checkpoint directory; it is there as a whole or not at all."""
    temporary = target.with_name(f".{target.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        payload = save({name: np.asarray(a, order="C") for name, a in sorted(arrays.items())})
        manifest = {
            "schema": SCHEMA,
            "facts": facts,
            "arrays": {"bytes": len(payload), "sha256": hashlib.sha256(payload).hexdigest()},
        }
        manifest["digest"] = _digest(manifest)
        _write(temporary / ARRAYS, payload)
        _write(temporary / MANIFEST, json.dumps(manifest, indent=1, sort_keys=True, allow_nan=False).encode() + b"\n")
        sync_directory(temporary)
        old = target.with_name(f".{target.name}.old")
        shutil.rmtree(old, ignore_errors=True)
        if target.exists():
            os.replace(target, old)  # whenever this is interrupted, the old or the new one is whole
        os.replace(temporary, target)
        sync_directory(target.parent)
        shutil.rmtree(old, ignore_errors=True)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint that a stranger may have made: sizes first, then digests, then contents."""
    if not path.is_dir():
        raise CheckpointError(f"{path} is not a checkpoint directory", NO_INPUT)
    manifest = read_json(path / MANIFEST)
    if not isinstance(manifest, dict) or manifest.get("schema") != SCHEMA:
        raise CheckpointError(
            f"{path}: the manifest's schema is not {SCHEMA}: it was written by another version of toppo"
        )
    if manifest.pop("digest", None) != _digest(manifest):
        raise CheckpointError(f"{path}: the manifest does not match its own digest: the file is damaged")
    arrays, facts = manifest.get("arrays"), manifest.get("facts")
    if not isinstance(arrays, dict) or not isinstance(facts, dict):
        raise CheckpointError(f"{path}: the manifest lacks its arrays or facts")
    return Checkpoint(_read_arrays(path / ARRAYS, arrays.get("bytes"), arrays.get("sha256")), facts)


def newest_checkpoint(folder: Path) -> tuple[Checkpoint, list[str]]:
    """The newest checkpoint of a run that can be read, and a sentence for every newer one that cannot."""
    names = sorted((p.name for p in folder.iterdir() if p.name.isdigit()), reverse=True) if folder.is_dir() else []
    damaged: list[str] = []
    for name in names[:2]:
        try:
            return read_checkpoint(folder / name), damaged
        except ToppoError as error:
            damaged.append(str(error))
    if damaged:
        raise CheckpointError(f"no checkpoint of the run can be read: {'; '.join(damaged)}")
    raise CheckpointError(f"{folder} holds no checkpoint yet: start the run again", NO_INPUT)


def add_checkpoint(folder: Path, steps: int, arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> None:
    """Add a checkpoint to a run and keep the two newest; leftovers of a killed writer go too."""
    folder.mkdir(parents=True, exist_ok=True)
    write_checkpoint(folder / f"{steps:012d}", arrays, facts)
    names = sorted(p.name for p in folder.iterdir())
    complete = [n for n in names if n.isdigit()]
    for name in [*complete[:-2], *(n for n in names if n.endswith(".tmp"))]:
        shutil.rmtree(folder / name, ignore_errors=True)


def _digest(manifest: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _write(path: Path, payload: bytes) -> None:
    with path.open("wb") as file:
        file.write(payload)
        file.flush()
        os.fsync(file.fileno())


def _read_arrays(path: Path, size: Any, sha256: Any) -> dict[str, np.ndarray]:
    if not path.is_file() or path.is_symlink():
        raise CheckpointError(f"{path} is missing or is not a regular file", NO_INPUT)
    actual = path.stat().st_size
    if actual != size or actual > MOST_ARRAY_BYTES:
        raise CheckpointError(f"{path} has {actual} bytes where its manifest says {size}: the file is damaged")
    payload = path.read_bytes()
    if hashlib.sha256(payload).hexdigest() != sha256:
        raise CheckpointError(f"{path} does not match the sha256 in its manifest: the file is damaged")
    if int.from_bytes(payload[:8], "little") > MOST_HEADER_BYTES:
        raise CheckpointError(f"{path} has a header above {MOST_HEADER_BYTES} bytes")
    try:
        arrays: dict[str, np.ndarray] = load(payload)
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path} is not a safetensors file: {error}") from error
    return arrays
