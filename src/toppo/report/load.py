"""Runs from run directories and from the compact curves that outlive them.

A directory may come from a stranger: nothing in it is executed, followed out of it, or believed; what cannot be used
is named.
"""

import os
import re
from collections.abc import Collection, Iterator
from hashlib import sha256
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from toppo.errors import BAD_DATA, NO_INPUT, ToppoError
from toppo.rundir.curve import SERIES, compact
from toppo.rundir.jsonl import rows_and_gaps
from toppo.rundir.layout import Layout, read_json

MAX_ENTRIES, MAX_LOG_BYTES, MAX_BAD_LINES, MAX_NAME = 20_000, 200_000_000, 1_000, 60
FINAL_SHARE = 0.1  # the final return is the mean over this last part of the steps


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
    seconds: float | None = None  # per thousand steps, median of its iterations
    damage: tuple[str, ...] = ()  # what of its logs could not be read


class Loaded(NamedTuple):
    """What a directory holds, and sentences about what could not be used."""

    runs: list[Run]
    problems: list[str]
    random: dict[str, float]  # return of a random policy, by environment


def load(*roots: Path, only: Collection[str] = ()) -> Loaded:
    """All runs in some directories, from run directories and compact curves; with ``only``, the runs of these names."""
    runs: dict[str, Run] = {}
    problems: list[str] = []
    random: dict[str, float] = {}
    wanted: list[str] = list(only)
    for path in (p for root in roots for p in _entries(root, problems)):
        name = path.stem if path.is_file() else path.name
        if only and name not in only and name != "random":
            continue
        try:
            if path.is_dir():
                if Layout(path).spec.is_file() and not Layout(path).spec.is_symlink():
                    runs.setdefault(name, run_from_directory(path))
            elif name == "random":
                random |= _numbers(read_json(path)["returns"])
            elif name.startswith("study-"):
                wanted += [str(run) for run in read_json(path)["runs"]][:MAX_ENTRIES]
            else:
                run = run_from_curve(read_json(path), name)
                runs[name] = run._replace(**_only_in_logs(runs[name])) if name in runs else run
        except (ToppoError, KeyError, TypeError, ValueError, OSError, OverflowError) as error:
            problems.append(f"{clean(path.name)} is left out: {clean(_reason(error), 300)}")
    missing = [name for name in dict.fromkeys(wanted) if name not in runs]
    if missing:
        problems.append(f"missing from the study: {counted(len(missing), 'run')} ({_some(missing)})")
    found = _usable(list(runs.values()), problems)
    if not found:
        why = f": {problems[0]}" if problems else ""
        raise ToppoError(f"{', '.join(map(str, roots))} holds no finished run with a return{why}", NO_INPUT)
    return Loaded(found, problems + _doubts(found), random)


