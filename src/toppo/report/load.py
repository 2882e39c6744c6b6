"""All runs of a directory, from run directories and from the compact curves that outlive them.

The directory is untrusted: nothing in it is executed, links are not followed, and the report names what it cannot use.
"""

import os
from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from toppo.errors import NO_INPUT, ToppoError
from toppo.report.curves import Json, Run, run_from_curve
from toppo.report.run_directories import run_from_directory
from toppo.report.text import clean, counted, first_names, reason, unique_name
from toppo.rundir.layout import Layout, read_json

MAX_ENTRIES = 20_000
FINAL_SHARE = 0.1  # the final return is the mean over this last part of the steps


class Loaded(NamedTuple):
    """The runs of a directory, and sentences about what could not be used."""

    runs: list[Run]
    problems: list[str]
    random: dict[str, float]  # return of a random policy, by environment


def load(*roots: Path, only: Collection[str] = ()) -> Loaded:
    """Load all runs of some directories, or only the runs with the names in ``only``."""
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
                random |= _random_returns(read_json(path)["returns"])
            elif name.startswith("study-"):
                wanted += [str(run) for run in read_json(path)["runs"]][:MAX_ENTRIES]
            else:
                run = run_from_curve(read_json(path), name)
                if name in runs:  # a curve has no run times and no logs
                    run = run._replace(seconds=runs[name].seconds, damage=runs[name].damage)
                runs[name] = run
        except (ToppoError, KeyError, TypeError, ValueError, OSError, OverflowError) as error:
            problems.append(f"{clean(path.name)} is left out: {clean(reason(error), 300)}")
    if missing := [name for name in dict.fromkeys(wanted) if name not in runs]:
        problems.append(f"missing from the study: {counted('run', len(missing))} ({first_names(missing)})")
    found = _usable(list(runs.values()), problems)
    if not found:
        why = f": {problems[0]}" if problems else ""
        raise ToppoError(f"{', '.join(map(str, roots))} holds no finished run with a return{why}", NO_INPUT)
    return Loaded(found, problems + _doubts(found), random)


def name_of(run: Run) -> str:
    """Return the name of a run in sentences."""
    return f"{run.arm} on {run.env}, seed {run.seed}"


def _entries(root: Path, problems: list[str]) -> Iterator[Path]:
    """Yield directories, then curves, in a fixed order; leave out links, devices and all other files."""
    if not os.path.isdir(root):
        raise ToppoError(f"{root} is not a directory: name one with runs or curves", NO_INPUT)
    names = _listed(root, problems)
    curves = root / "curves"
    if os.path.isdir(curves) and not os.path.islink(curves):
        names += _listed(curves, problems)
    if links := [p.name for p in names if os.path.islink(p)]:
        problems.append(f"not followed: {counted('link', len(links))} ({first_names(links)})")
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


def _random_returns(values: Json) -> dict[str, float]:
    return {unique_name(k): float(v) for k, v in dict(values).items() if type(v) in (int, float) and np.isfinite(v)}


def _usable(runs: list[Run], problems: list[str]) -> list[Run]:
    """Return the runs that reached their budget and have a return; name the others in ``problems``."""
    complete = [r for r in runs if len(r.grid) and r.grid[-1] >= r.budget]
    if rest := [name_of(r) for r in runs if not (len(r.grid) and r.grid[-1] >= r.budget)]:
        problems.append(f"not finished and left out: {counted('run', len(rest))} ({first_names(rest)})")
    problems += [f"{name_of(r)}: no episode ended, and the run is left out" for r in complete if _is_empty(r.returns)]
    return [r for r in complete if not _is_empty(r.returns)]


def _is_empty(returns: np.ndarray) -> bool:
    return bool(np.isnan(returns).all())


def _doubts(runs: list[Run]) -> list[str]:
    """Return sentences about data that are damaged, few, or do not fit together."""
    found = [f"{name_of(r)}: {sentence}" for r in runs for sentence in r.damage]
    found += [
        f"{name_of(r)}: no episode ended in the last tenth of its steps; its final return is that of earlier episodes"
        for r in runs
        if _is_empty(r.returns[r.grid > r.budget * (1 - FINAL_SHARE)])
    ]
    for env in sorted({r.env for r in runs}):
        found += _doubts_on(env, [r for r in runs if r.env == env])
    for package in sorted({k for r in runs for k in r.versions}):
        if len(kinds := sorted({r.versions[package] for r in runs if package in r.versions})) > 1:
            found.append(f"the runs used different versions of {package}: {', '.join(kinds)}")
    return found


def _doubts_on(env: str, runs: list[Run]) -> list[str]:
    found = []
    arms = {arm: [r for r in runs if r.arm == arm] for arm in sorted({r.arm for r in runs})}
    if len({len(mine) for mine in arms.values()}) > 1:
        counts = ", ".join(f"{arm} {len(mine)}" for arm, mine in arms.items())
        found.append(f"{env}: unequal numbers of runs ({counts})")
    if len(budgets := sorted({r.budget for r in runs})) > 1:
        steps = " and ".join(f"{budget:,}" for budget in budgets)
        found.append(f"{env}: runs of {steps} steps; pairs and scores use the fewest steps")
    for arm, mine in arms.items():
        if len({r.seed for r in mine}) < len(mine):
            found.append(f"{env}: {arm} has one seed more than once")
        if any(r.settings != mine[0].settings for r in mine):
            found.append(f"{env}: the runs of {arm} do not all have the same settings")
    return found
