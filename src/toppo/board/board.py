"""What the page shows: all runs of a directory, as JSON data.  The directory is untrusted."""

import time
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from toppo.board.thinned import Points, mean_curve
from toppo.board.watched import Video, View, Watched, WatchedCurve, WatchedRun
from toppo.errors import NO_INPUT, ToppoError
from toppo.plotting import colours_of
from toppo.report.arms import Defaults, natural, no_defaults, told_apart
from toppo.report.load import UNREADABLE, entries_of, is_study, studies_in
from toppo.report.plot import RETURN, TEST_RETURN
from toppo.report.text import clean, reason
from toppo.rundir.layout import Layout

SECONDS_BETWEEN_LOOKS = 1.0
SECONDS_TO_READ = 1.0  # in a look; what is left is read in the next ones
MAX_RUNS = 2_000
MAX_PROBLEMS = 20
RECENT_TESTS = 12
ORDER = ("running", "starting", "failed", "interrupted", "stopped", "finished", "waiting")


class Shown(NamedTuple):
    """A run, its view, and the arm that it is shown in."""

    watched: Watched
    view: View
    arm: str


class Board:
    """The runs of a run directory, of a study, or of a directory with either."""

    def __init__(self, root: Path, defaults: Defaults = no_defaults) -> None:
        """Look for the first time, or refuse a directory without runs."""
        self.root = root
        self.title = clean(root.resolve().name)
        self._defaults = defaults
        self._lock = Lock()
        self._known: dict[Path, Watched] = {}
        self._shown: list[Shown] = []
        self._waiting: list[str] = []
        self._problems: list[str] = []
        self._unread = 0  # runs that the last look had no time to read
        self._next_look = 0.0
        self._look()
        if not self._shown and not self._waiting:
            why = f": {self._problems[0]}" if self._problems else ": name a run directory or a study"
            raise ToppoError(f"there is no run in {root}{why}", NO_INPUT)

    def snapshot(self, metric: str = RETURN) -> dict[str, object]:
        """Return all that the page shows, with the curves of a metric."""
        with self._lock:
            if time.monotonic() >= self._next_look:
                self._look()
            names = sorted({name for s in self._shown for name in s.watched.metrics()}, key=_rank)
            chosen = metric if metric in names else RETURN
            return {
                "title": self.title,
                "metric": chosen,
                "metrics": names,
                "total": _total([s.view for s in self._shown], len(self._waiting)),
                "runs": [_row(s) for s in self._shown] + [_waiting(name) for name in self._waiting],
                "panels": _panels(self._shown, chosen),
                "unread": self._unread,
                "problems": self._problems[:MAX_PROBLEMS],
            }

    def video(self, key: str) -> Video | None:
        """Return the newest video of the run with this key."""
        with self._lock:
            return next((s.view.video for s in self._shown if s.view.key == key), None)

    def _look(self) -> None:
        self._problems = []
        entries = list(entries_of(self.root, self._problems))
        if Layout(self.root).spec.is_file():
            entries = [self.root]
        arms, wanted = studies_in([p for p in entries if is_study(p)], self._problems)
        self._known = {path: self._known.get(path) or _watch(path, arms) for path in _runs_in(entries)}
        end = time.monotonic() + SECONDS_TO_READ
        self._unread = 0
        views = {path: view for path, watched in self._known.items() if (view := self._view(path, watched, end))}
        names = told_apart([view.member for view in views.values()], self._defaults)
        shown = [Shown(self._known[path], view, arm) for (path, view), arm in zip(views.items(), names, strict=True)]
        self._shown = sorted(shown, key=lambda s: (ORDER.index(s.view.progress.state), natural(s.view.name)))
        present = {_stem(path) for path in self._known}
        self._waiting = [name for name in dict.fromkeys(wanted) if name not in present][:MAX_RUNS]
        self._next_look = time.monotonic() + SECONDS_BETWEEN_LOOKS

    def _view(self, path: Path, watched: Watched, end: float) -> View | None:
        read = time.monotonic() < end
        self._unread += not read
        try:
            return watched.look(read)
        except UNREADABLE as error:
            self._problems.append(f"{clean(path.name)} is left out: {clean(reason(error), 300)}")
            return None


