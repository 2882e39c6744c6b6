"""Run the campaign, or parts of it, and write the report: ``python -m benchmarks.reliability --kills 200``."""

import argparse
import json
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.reliability import calls, faults, files, fuzz, kills, memory


def parts(given: argparse.Namespace, folder: Path) -> dict[str, Iterable[dict[str, Any]]]:
    """Every part of the campaign by name; nothing happens before it is iterated."""

    def done(name: str) -> list[dict[str, Any]]:
        path = given.out / f"{name}.json"
        return json.loads(path.read_text()) if given.go_on and path.is_file() else []

    return {
        "flips": (files.flips(folder, n) for n in [given.flips]),
        "fuzz": (fuzz.readers(folder, n) for n in [given.fuzz]),
        "truncations": (files.truncations(folder) for _ in [0]),
        "races": (faults.races(folder, n) for n in [given.races]),
        "environments": faults.environments(folder),
        "crafted": files.crafted(folder, done("crafted")),
        "calls": calls.calls(folder, given.out, given.go_on),
        "signals": faults.signals(folder),
        "disks": faults.disks(folder),
        "kills": kills.campaign(given.kills, folder / "kills", done("kills")),
        "memory": (memory.long_run(n, folder) for n in [given.steps]),
    }


def main() -> None:
    """Every part writes its results as they come, so that an interrupted campaign leaves what it has found."""
    parser = argparse.ArgumentParser(description="Faults, bad input and hostile files, on purpose and in numbers.")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--flips", type=int, default=1000)
    parser.add_argument("--fuzz", type=int, default=1000, help="files that are spoiled at random")
    parser.add_argument("--races", type=int, default=50)
    parser.add_argument("--steps", type=int, default=2_000_000, help="of the run whose memory is watched")
    parser.add_argument("--only", nargs="*", help="parts to run (default: all)")
    parser.add_argument("--out", type=Path, default=Path("docs/results/reliability"))
    parser.add_argument("--go-on", action="store_true", help="keep kills and crafted directories of the last report")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        for name, results in parts(given, Path(scratch)).items():
            if given.only and name not in given.only:
                continue
            given.out.mkdir(parents=True, exist_ok=True)
            rows = []
            for row in results:
                rows.append(row)
                (given.out / f"{name}.json").write_text(json.dumps(rows, indent=1) + "\n")
                print(name, {k: v for k, v in row.items() if k != "rows"}, flush=True)
            if name == "memory":
                memory.draw(rows[0], given.out / "memory.png")


if __name__ == "__main__":
    main()