def run_from_curve(data: Any, name: str) -> Run:
    """A run from its compact curve."""
    spec, grid = data["spec"], _array(data["grid"])
    algo, seed = named(spec["algo"]), int(spec["seed"])
    series = {key: _array(data[key]) for key in SERIES if key in data}
    returns = _array(data["return"])
    if not (grid.ndim == 1 and 0 < len(grid) <= 10_000 and np.all(np.diff(grid) > 0)):
        raise ValueError("its grid is not a growing list of steps")
    if any(a.shape != grid.shape for a in (returns, *series.values())):
        raise ValueError("its series are not as long as its grid")
    tests = _array(data.get("test_returns", []))
    evaluations = _array([x for pair in data.get("evaluations", []) for x in pair]).reshape(-1, 2)
    if not np.all(np.diff(evaluations[:, 0], prepend=-1) > 0):  # false also of a step that is no number
        raise ValueError("its tests during training are not at growing steps")
    return Run(
        arm_of(name, algo, str(spec["env"]), seed),
        algo,
        named(spec["env"]),
        seed,
        int(spec["total_timesteps"]),
        grid,
        returns,
        series,
        tests[np.isfinite(tests)].tolist(),
        evaluations,
        {clean(k): _plain(v) for part in ("common", "config") for k, v in dict(spec.get(part, {})).items()},
        {clean(k): clean(v) for k, v in dict(data.get("versions", {})).items() if k != "schema"},
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
        if log.stat().st_size > MAX_LOG_BYTES:
            raise ToppoError(f"{log.name} has more than {MAX_LOG_BYTES:,} bytes")
    if not 0 < int(spec["total_timesteps"]) < 2**53:
        raise ValueError(f"total_timesteps is {spec['total_timesteps']}")
    damage: list[str] = []
    rows = {name: _rows(getattr(layout, name), damage) for name in ("episodes", "metrics", "timing")}
    curve = compact(spec, versions, rows["episodes"], rows["metrics"])
    if layout.evaluations.is_file() and not layout.evaluations.is_symlink():
        curve["evaluations"] = [[e["step"], e["return"]] for e in _rows(layout.evaluations, damage)]
    run = run_from_curve(curve, root.name)
    done = max((m["time/total_timesteps"] for m in rows["metrics"]), default=0)
    inside = run.grid <= done
    if done < run.budget:  # what is not there yet is not a series of gaps
        run = run._replace(grid=run.grid[inside], returns=run.returns[inside])
        run = run._replace(series={k: v[inside] for k, v in run.series.items()})
    return run._replace(seconds=_seconds(rows["timing"]), damage=tuple(damage))


def _only_in_logs(run: Run) -> dict[str, Any]:
    """What a compact curve does not keep of its run."""
    return {"seconds": run.seconds, "damage": run.damage}


def arm_of(name: str, algo: str, env: str, seed: int) -> str:
    """The arm in a name that a study gave, otherwise the algorithm."""
    tail = re.sub(r"[^A-Za-z0-9_.=+-]", "-", f"-{env}-{seed}")
    return named(name.removesuffix(tail)) if name.endswith(tail) and name != tail else algo


def named(text: Any) -> str:
    """A name as it stands on a page; one that had to be changed for that ends in a digest, so that two remain two."""
    whole, plain = str(text), clean(text)
    if plain == whole:
        return plain
    digest = sha256(whole.encode(errors="surrogatepass")).hexdigest()
    return f"{clean(whole, MAX_NAME - 7)}#{digest[:6]}"


def clean(text: Any, longest: int = MAX_NAME) -> str:
    """Text that can stand on a page and in a picture: printable, on one line, not too long."""
    plain = "".join(c if c.isprintable() else "?" for c in str(text)[: longest + 1])
    return plain if len(plain) <= longest else plain[: longest - 1] + "…"


def _entries(root: Path, problems: list[str]) -> Iterator[Path]:
    """Directories before curves, in a fixed order; links, devices and what is not ours are not touched."""
    if not os.path.isdir(root):
        raise ToppoError(f"{root} is not a directory: name one with runs or curves", NO_INPUT)
    names, curves = _listed(root, problems), root / "curves"
    if os.path.isdir(curves) and not os.path.islink(curves):
        names += _listed(curves, problems)
    links = [p.name for p in names if os.path.islink(p)]
    if links:
        problems.append(f"not followed: {counted(len(links), 'link')} ({_some(links)})")
    plain = sorted(p for p in names if not os.path.islink(p))
    is_run = os.path.isfile(Layout(root).spec)
    yield from [root] if is_run else []
    yield from (p for p in plain if os.path.isdir(p))
    yield from (p for p in plain if os.path.isfile(p) and p.suffix == ".json" and not is_run)


def _listed(folder: Path, problems: list[str]) -> list[Path]:
    try:
        names = list(islice(folder.iterdir(), MAX_ENTRIES + 1))
    except OSError as error:
        problems.append(f"{clean(folder.name)} is left out: {error.strerror}")
        return []
    if len(names) > MAX_ENTRIES:
        problems.append(f"{clean(folder.name)} has more than {MAX_ENTRIES:,} entries: the rest is left out")
    return names[:MAX_ENTRIES]


def _usable(runs: list[Run], problems: list[str]) -> list[Run]:
    """Runs that reached their budget and have a return; the others are named."""
    whole = [r for r in runs if len(r.grid) and r.grid[-1] >= r.budget]
    rest = [name_of(r) for r in runs if not (len(r.grid) and r.grid[-1] >= r.budget)]
    if rest:
        problems.append(f"not finished and left out: {counted(len(rest), 'run')} ({_some(rest)})")
    problems += [f"{name_of(r)}: no episode ended, and the run is left out" for r in whole if _silent(r.returns)]
    return [r for r in whole if not _silent(r.returns)]


def name_of(run: Run) -> str:
    """The run as sentences call it."""
    return f"{run.arm} on {run.env}, seed {run.seed}"


def _silent(returns: np.ndarray) -> bool:
    return bool(np.isnan(returns).all())


def _doubts(runs: list[Run]) -> list[str]:
    """Sentences about data that are damaged, thin, or do not fit together."""
    found = [f"{name_of(r)}: {sentence}" for r in runs for sentence in r.damage]
    found += [
        f"{name_of(r)}: no episode ended in the last tenth of its steps; its final return is of those before"
        for r in runs
        if _silent(r.returns[r.grid > r.budget * (1 - FINAL_SHARE)])
    ]
    for env in sorted({r.env for r in runs}):
        here = [r for r in runs if r.env == env]
        counts = {arm: sum(r.arm == arm for r in here) for arm in sorted({r.arm for r in here})}
        if len(set(counts.values())) > 1:
            found.append(f"{env}: unequal numbers of runs ({', '.join(f'{a} {n}' for a, n in counts.items())})")
        budgets = sorted({r.budget for r in here})
        if len(budgets) > 1:
            found.append(
                f"{env}: runs of {' and '.join(f'{b:,}' for b in budgets)} steps; pairs and scores share the fewest"
            )
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


def _rows(path: Path, damage: list[str]) -> list[dict[str, Any]]:
    """Rows of a log that have what they need, in numbers; how many lines are not such is added to ``damage``."""
    needed = ("step", "return") if path.stem in ("episodes", "evaluations") else ("time/total_timesteps",)
    good, bad = [], 0
    for row in rows_and_gaps(path):
        if row is not None and _in_numbers([row.get(k) for k in needed] + [row[k] for k in SERIES if k in row]):
            good.append(row)
        else:
            bad += 1
        if bad > MAX_BAD_LINES:
            raise ToppoError(f"{path.name} has more than {MAX_BAD_LINES:,} lines that cannot be read", BAD_DATA)
    if bad:
        damage.append(f"{path.name} has {counted(bad, 'line')} that cannot be read")
    return good


def _in_numbers(values: list[Any]) -> bool:
    return all(type(v) in (int, float) and abs(v) < 1e300 for v in values)  # NaN is not below anything


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
    return {named(k): float(v) for k, v in dict(values).items() if type(v) in (int, float) and np.isfinite(v)}


def _plain(value: Any) -> Any:
    return clean(value) if not isinstance(value, bool | int | float) else value


def _some(names: list[str]) -> str:
    return ", ".join(map(clean, names[:5])) + (" and others" if len(names) > 5 else "")


def counted(number: int, noun: str) -> str:
    """1 run, 2 runs."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error) or type(error).__name__
