"""Damaged checkpoints, and untrusted run directories that were made to do harm."""

import hashlib
import json
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from benchmarks.reliability.processes import command
from toppo.errors import ToppoError
from toppo.rundir.checkpoint import ARRAYS, MANIFEST, read_checkpoint

TRAIN = ["CartPole-v1", "--n-steps", 96, "--warmup-steps", 96, "--hidden", 16, "--n-epochs", 2, "--n-minibatches", 4]
COMMANDS = (
    ["resume", "--no-tensorboard", "--workers", 0],
    ["evaluate", "--episodes", 1],
    ["plot", "--out", Path(tempfile.gettempdir()) / "hostile.png"],
    ["report"],  # into the directory itself
)
NOT_READ_BY_RESUME = ("spaces of 10^18 numbers",)
CODES = {64, 65, 66, 73, 74}


def huge_spaces(manifest: dict[str, Any]) -> None:
    """Observations of 10^18 numbers."""
    manifest["facts"]["spaces"]["parts"][0].update(shape=[10**9, 10**9])


def example(folder: Path) -> Path:
    """A small real run to damage."""
    root = folder / "example"
    if not root.exists():
        flags = ["--total-timesteps", 960, "--checkpoint-every", 480, "--workers", 0, "--out", root]
        ended = command(folder / "log", "train", *TRAIN, *flags).wait()
        assert ended.code == 0, ended.output
    return root


def newest(root: Path) -> Path:
    """The directory of the newest checkpoint."""
    return max(p for p in (root / "checkpoint").iterdir() if p.name.isdigit())


