"""Files of a run directory that were spoiled at random and closed with the right digests: read or refused."""

import json
import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.reliability.files import example, newest, signed
from toppo import agent
from toppo.errors import ToppoError
from toppo.report.load import load as load_report
from toppo.rundir.checkpoint import ARRAYS, MANIFEST
from toppo.runs.spec import from_json
from toppo.studies.study import read_study

NASTY = (None, True, -1, 0, 2**63, 10**400, 1e308, "", "x" * 1000, "\x00", "../..", [], {}, [[]], {"": {}}, [None] * 9)


def spoiled_bytes(data: bytes, rng: random.Random) -> bytes:
    """A few bytes changed, cut out, doubled or put in."""
    spoiled = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(spoiled) + 1)
        size = rng.randint(0, 40)
        piece = spoiled[at : at + size]
        spoiled[at : at + size] = rng.choice((b"", rng.randbytes(size), piece * 2, b"9" * size))
    return bytes(spoiled)


def spoil_json(data: Any, rng: random.Random) -> None:
    """One value, somewhere, replaced by one that nobody would write; or a key that is gone, or new."""
    places = [data]
    for place in places:  # grows while it is walked
        values = place.values() if isinstance(place, dict) else place
        places += [v for v in values if isinstance(v, dict | list) and v]
    place = rng.choice(places)
    keys: Any = list(place) if isinstance(place, dict) else range(len(place))
    key = rng.choice(keys)
    kind = rng.randrange(8)
    if kind == 0:
        del place[key]
    elif kind == 1 and isinstance(place, dict):
        place[rng.choice(["", "new", "x" * 300])] = place[key]
    else:
        place[key] = rng.choice(NASTY)


def readers(folder: Path, count: int) -> dict[str, Any]:
    """``count`` spoiled files for each way in: an agent, a report, a spec, a study."""
    original = example(folder)
    rng = random.Random(0)
    root = folder / "fuzzed"
    shutil.copytree(original, root)
    manifest, arrays = (newest(root) / name for name in (MANIFEST, ARRAYS))
    whole = {p: p.read_bytes() for p in root.rglob("*") if p.is_file()}
    logs = [p for p in whole if p.suffix == ".jsonl" or p.name in ("spec.json", "versions.json")]
    study = folder / "fuzzed.json"
    grid = {
        "arms": [{"algo": "ppo", "settings": {"n_steps": 96}, "name": "a"}],
        "envs": ["E"],
        "total_timesteps": 9,
        "seeds": 2,
    }

    def checkpoint() -> None:
        way = rng.randrange(3)
        if way == 0:
            manifest.write_bytes(spoiled_bytes(whole[manifest], rng))
        elif way == 1:
            signed(root, lambda m: spoil_json(m["facts"], rng))
        else:
            signed(root, arrays=spoiled_bytes(whole[arrays][:6000], rng) + whole[arrays][6000:])
        agent.load(root)

    def report() -> None:
        path = rng.choice(logs)
        path.write_bytes(spoiled_bytes(whole[path], rng))
        load_report(root)

    def spec() -> None:
        data = json.loads(whole[root / "spec.json"])
        spoil_json(data, rng)
        from_json(data)

    def grids() -> None:
        data = json.loads(json.dumps({"schema": 2, "text": "", "grids": [grid]}))
        spoil_json(data, rng)
        study.write_text(json.dumps(data))
        read_study(study)

    ways: dict[str, Callable[[], None]] = {"agent": checkpoint, "report": report, "spec": spec, "study": grids}
    found: dict[str, Any] = {}
    for name, way in ways.items():
        outcomes: Counter[str] = Counter()
        for _ in range(count if name != "report" else count // 10):  # which reads everything, every time
            for path, data in whole.items():
                if path.stat().st_size != len(data) or path.read_bytes() != data:
                    path.write_bytes(data)
            outcomes[_outcome(way)] += 1
        found[name] = dict(outcomes)
    return found


def _outcome(way: Callable[[], None]) -> str:
    try:
        way()
    except ToppoError as refusal:
        return "refused" if "\n" not in str(refusal) else "refused in more than one line"
    except Exception as error:  # what this is all about
        return f"{type(error).__name__}: {error}"[:100]
    return "taken"
