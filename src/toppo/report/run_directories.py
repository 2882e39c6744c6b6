"""One run, read from the logs of its run directory."""

from collections.abc import Collection, Mapping
from pathlib import Path
from statistics import median
from typing import TypeGuard

from toppo.errors import BAD_DATA, NO_INPUT, ToppoError
from toppo.report.curves import MAX_NUMBER, Json, Run, checked_spec, run_from_curve
from toppo.report.text import clean, counted, reason
from toppo.rundir.curve import SERIES, compact
from toppo.rundir.jsonl import rows_and_gaps
from toppo.rundir.layout import Layout, read_json
from toppo.rundir.progress import STOPPED_BY, progress_of

MAX_LOG_BYTES = 200_000_000
MAX_BAD_LINES = 1_000


def run_from_directory(root: Path, arms: Collection[str] = ()) -> Run:
    """Read a run from its logs, or raise a sentence; ``arms`` are those that studies name."""
    try:
        return _run_from_logs(root, arms)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ToppoError(f"{root} is not a run that can be read: {clean(reason(error), 300)}", BAD_DATA) from error


def _run_from_logs(root: Path, arms: Collection[str]) -> Run:
    layout = Layout(root)
    spec = checked_spec(read_json(layout.spec))
    for log in (layout.episodes, layout.metrics, layout.timing):
        if not log.is_file() or log.is_symlink():
            raise ToppoError(f"{root} has no {log.name}: let it train first", NO_INPUT)
        if log.stat().st_size > MAX_LOG_BYTES:
            raise ToppoError(f"{log.name} has more than {MAX_LOG_BYTES:,} bytes")
    planned = int(spec["total_timesteps"])
    if not 0 < planned < 2**53:
        raise ValueError(f"total_timesteps is {spec['total_timesteps']}")
    damage: list[str] = []
    metrics = _rows(layout.metrics, damage)
    timing = _rows(layout.timing, damage)
    done = max((int(m["time/total_timesteps"]) for m in metrics), default=0)
    if stopped_by := _stopped_by(root) if done else "":
        spec = {**spec, "total_timesteps": min(done, planned)}
    curve = compact(spec, read_json(layout.versions), _rows(layout.episodes, damage), metrics)
    if layout.evaluations.is_file() and not layout.evaluations.is_symlink():
        curve["evaluations"] = [[e["step"], e["return"]] for e in _rows(layout.evaluations, damage)]
    run = run_from_curve(curve, root.name, arms)
    if done < run.budget:  # the steps that are still to come are not a series of gaps
        inside = run.grid <= done
        series = {name: values[inside] for name, values in run.series.items()}
        run = run._replace(grid=run.grid[inside], returns=run.returns[inside], series=series)
    return run._replace(
        seconds=_seconds(timing), damage=tuple(damage), root=root, stopped_by=stopped_by, planned=planned
    )


def _stopped_by(root: Path) -> str:
    """Return the callback that ended a run before its time, if one did."""
    progress = progress_of(root)
    by_callback = progress.state == "stopped" and progress.message.startswith(STOPPED_BY)
    return clean(progress.message.removeprefix(STOPPED_BY), 100) if by_callback else ""


def _rows(path: Path, damage: list[str]) -> list[Json]:
    """Return the rows of a log that have the numbers they need; add the count of all other lines to ``damage``."""
    needed = ("step", "return") if path.stem in ("episodes", "evaluations") else ("time/total_timesteps",)
    good: list[Json] = []
    bad = 0
    for row in rows_and_gaps(path):
        if row is not None and _are_numbers([row.get(k) for k in needed] + [row[k] for k in SERIES if k in row]):
            good.append(row)
        else:
            bad += 1
        if bad > MAX_BAD_LINES:
            raise ToppoError(f"{path.name} has more than {MAX_BAD_LINES:,} lines that cannot be read", BAD_DATA)
    if bad:
        damage.append(f"{path.name} has {counted('line', bad)} that cannot be read")
    return good


def _are_numbers(values: list[object]) -> bool:
    return all(map(is_number, values))


def is_number(value: object) -> TypeGuard[int | float]:
    """Tell whether a value of a log can be counted with: it is not NaN, infinite, or beyond all measure."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < MAX_NUMBER


def numeric_rows(path: Path) -> list[Mapping[str, float]]:
    """Return the numbers in the rows of a log."""
    return [numbers_in(row) for row in rows_and_gaps(path) if row]


def numbers_in(row: Json) -> dict[str, float]:
    """Return the numbers in a row of a log."""
    return {k: float(v) for k, v in row.items() if _are_numbers([v])}


def seconds_of(row: Mapping[str, float]) -> float:
    """Return the seconds of an iteration: the parts that its row in the log of times has."""
    return sum(v for k, v in row.items() if k.startswith("time/") and k not in ("time/total_timesteps", "time/fps"))


def _seconds(rows: list[Json]) -> float | None:
    """Return the median over iterations of the seconds per thousand steps."""
    laps = []
    for i, row in enumerate(rows[1:], 1):
        steps = row["time/total_timesteps"] - rows[i - 1]["time/total_timesteps"]
        if steps > 0 and _are_numbers([v for k, v in row.items() if k.startswith("time/")]):
            laps.append(seconds_of(row) * 1000 / steps)
    return median(laps) if laps else None