def flips(folder: Path, count: int) -> dict[str, Any]:
    """``count`` times one bit of a checkpoint, anywhere in its files: found, or without any effect."""
    path = newest(example(folder))
    rng = random.Random(0)
    found = 0
    harmless = 0
    before = read_checkpoint(path)
    for _ in range(count):
        file = path / rng.choice((ARRAYS, ARRAYS, MANIFEST))
        whole = file.read_bytes()
        bit = rng.randrange(8 * len(whole))
        file.write_bytes(whole[: bit // 8] + bytes([whole[bit // 8] ^ 1 << bit % 8]) + whole[bit // 8 + 1 :])
        try:
            after = read_checkpoint(path)
            # JSON has two spellings of some things: the same content is no damage.
            harmless += after.facts == before.facts and _same(after.arrays, before.arrays)
        except ToppoError:
            found += 1
        file.write_bytes(whole)
    return {"flips": count, "found": found, "without effect": harmless, "passed": count - found - harmless}


def _same(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> bool:
    return a.keys() == b.keys() and all(a[name].tobytes() == b[name].tobytes() for name in a)


def truncations(folder: Path) -> dict[str, Any]:
    """Either file cut at every hundredth of its length."""
    path = newest(example(folder))
    found = 0
    for name in (ARRAYS, MANIFEST):
        whole = (path / name).read_bytes()
        for part in range(100):
            (path / name).write_bytes(whole[: len(whole) * part // 100])
            try:
                read_checkpoint(path)
            except ToppoError:
                found += 1
        (path / name).write_bytes(whole)
    return {"cuts": 200, "found": found}


def signed(root: Path, change: Callable[[dict[str, Any]], None] = lambda m: None, arrays: bytes | None = None) -> None:
    """Change every checkpoint and close it with the right digests, as an attacker would."""
    for path in (root / "checkpoint").iterdir():
        payload = (path / ARRAYS).read_bytes() if arrays is None else arrays
        manifest = json.loads((path / MANIFEST).read_text())
        manifest.pop("digest")
        manifest["arrays"] = {"bytes": len(payload), "sha256": hashlib.sha256(payload).hexdigest()}
        change(manifest)
        manifest["digest"] = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
        (path / MANIFEST).write_text(json.dumps(manifest))
        (path / ARRAYS).write_bytes(payload)


def header(entries: dict[str, Any], data: int = 0) -> bytes:
    """A safetensors file with this header."""
    text = json.dumps(entries).encode()
    return len(text).to_bytes(8, "little") + text + b"\0" * data


def rewrite(root: Path, name: str, change: Callable[[Any], Any]) -> None:
    """Change one JSON file of a run."""
    data = json.loads((root / name).read_text())
    (root / name).write_text(json.dumps(change(data)))


def with_array(root: Path, name: str, value: float) -> None:
    """One value in one array of every checkpoint."""
    arrays = {k: v.copy() for k, v in load((newest(root) / ARRAYS).read_bytes()).items()}
    key = next(k for k in sorted(arrays) if k.startswith(name) and arrays[k].size)
    arrays[key].flat[0] = value
    signed(root, arrays=save(arrays))


def link(root: Path, name: str, target: Path) -> None:
    """Replace a file or directory of the run by a link out of it."""
    path = root / name
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    path.symlink_to(target)


def fifo(root: Path, name: str) -> None:
    """Replace a file by a pipe that nobody writes into."""
    (root / name).unlink(missing_ok=True)
    os.mkfifo(root / name)


def facts(**changes: Any) -> Callable[[dict[str, Any]], None]:
    """A change of the facts in a manifest."""
    return lambda m: m["facts"].update(changes)


def spec_change(**changes: Any) -> Callable[[Path], None]:
    """The same change of the spec in its file and in every checkpoint."""

    def change(root: Path) -> None:
        def update(data: dict[str, Any]) -> dict[str, Any]:
            for key, value in changes.items():
                where = data["common"] if key in data["common"] else data["config"] if key in data["config"] else data
                where[key] = value
            return data

        rewrite(root, "spec.json", update)
        signed(root, lambda m: update(m["facts"]["spec"]) and None)

    return change


def hostile(canary: Path, victim: Path) -> dict[str, Callable[[Path], None]]:
    """Crafted run directories by name; ``canary`` appears if one of them is executed, ``victim`` must stay as it is."""
    pickled = b"cposix\nsystem\n(S'touch " + str(canary).encode() + b"'\ntR."
    yaml = f"!!python/object/apply:os.system ['touch {canary}']".encode()
    code = f"import os; os.system('touch {canary}')".encode()
    empty = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    one = {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}
    overlap = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}

    def many(root: Path) -> None:
        for i in range(120_000):
            (root / f"x{i}").touch()

    def sparse(root: Path) -> None:
        size = 1_900_000_000
        head = header({"a": {"dtype": "U8", "shape": [size - 1000], "data_offsets": [0, size - 1000]}})
        signed(root, lambda m: m["arrays"].update(bytes=size), head)
        os.truncate(newest(root) / ARRAYS, size)

    def write(name: str, data: bytes) -> Callable[[Path], None]:
        return lambda root: (root / name).write_bytes(data) and None

    return {
        "header of 2^63 bytes": lambda r: signed(r, arrays=(2**63).to_bytes(8, "little") + b"{}"),
        "300,000 arrays": lambda r: signed(r, arrays=header(dict.fromkeys(map(str, range(300_000)), empty))),
        "overlapping arrays": lambda r: signed(r, arrays=header({"a": overlap, "b": overlap}, 8)),
        "an array of 4 TB": lambda r: signed(r, arrays=header({"a": one})),
        "a sparse file of 1.9 GB": sparse,
        "empty arrays": lambda r: signed(r, arrays=b""),
        "pickle as arrays": lambda r: signed(r, arrays=pickled),
        "zip as arrays": lambda r: signed(r, arrays=b"PK\x03\x04" + b"\0" * 100),
        "npz as arrays": lambda r: signed(r, arrays=b"\x93NUMPY\x01\0" + b"\0" * 100),
        "NaN in the parameters": lambda r: with_array(r, "learner/params", float("nan")),
        "infinity in the memory": lambda r: with_array(r, "memory/0/reward", float("inf")),
        "a negative variance": lambda r: with_array(r, "moments/obs/var", -1.0),
        "another algorithm": spec_change(algo="trpo"),
        "another environment": spec_change(env="Pendulum-v1"),
        "an environment in a module": spec_change(env="os:system"),
        "control characters in a name": spec_change(env="\x1b[2JCartPole-v1"),
        "a layer of 10^9": spec_change(hidden=[10**9, 10**9]),
        "a batch of 10^15": spec_change(n_steps=10**15),
        "a setting that is none": spec_change(command="rm"),
        "a future schema": lambda r: rewrite(r, "spec.json", lambda d: {**d, "schema": 99}),
        "a future manifest": lambda r: signed(r, lambda m: m.update(schema=99)),
        "10^9 batches in memory": lambda r: signed(r, facts(state={"memory": 10**9, "started": [1]})),
        "spaces of 10^18 numbers": lambda r: signed(r, huge_spaces),
        "a spec 10,000 deep": write("spec.json", b"[" * 10_000),
        "a spec of 50 MB": write("spec.json", b" " * 50_000_000),
        "pickle as spec": write("spec.json", pickled),
        "yaml as spec": write("spec.json", yaml),
        "code as spec": write("spec.json", code),
        "versions that are a list": write("versions.json", b"[1]"),
        "a pipe as spec": lambda r: fifo(r, "spec.json"),
        "a pipe as log": lambda r: fifo(r, "episodes.jsonl"),
        "a log that is a link": lambda r: link(r, "metrics.jsonl", victim),
        "a status that is a link": lambda r: link(r, ".status.json.tmp", victim),
        "checkpoints that are a link": lambda r: link(r, "checkpoint", victim.parent / "others"),
        "arrays that are a device": lambda r: link(r, f"checkpoint/{newest(r).name}/{ARRAYS}", Path("/dev/zero")),
        "a page that is a link": lambda r: link(r, "report.html", victim),
        "a page that is a pipe": lambda r: fifo(r, "report.html"),
        "a draft of the page that is a link": lambda r: link(r, ".report.html.tmp", victim),
        "figures that are a link": lambda r: link(r, "report-figures", victim.parent / "others"),
        "120,000 files": many,
    }


def crafted(folder: Path, done: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Every crafted directory with every command: exit codes, time, memory, and what was touched."""
    canary = folder / "canary"
    victim = folder / "victim"
    log = folder / "log"
    original = example(folder)
    known = {row["file"]: row for row in done if row["ok"]}
    usual = {}
    for words in COMMANDS:  # what each command takes on a good directory
        shutil.rmtree(folder / "hostile", ignore_errors=True)
        shutil.copytree(original, folder / "hostile")
        usual[words[0]] = command(log, words[0], folder / "hostile", *words[1:]).wait()
    for name, craft in hostile(canary, victim).items():
        if name in known:
            yield known[name]
            continue
        victim.write_text("precious")
        shutil.rmtree(folder / "others", ignore_errors=True)
        shutil.copytree(original / "checkpoint", folder / "others")
        (folder / "others" / "x.tmp").mkdir()
        before = sorted(os.listdir(folder / "others"))
        codes = []
        seconds = 0.0
        memory = 0.0
        tracebacks = 0
        for words in COMMANDS:
            root = folder / "hostile"
            shutil.rmtree(root, ignore_errors=True)
            shutil.copytree(original, root)
            craft(root)
            ended = command(log, words[0], root, *words[1:]).wait(600)
            codes.append(ended.code)
            seconds = max(seconds, ended.cpu - usual[words[0]].cpu)
            memory = max(memory, ended.peak_mb - usual[words[0]].peak_mb)
            tracebacks += "Traceback" in ended.output
        untouched = victim.read_text() == "precious" and sorted(os.listdir(folder / "others")) == before
        ok = tracebacks == 0 and untouched and not canary.exists() and all(c in CODES | {0} for c in codes)
        yield {
            "file": name,
            "codes": codes,
            "extra_cpu_seconds": round(seconds, 2),
            "extra_mb": round(memory),
            "ok": ok and (codes[0] in CODES or name in NOT_READ_BY_RESUME),
        }
