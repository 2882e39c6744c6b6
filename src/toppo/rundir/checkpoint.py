"""Checkpoints: named arrays in safetensors and a JSON manifest that knows their digest.  Never pickle.

A checkpoint is a directory that appears under its name only when it is complete.  The manifest is closed by its own
digest, so a flipped bit anywhere is found.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from toppo.errors import BAD_DATA, NO_INPUT, ToppoError
from toppo.rundir.files import open_regular
from toppo.rundir.layout import read_json, sync_directory, write_bytes, write_json

SCHEMA = 1
MAX_ARRAY_BYTES = 2_000_000_000
MAX_HEADER_BYTES = 10_000_000
MAX_ARRAYS = 10_000
# Of safetensors and NumPy.
FLOATS = {"F16": "f2", "F32": "f4", "F64": "f8"}
INTEGERS = {"I8": "i1", "I16": "i2", "I32": "i4", "I64": "i8", "U8": "u1", "U16": "u2", "U32": "u4", "U64": "u8"}
DTYPES = {"BOOL": "?", **FLOATS, **INTEGERS}
ARRAYS = "arrays.safetensors"
MANIFEST = "manifest.json"

Facts = Mapping[str, Any]  # JSON data


class Checkpoint(NamedTuple):
    """Arrays by name, and everything that is not an array."""

    arrays: dict[str, np.ndarray]
    facts: Facts


class Declared(NamedTuple):
    """An array as the header of its file describes it."""

    dtype: np.dtype
    shape: tuple[int, ...]


Check = Callable[[Facts, Mapping[str, Declared]], None]


class CheckpointError(ToppoError):
    """A checkpoint that is damaged or is not one."""

    def __init__(self, sentence: str, code: int = BAD_DATA) -> None:
        super().__init__(sentence, code)


def write_checkpoint(target: Path, arrays: Mapping[str, np.ndarray], facts: Facts) -> None:
    """Write a checkpoint directory, which appears only when it is complete and on the disk."""
    temporary = target.with_name(f".{target.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        payload = save({name: np.asarray(a, order="C") for name, a in sorted(arrays.items())})
        about = {"bytes": len(payload), "sha256": hashlib.sha256(payload).hexdigest()}
        manifest = {"schema": SCHEMA, "facts": facts, "arrays": about}
        manifest["digest"] = _digest(manifest)
        write_bytes(temporary / ARRAYS, payload)
        write_json(temporary / MANIFEST, manifest)
        old = target.with_name(f".{target.name}.old")
        shutil.rmtree(old, ignore_errors=True)
        if target.exists():
            os.replace(target, old)  # an interruption leaves the old or the new one intact
        os.replace(temporary, target)
        sync_directory(target.parent)
        shutil.rmtree(old, ignore_errors=True)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def refuse_to_replace(target: Path) -> None:
    """Refuse to write a checkpoint over anything else."""
    if target.exists() and not (target / MANIFEST).is_file():
        raise ToppoError(f"{target} exists and is not a saved agent: choose another name")


def read_checkpoint(path: Path, check: Check = lambda facts, declared: None) -> Checkpoint:
    """Read an untrusted checkpoint: sizes first, then shapes, then digests, then contents.

    ``check`` refuses arrays by what the file declares of them, before they are read.
    """
    if not path.is_dir():
        raise CheckpointError(f"{path} is not a checkpoint directory", NO_INPUT)
    manifest = read_json(path / MANIFEST)
    if not isinstance(manifest, dict) or manifest.get("schema") != SCHEMA:
        raise CheckpointError(f"{path} was written by another version of toppo: its schema is not {SCHEMA}")
    if manifest.pop("digest", None) != _digest(manifest):
        raise CheckpointError(f"{path}: the manifest does not match its own digest: the file is damaged")
    about = manifest.get("arrays")
    facts = manifest.get("facts")
    if not isinstance(about, dict) or not isinstance(facts, dict):
        raise CheckpointError(f"{path}: the manifest lacks its arrays or facts")
    data = path / ARRAYS
    with open_regular(data, MAX_ARRAY_BYTES) as file:
        size = os.fstat(file.fileno()).st_size
        said = about.get("bytes")
        if size != said:
            raise CheckpointError(f"{data} has {size} bytes where its manifest says {said}: the file is damaged")
        head = file.read(8)
        length = int.from_bytes(head, "little")
        if length > MAX_HEADER_BYTES:
            raise CheckpointError(f"{data} has a header above {MAX_HEADER_BYTES} bytes")
        head += file.read(length)
        check(facts, _declared(data, head[8:]))
        payload = head + file.read()
    if hashlib.sha256(payload).hexdigest() != about.get("sha256"):
        raise CheckpointError(f"{data} does not match the sha256 in its manifest: the file is damaged")
    try:
        return Checkpoint(load(payload), facts)
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{data} is not a safetensors file: {error}") from error


def steps_of_newest(folder: Path) -> int:
    """The steps that a run had done at its newest checkpoint, by its name; 0 if there is none."""
    return max((int(p.name) for p in folder.iterdir() if p.name.isdigit()), default=0) if folder.is_dir() else 0


def newest_checkpoint(folder: Path, check: Check = lambda facts, declared: None) -> tuple[Checkpoint, list[str]]:
    """The newest checkpoint of a run that can be read, and a sentence for every newer one that cannot."""
    if folder.is_symlink():
        raise CheckpointError(f"{folder} is a link that leads out of the run")
    names = sorted((p.name for p in folder.iterdir() if p.name.isdigit()), reverse=True) if folder.is_dir() else []
    damaged: list[str] = []
    for name in names[:2]:
        try:
            if (folder / name).is_symlink():
                raise CheckpointError(f"{folder / name} is a link that leads out of the run")
            return read_checkpoint(folder / name, check), damaged
        except ToppoError as error:
            damaged.append(str(error))
    if damaged:
        raise CheckpointError(f"no checkpoint of the run can be read: {'; '.join(damaged)}")
    raise CheckpointError(f"{folder} holds no checkpoint yet: start the run again", NO_INPUT)


def add_checkpoint(folder: Path, steps: int, arrays: Mapping[str, np.ndarray], facts: Facts) -> None:
    """Add a checkpoint to a run and keep the two newest; leftovers of a killed writer go too."""
    folder.mkdir(parents=True, exist_ok=True)
    write_checkpoint(folder / f"{steps:012d}", arrays, facts)
    names = sorted(p.name for p in folder.iterdir())
    complete = [n for n in names if n.isdigit()]
    for name in [*complete[:-2], *(n for n in names if n.startswith("."))]:
        shutil.rmtree(folder / name, ignore_errors=True)


def _digest(manifest: Facts) -> str:
    try:
        return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
    except RecursionError:
        return "nothing that deep was written by toppo"


def _declared(path: Path, header: bytes) -> dict[str, Declared]:
    """Type and shape of every array, from the header alone."""
    try:
        entries = json.loads(header)
        if len(entries) > MAX_ARRAYS:
            raise ValueError(f"it declares {len(entries)} arrays, but at most {MAX_ARRAYS} are read")
        return {
            name: Declared(np.dtype(DTYPES[entry["dtype"]]), tuple(entry["shape"])) for name, entry in entries.items()
        }
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path} is not a safetensors file: {error}") from error
