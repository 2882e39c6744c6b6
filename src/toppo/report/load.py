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
from toppo.report.arms import Defaults, Member, no_defaults, told_apart
from toppo.report.curves import Json, Run, run_from_curve
from toppo.report.doubts import doubts_about, has_return, name_of
from toppo.report.run_directories import run_from_directory
from toppo.report.text import clean, counted, first_names, reason, unique_name
from toppo.rundir.layout import Layout, read_json
from toppo.rundir.progress import Progress, progress_of

MAX_ENTRIES = 20_000
UNREADABLE = (ToppoError, KeyError, TypeError, ValueError, AttributeError, OSError, OverflowError)


class Unfinished(NamedTuple):
    """A run that a study has begun, or is going to begin."""

    name: str
    run: Run | None  # None before its first step
    progress: Progress


class Loaded(NamedTuple):
    """The runs of a directory, and sentences about what could not be used."""

    runs: list[Run]
    problems: list[str]
    random: dict[str, float]  # return of a random policy, by environment
    unfinished: tuple[Unfinished, ...] = ()


def load(*roots: Path, only: Collection[str] = (), defaults: Defaults = no_defaults) -> Loaded:
    """Load the finished runs of some directories, or only the runs with the names in ``only``."""
    found = read_all(*roots, only=only, defaults=defaults)
    problems = list(found.problems)
    complete = [r for r in found.runs if is_finished(r)]
    names = [name_of(u.run) for u in found.unfinished if u.run is not None]
    if names:
        problems.append(f"not finished and left out: {counted('run', len(names))} ({first_names(names)})")
    if waiting := [u.name for u in found.unfinished if u.run is None]:
        problems.append(f"missing from the study: {counted('run', len(waiting))} ({first_names(waiting)})")
    problems += [f"{name_of(r)}: no episode ended, and the run is left out" for r in complete if not has_return(r)]
    usable = [r for r in complete if has_return(r)]
    if not usable:
        where = ", ".join(map(str, roots))
        if names:
            begun = counted("run", len(names))
            raise ToppoError(f"{where} holds no finished run, but {begun} in progress: use `toppo plot`", NO_INPUT)
        why = f": {problems[0]}" if problems else ""
        raise ToppoError(f"{where} holds no finished run with a return{why}", NO_INPUT)
    return found._replace(runs=usable, problems=problems + doubts_about(usable))


def read_all(*roots: Path, only: Collection[str] = (), defaults: Defaults = no_defaults) -> Loaded:
    """Read all runs of some directories, finished or not; runs of different settings get different arms."""
    problems: list[str] = []
    entries = list({os.path.realpath(path): path for root in roots for path in entries_of(root, problems)}.values())
    arms, wanted = studies_in([p for p in entries if is_study(p)], problems)
    random: dict[str, float] = {}
    runs: dict[Path, Run] = {}
    directories: dict[str, Path] = {}
    for path in (p for p in entries if not is_study(p)):
        name = _name(path)
        if only and name not in only and name != "random":
            continue
        try:
            if path.is_dir():
                if Layout(path).spec.is_file() and not Layout(path).spec.is_symlink():
                    runs[path] = run_from_directory(path, arms)
                    directories[name] = path
            elif name == "random":
                random |= _random_returns(read_json(path)["returns"])
            else:
                run = run_from_curve(read_json(path), name, arms)
                logged = runs.get(directories.get(name, path))
                if logged is not None and _spec(logged) == _spec(run):  # a curve has no run times and no logs
                    path = directories[name]
                    run = run._replace(seconds=logged.seconds, damage=logged.damage, root=logged.root)
                runs[path] = run
        except UNREADABLE as error:
            problems.append(f"{clean(path.name)} is left out: {clean(reason(error), 300)}")
    members = [
        Member(r.arm, r.algo, r.env, {**r.settings, "total_timesteps": r.planned or r.budget}) for r in runs.values()
    ]
    named = [r._replace(arm=a) for r, a in zip(runs.values(), told_apart(members, defaults), strict=True)]
    unfinished = [
        Unfinished(clean(_name(path)), run, progress_of(path))
        for path, run in zip(runs, named, strict=True)
        if not is_finished(run)
    ]
    present = {_name(path) for path in runs}
    missing = [n for n in dict.fromkeys([*only, *wanted]) if n not in present]
    unfinished += [Unfinished(clean(n), None, Progress("waiting", 0, "")) for n in missing]
    return Loaded(named, problems, random, tuple(unfinished))


def is_finished(run: Run) -> bool:
    """Tell whether a run has reached its budget, or was stopped early by a callback."""
    return len(run.grid) > 0 and bool(run.grid[-1] >= run.budget)


def _name(path: Path) -> str:
    """Return the name of a run from that of its directory or curve."""
    return path.stem if path.suffix == ".json" else path.name


def _spec(run: Run) -> tuple[object, ...]:
    return (run.algo, run.env, run.seed, run.budget, run.settings)


def is_study(path: Path) -> bool:
    """Tell whether a file is the definition of a study."""
    return path.name.startswith("study-") and path.suffix == ".json" and path.is_file()


def studies_in(files: list[Path], problems: list[str]) -> tuple[list[str], list[str]]:
    """Return the names of the arms and of the runs of some studies."""
    arms: list[str] = []
    runs: list[str] = []
    for path in files:
        try:
            data = read_json(path)
            runs += [str(run) for run in data["runs"]][:MAX_ENTRIES]
            arms += [str(arm["name"]) for grid in data.get("grids", []) for arm in grid["arms"]]
        except UNREADABLE as error:
            problems.append(f"{clean(path.name)} is left out: {clean(reason(error), 300)}")
    return arms, runs


def entries_of(root: Path, problems: list[str]) -> Iterator[Path]:
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