def _runs_in(entries: Sequence[Path]) -> list[Path]:
    """Return run directories, and compact curves of runs whose directory is gone."""
    directories = [p for p in entries if p.is_dir() and Layout(p).spec.is_file() and not Layout(p).spec.is_symlink()]
    names = {p.name for p in directories}
    curves = [
        p
        for p in entries
        if p.suffix == ".json" and p.is_file() and not is_study(p) and p.stem not in {*names, "random"}
    ]
    return [*directories, *curves][:MAX_RUNS]


def _watch(path: Path, arms: list[str]) -> Watched:
    return WatchedRun(path, arms) if path.is_dir() else WatchedCurve(path, arms)


def _stem(path: Path) -> str:
    return path.stem if path.suffix == ".json" else path.name


def _rank(name: str) -> tuple[int, str]:
    """Sort the names of metrics: returns first, then by name."""
    first = (RETURN, TEST_RETURN, "length")
    return (first.index(name) if name in first else len(first), name)


def _row(shown: Shown) -> dict[str, object]:
    view = shown.view
    best = max((y for _, y in view.tests), default=None)
    return {
        "key": view.key,
        "name": view.name,
        "arm": shown.arm,
        "env": view.member.env,
        "seed": view.seed,
        "state": view.progress.state,
        "message": view.progress.message,
        "steps": view.progress.steps,
        "total": view.total,
        "speed": _short(view.speed),
        "left": _left(view),
        "recent": [_short(value) for value in view.recent],
        "tests": _rounded(view.tests[-RECENT_TESTS:]),
        "best": _short(best),
        "video": f"{view.key}?{view.video.stamp[0]}" if view.video else None,
    }


def _waiting(name: str) -> dict[str, object]:
    return {"name": clean(name), "state": "waiting"}


def _left(view: View) -> float | None:
    """Return the seconds that a run still needs at its present speed."""
    return _short(max(0, view.total - view.progress.steps) / view.speed) if view.speed else None


def _total(views: list[View], waiting: int) -> dict[str, object]:
    """Return how far all runs are together; a run that waits counts as long as the others are on average."""
    mean = sum(v.total for v in views) / max(1, len(views))
    total = sum(v.total for v in views) + waiting * mean
    done = sum(v.total if v.progress.state == "finished" else min(v.progress.steps, v.total) for v in views)
    running = [v for v in views if v.speed]
    to_do = waiting * mean + sum(max(0, v.total - v.progress.steps) for v in running)
    speed = sum(v.speed or 0.0 for v in running)
    return {
        "steps": done,
        "total": round(total),
        "speed": _short(speed) if running else None,
        "left": _short(to_do / speed) if speed else None,
    }


def _panels(shown: list[Shown], metric: str) -> list[dict[str, object]]:
    """Return one panel per environment, with the curves of every arm."""
    arms = sorted({s.arm for s in shown}, key=natural)
    colours = colours_of(arms)
    panels: list[dict[str, object]] = []
    for env in sorted({s.view.member.env for s in shown}, key=natural):
        here = [s for s in shown if s.view.member.env == env]
        mine = [(arm, [s for s in here if s.arm == arm]) for arm in arms]
        panels.append({"env": env, "arms": [_arm(arm, colours[arm], runs, metric) for arm, runs in mine if runs]})
    return panels


def _arm(arm: str, colour: str, runs: list[Shown], metric: str) -> dict[str, object]:
    runs = sorted(runs, key=lambda s: s.view.seed)
    curves = [s.watched.curve(metric) for s in runs]
    return {
        "arm": arm,
        "colour": colour,
        "mean": _rounded(mean_curve(curves)),
        "runs": [
            {
                "name": s.view.name,
                "seed": s.view.seed,
                "points": _rounded(curve),
                "tests": _rounded(s.view.tests) if metric == RETURN else [],
            }
            for s, curve in zip(runs, curves, strict=True)
        ],
    }


def _rounded(points: Points) -> list[list[float | None]]:
    return [[x, _short(y)] for x, y in points]  # steps are exact


def _short(value: float | None) -> float | None:
    """Return a number with the digits that a screen can show."""
    return None if value is None else float(f"{value:.6g}")
