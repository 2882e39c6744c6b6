"""Two runs at once, the time to the first update, and memory: what a machine must give before the first result.

    python -m benchmarks.limits [--env HalfCheetah-v5] [--repeats 3]

Two runs at once: ToPPO, one process each, bound to a core each, beside two copies of the bare simulator bound in the
same way; the gain of the runs over the gain of the simulators.  Start: from the command to the first logged
update, with an empty cache of compiled programs and with a full one.  Memory: the most that a run of 40 iterations with
one worker held, by process.  The table goes to docs/results/limits.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.page import write_page

CORES = sorted(os.sched_getaffinity(0))[:2]
RUN = ["toppo", "toppo", "1", "0"]
SIMULATOR = ["simulator", "0"]


def speeds(env_id: str, row: list[str], copies: int) -> float:
    """Steps per second of so many copies together, each bound to a core."""
    command = [sys.executable, "-m", "benchmarks.throughput", "--one", env_id, *row]
    bound = [["taskset", "-c", str(core), *command] for core in CORES[:copies]]
    children = [subprocess.Popen(c, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) for c in bound]
    answers = [child.communicate()[0] for child in children]
    return sum(json.loads(answer.strip().splitlines()[-1])["steps_per_second"] for answer in answers)


def train(env_id: str, folder: Path, steps: int, cache: Path) -> subprocess.Popen:
    """A run in a process of its own, with its compiled programs kept in ``cache``."""
    code = "import sys; from toppo.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "train", env_id, "--total-timesteps", str(steps), "--out", str(folder)]
    environment = os.environ | {"XDG_CACHE_HOME": str(cache)}
    return subprocess.Popen([*command, "--workers", "1"], env=environment, stdout=subprocess.DEVNULL)


def seconds_to_the_first_update(env_id: str, cache: Path) -> float:
    """From the command to the first line of metrics."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "run"
        began = time.perf_counter()
        child = train(env_id, root, 2048, cache)
        while count_lines(root / "metrics.jsonl") < 2 and child.poll() is None:
            time.sleep(0.01)
        seconds = time.perf_counter() - began
        if child.wait():
            sys.exit(f"the run on {env_id} failed")
    return seconds


def count_lines(path: Path) -> int:
    """Whole lines of a file that may not be there yet."""
    return path.read_bytes().count(b"\n") if path.is_file() else 0


def most_memory(env_id: str, cache: Path) -> dict[str, float]:
    """Megabytes that the process that trains and its worker held at most."""
    with tempfile.TemporaryDirectory() as folder:
        child = train(env_id, Path(folder) / "run", 40 * 1024, cache)
        most: dict[str, float] = {}
        while child.poll() is None:
            for name, pid in [("training", child.pid), *(("worker", pid) for pid in children_of(child.pid))]:
                most[name] = max(most.get(name, 0.0), peak(pid))
            time.sleep(0.05)
    return most


def children_of(pid: int) -> list[int]:
    """Processes that a process has started."""
    try:
        return [int(x) for x in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def peak(pid: int) -> float:
    """Megabytes of memory that a process held at most; 0 if it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="HalfCheetah-v5")
    parser.add_argument("--repeats", type=int, default=3)
    a = parser.parse_args()
    rows: dict[str, list[float]] = {}
    gains: dict[str, list[float]] = {"runs": [], "simulators": []}
    for _ in range(a.repeats):  # alternating, since machines have moods
        for name, row in (("runs", RUN), ("simulators", SIMULATOR)):
            one = speeds(a.env, row, 1)
            two = speeds(a.env, row, 2)
            gains[name].append(two / one)
            print(f"two {name}: {two:,.0f} steps/s, one {one:,.0f}", flush=True)
    rows["two runs, times one"] = gains["runs"]
    rows["two bare simulators, times one"] = gains["simulators"]
    rows["the gain of two runs, of that of two simulators"] = [
        r / s for r, s in zip(gains["runs"], gains["simulators"], strict=True)
    ]
    with tempfile.TemporaryDirectory() as kept:
        cold = []
        warm = []
        for i in range(a.repeats):
            cache = Path(kept) / str(i)
            cold.append(seconds_to_the_first_update(a.env, cache))
            warm.append(seconds_to_the_first_update(a.env, cache))
        rows["seconds to the first update, nothing compiled before"] = cold
        rows["seconds to the first update, compiled before"] = warm
        memory = [most_memory(a.env, cache) for _ in range(a.repeats)]
    for part in memory[0]:
        rows[f"megabytes of the {part} process at most"] = [found[part] for found in memory]
    lines = ["| | median | range |", "|---|---:|---:|"]
    lines += [f"| {n} | {statistics.median(v):.3g} | {min(v):.3g} to {max(v):.3g} |" for n, v in rows.items()]
    write_page("limits", f"Limits, {a.env}", lines, rows)


if __name__ == "__main__":
    main()
