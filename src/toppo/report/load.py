"""Runs from run directories and from the compact curves that outlive them.

A directory may come from a stranger: nothing in it is executed, followed out of it, or believed; what cannot be used
is named.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from toppo.errors import BAD_DATA, NO_INPUT, ToppoError
from toppo.rundir.curve import SERIES, compact
from toppo.rundir.layout import Layout, read_json
from toppo.rundir.log import read_lines

MOST_ENTRIES, MOST_LOG_BYTES, LONGEST_NAME = 20_000, 200_000_000, 60


class Run(NamedTuple):
    """One run on a grid of its steps."""

    arm: str
    algo: str
    env: str
    seed: int
    budget: int
    grid: np.ndarray
    returns: np.ndarray  # of the training episodes that ended between two points; NaN where none did
    series: dict[str, np.ndarray]
    tests: list[float]  # returns of the test episodes at the end
    evaluations: np.ndarray  # [tests during training, (step, mean return)]
    settings: dict[str, Any]
    versions: dict[str, str]
    seconds: float | None  # per thousand steps, median of its iterations


class Loaded(NamedTuple):
    """What a directory holds, and sentences about what could not be used."""

    runs: list[Run]
    problems: list[str]
    random: dict[str, float]  # return of a random policy, by environment


def load(root: Path) -> Loaded:
    """All runs in a directory: compact curves, run directories, and the curves of a study."""
    if not root.is_dir():
        raise ToppoError(f"{root} is not a directory: name one with runs or curves", NO_INPUT)
    runs: dict[str, Run] = {}
    problems: list[str] = []
    random: dict[str, float] = {}
    wanted: list[str] = []
    for path in _entries(root, problems):
        try:
            if path.is_dir():
                runs.setdefault(path.name, run_from_directory(path))
            elif path.name == "random.json":
                random |= _numbers(read_json(path)["returns"])
            elif path.name.startswith("study-"):
                wanted += [str(name) for name in read_json(path)["runs"]][:MOST_ENTRIES]
            else:
                run = run_from_curve(read_json(path), path.stem)
                runs[path.stem] = run._replace(seconds=runs[path.stem].seconds) if path.stem in runs else run
        except (ToppoError, KeyError, TypeError, ValueError, OSError, OverflowError) as error:
            problems.append(f"{clean(path.name)} is left out: {clean(_reason(error), 300)}")
    missing = [name for name in dict.fromkeys(wanted) if name not in runs]
    if missing:
        problems.append(f"{len(missing)} runs of the study are missing: {_some(missing)}")
    found, rest = _complete(list(runs.values()))
    if not found:
        raise ToppoError(f"{root} holds no finished run{': ' + problems[0] if problems else ''}", NO_INPUT)
    return Loaded(found, problems + rest + _doubts(found), random)


def run_from_curve(data: Any, name: str) -> Run:
    """A run from its compact curve."""
    spec, grid = data["spec"], _array(data["grid"])
    env, seed = clean(spec["env"]), int(spec["seed"])
    series = {key: _array(data[key]) for key in SERIES if key in data}
    returns = _array(data["return"])
    if not (grid.ndim == 1 and 0 < len(grid) <= 10_000 and np.all(np.diff(grid) > 0)):
        raise ValueError("its grid is not a growing list of steps")
    if any(a.shape != grid.shape for a in (returns, *series.values())):
        raise ValueError("its series are not as long as its grid")
    tests = _array(data.get("test_returns", []))
    evaluations = _array([x for pair in data.get("evaluations", []) for x in pair]).reshape(-1, 2)
    return Run(
        arm_of(name, clean(spec["algo"]), env, seed),
        clean(spec["algo"]),
        env,
        seed,
        int(spec["steps"]),
        grid,
        returns,
        series,
        tests[np.isfinite(tests)].tolist(),
        evaluations,
        {clean(k): _plain(v) for part in ("common", "config") for k, v in dict(spec.get(part, {})).items()},
        {clean(k): clean(v) for k, v in dict(data.get("versions", {})).items() if k != "schema"},
        None,
    )


def run_from_directory(root: Path) -> Run:
    """A run from its logs, or a sentence."""
    try:
        return _run_from_logs(root)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ToppoError(f"{root} is not a run that can be read: {clean(_reason(error), 300)}", BAD_DATA) from error


def _run_from_logs(root: Path) -> Run:
    layout = Layout(root)
    spec, versions = read_json(layout.spec), read_json(layout.versions)
    for log in (layout.episodes, layout.metrics, layout.timing):
        if not log.is_file() or log.is_symlink():
            raise ToppoError(f"{root} has no {log.name}: let it train first", NO_INPUT)
        if log.stat().st_size > MOST_LOG_BYTES:
            raise ToppoError(f"{log.name} has more than {MOST_LOG_BYTES:,} bytes")
    if not 0 < int(spec["steps"]) < 2**53:
        raise ValueError(f"steps is {spec['steps']}")
    rows = {name: _rows(getattr(layout, name)) for name in ("episodes", "metrics", "timing")}
    curve = compact(spec, versions, rows["episodes"], rows["metrics"])
    if layout.evaluations.is_file() and not layout.evaluations.is_symlink():
        curve["evaluations"] = [[e["step"], e["return"]] for e in _rows(layout.evaluations)]
    run = run_from_curve(curve, root.name)
    done = max((m["time/total_timesteps"] for m in rows["metrics"]), default=0)
    inside = run.grid <= done
    if done < run.budget:  # what is not there yet is not a series of gaps
        run = run._replace(grid=run.grid[inside], returns=run.returns[inside])
        run = run._replace(series={k: v[inside] for k, v in run.series.items()})
    return run._replace(seconds=_seconds(rows["timing"]))


def arm_of(name: str, algo: str, env: str, seed: int) -> str:
    """The arm in a name that a study gave, otherwise the algorithm."""
    tail = re.sub(r"[^A-Za-z0-9_.=+-]", "-", f"-{env}-{seed}")
    return clean(name.removesuffix(tail)) if name.endswith(tail) and name != tail else algo


def clean(text: Any, longest: int = LONGEST_NAME) -> str:
    """Text that can stand on a page and in a picture: printable, on one line, not too long."""
    plain = "".join(c if c.isprintable() else "?" for c in str(text)[: longest + 1])
    return plain if len(plain) <= longest else plain[: longest - 1] + "…"


def _entries(root: Path, problems: list[str]) -> Iterator[Path]:
    """Run directories before curves, in a fixed order; links, devices and what is not ours are not touched."""
    folders = [root / "curves"] if (root / "curves").is_dir() and not (root / "curves").is_symlink() else []
    names: list[Path] = []
    for folder in (root, *folders):
        for i, path in enumerate(folder.iterdir()):
            if i >= MOST_ENTRIES:
                problems.append(f"{clean(folder.name)} has more than {MOST_ENTRIES:,} entries: the rest is left out")
                break
            names.append(path)
    if Layout(root).spec.is_file():
        yield root
    links = [p.name for p in names if p.is_symlink()]
    if links:
        problems.append(f"{len(links)} links are not followed: {_some(links)}")
    plain = sorted(p for p in names if not p.is_symlink())
    yield from (p for p in plain if p.is_dir() and Layout(p).spec.is_file() and not Layout(p).spec.is_symlink())
    yield from (p for p in plain if p.is_file() and p.suffix == ".json" and not Layout(root).spec.is_file())


def _complete(runs: list[Run]) -> tuple[list[Run], list[str]]:
    """Runs that reached their budget, and a sentence about the others."""
    whole = [r for r in runs if len(r.grid) and r.grid[-1] >= r.budget]
    rest = [r for r in runs if not (len(r.grid) and r.grid[-1] >= r.budget)]
    names = [f"{r.arm} on {r.env}, seed {r.seed}" for r in rest]
    return whole, [f"{len(rest)} runs are not finished and are left out: {_some(names)}"] if rest else []


def _doubts(runs: list[Run]) -> list[str]:
    """Sentences about data that do not fit together."""
    found = []
    for env in sorted({r.env for r in runs}):
        here = [r for r in runs if r.env == env]
        counts = {arm: sum(r.arm == arm for r in here) for arm in sorted({r.arm for r in here})}
        if len(set(counts.values())) > 1:
            found.append(f"{env}: unequal numbers of runs ({', '.join(f'{a} {n}' for a, n in counts.items())})")
        budgets = sorted({r.budget for r in here})
        if len(budgets) > 1:
            found.append(f"{env}: runs of {' and '.join(f'{b:,}' for b in budgets)} steps; pairs share the smaller")
        for arm in counts:
            mine = [r for r in here if r.arm == arm]
            if len({r.seed for r in mine}) < len(mine):
                found.append(f"{env}: {arm} has one seed more than once")
            if any(r.settings != mine[0].settings for r in mine):
                found.append(f"{env}: the runs of {arm} do not all have the same settings")
    for package in sorted({k for r in runs for k in r.versions}):
        kinds = sorted({r.versions[package] for r in runs if package in r.versions})
        if len(kinds) > 1:
            found.append(f"the runs used different versions of {package}: {', '.join(kinds)}")
    return found


def _rows(path: Path) -> list[dict[str, Any]]:
    """Rows of a log whose numbers are finite numbers."""
    wanted = ("step", "return", "time/total_timesteps", *SERIES)
    good = []
    for row in read_lines(path):
        values = [row[k] for k in wanted if k in row]
        if all(type(v) in (int, float) and np.isfinite(v) and abs(v) < 1e300 for v in values):
            good.append(row)
    needed = {"episodes.jsonl": ("step", "return"), "evaluations.jsonl": ("step", "return")}
    return [r for r in good if all(k in r for k in needed.get(path.name, ("time/total_timesteps",)))]


def _seconds(rows: list[dict[str, Any]]) -> float | None:
    laps = []
    for i, row in enumerate(rows[1:], 1):
        steps = row["time/total_timesteps"] - rows[i - 1]["time/total_timesteps"]
        parts = [v for k, v in row.items() if k.startswith("time/") and k not in ("time/total_timesteps", "time/fps")]
        if steps > 0 and all(type(v) in (int, float) for v in parts):
            laps.append(sum(parts) * 1000 / steps)
    return median(laps) if laps else None


def _array(values: Any) -> np.ndarray:
    found = np.array([np.nan if v is None else v for v in values], np.float64)
    return np.where(np.abs(found) < 1e300, found, np.nan)


def _numbers(values: Any) -> dict[str, float]:
    return {clean(k): float(v) for k, v in dict(values).items() if type(v) in (int, float) and np.isfinite(v)}


def _plain(value: Any) -> Any:
    return clean(value) if not isinstance(value, bool | int | float) else value


def _some(names: list[str]) -> str:
    return ", ".join(map(clean, names[:5])) + (" and others" if len(names) > 5 else "")


def _reason(error: Exception) -> str:
    return f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error) or type(error).__name__
