"""One run as the board shows it.  Each look reads only what its logs have gained since the last one."""

import os
from collections import deque
from collections.abc import Collection, Iterator
from contextlib import suppress
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from toppo.board.pace import Pace
from toppo.board.thinned import Points, Thinned
from toppo.errors import ToppoError
from toppo.report.arms import Member, arm_of
from toppo.report.curves import Json, Run, checked_spec, run_from_curve, settings_of
from toppo.report.plot import RETURN, TEST_RETURN
from toppo.report.run_directories import is_number, numbers_in
from toppo.report.text import clean, unique_name
from toppo.rundir.jsonl import LogTail, Row
from toppo.rundir.layout import Layout, read_json
from toppo.rundir.progress import Progress, last_row, progress_of

LENGTH = "length"
X = "time/total_timesteps"
RECENT = 40  # episodes
MAX_CHOSEN = 3  # metrics of a run that are kept up to date
MAX_ENTRIES = 1_000
MAX_TESTS = 2_000
PARTS = 1_000  # of a run, each a point of its curves while they are short
MAX_MESSAGE = 400  # letters
VIDEOS = {".mp4": "video/mp4", ".webm": "video/webm"}

Stamp = tuple[int, int]  # nanoseconds of the last change, bytes


class Video(NamedTuple):
    """The newest video in a run directory."""

    path: Path
    stamp: Stamp


class View(NamedTuple):
    """What is known of a run at this moment."""

    key: str  # names it in addresses
    name: str
    member: Member
    seed: int
    total: int
    progress: Progress
    speed: float | None  # steps per second
    recent: list[float]  # returns of the newest episodes
    tests: Points  # step and mean return
    video: Video | None = None


def key_of(path: Path) -> str:
    """Return the name of a run in addresses, which says nothing about its files."""
    return sha256(os.fsencode(path.name)).hexdigest()[:12]


def stamp_of(path: Path) -> Stamp | None:
    """Return what changes when a file does; None if it is not there."""
    with suppress(OSError):
        found = path.lstat()
        return found.st_mtime_ns, found.st_size
    return None


class WatchedRun:
    """A run directory."""

    def __init__(self, root: Path, arms: Collection[str]) -> None:
        self.root = root
        self._arms = arms
        self._layout = Layout(root)
        self._spec: Json = {}
        self._spec_stamp: Stamp | None = None
        self._pace = Pace()
        self._episodes = LogTail(self._layout.episodes)
        self._tests = LogTail(self._layout.evaluations)
        self._by_episode: dict[str, Thinned] = {}
        self._recent: deque[float] = deque(maxlen=RECENT)
        self._test_points: Points = []
        self._chosen: dict[str, tuple[LogTail, Thinned]] = {}

    def look(self, read: bool) -> View:
        """Look how far the run is, and read its new episodes if there is time; or raise what is wrong with it."""
        self._read_spec()
        if read:
            self._read_episodes()
            self._read_tests()
        progress = progress_of(self.root)
        if progress.state != "running":
            self._pace = Pace()  # what it does after a break is not slower for it
        timing = numbers_in(last_row(self._layout.timing))
        stamp = stamp_of(self._layout.timing)
        seconds = stamp[0] / 1e9 if stamp else 0.0
        speed = self._pace.speed(seconds, progress.steps, timing.get("time/fps"))
        spec = self._spec
        algo = unique_name(spec["algo"])
        arm = arm_of(self.root.name, algo, str(spec["env"]), int(spec["seed"]), self._arms)
        total = int(spec["total_timesteps"])
        settings = {**settings_of(spec), "total_timesteps": total}
        return View(
            key=key_of(self.root),
            name=clean(self.root.resolve().name),
            member=Member(arm, algo, unique_name(spec["env"]), settings),
            seed=int(spec["seed"]),
            total=total,
            progress=progress._replace(message=clean(progress.message, MAX_MESSAGE)),
            speed=speed if progress.state == "running" else None,
            recent=list(self._recent),
            tests=self._test_points,
            video=_newest_video(self.root),
        )

    def metrics(self) -> set[str]:
        """Return the names of all that the run logs."""
        rows = (last_row(self._layout.metrics), last_row(self._layout.timing))
        names = {name for row in rows for name in islice(numbers_in(row), MAX_ENTRIES)} - {X, "iteration"}
        return {RETURN, LENGTH, *map(unique_name, names)} | ({TEST_RETURN} if self._test_points else set())

    def curve(self, metric: str) -> Points:
        """Return the curve of a metric.  The log of a metric that is new to the board is read from its beginning."""
        if metric in (RETURN, LENGTH):
            return self._by_episode[metric].points() if self._by_episode else []
        if metric == TEST_RETURN:
            return self._test_points
        if metric not in self._chosen:
            log = self._layout.timing if metric.startswith("time/") else self._layout.metrics
            self._chosen[metric] = (LogTail(log), self._new_curve())
        tail, curve = self._chosen.pop(metric)
        rows, cut_back = _news(tail)
        curve = self._new_curve() if cut_back else curve
        for x, y in _columns(rows, X, metric):
            curve.add(x, y)
        self._chosen[metric] = (tail, curve)  # the newest is the last, and the oldest goes
        if len(self._chosen) > MAX_CHOSEN:
            del self._chosen[next(iter(self._chosen))]
        return curve.points()

    def _read_spec(self) -> None:
        stamp = stamp_of(self._layout.spec)
        if stamp is None or stamp != self._spec_stamp:
            self._spec = checked_spec(read_json(self._layout.spec))
            if not 0 < int(self._spec["total_timesteps"]) < 2**53:
                raise ValueError("its total_timesteps cannot be a number of steps")
            self._spec_stamp = stamp

    def _read_episodes(self) -> None:
        rows, cut_back = _news(self._episodes)
        if cut_back or not self._by_episode:
            self._by_episode = {RETURN: self._new_curve(), LENGTH: self._new_curve()}
            self._recent.clear()
        for name, curve in self._by_episode.items():
            for x, y in _columns(rows, "step", name):
                curve.add(x, y)
        self._recent.extend(y for _, y in _columns(rows, "step", RETURN))

    def _read_tests(self) -> None:
        rows, cut_back = _news(self._tests)
        known = [] if cut_back else self._test_points
        self._test_points = [*known, *_columns(rows, "step", RETURN)][-MAX_TESTS:]

    def _new_curve(self) -> Thinned:
        return Thinned(max(1.0, int(self._spec["total_timesteps"]) / PARTS))


class WatchedCurve:
    """A compact curve, which outlives its run directory."""

    def __init__(self, path: Path, arms: Collection[str]) -> None:
        self.path = path
        self._arms = arms
        self._stamp: Stamp | None = None
        self._view: View | None = None
        self._curves: dict[str, Points] = {}

    def look(self, read: bool) -> View:
        """Read the curve if it has changed, or raise what is wrong with it."""
        stamp = stamp_of(self.path)
        if self._view is None or stamp != self._stamp:
            run = run_from_curve(read_json(self.path), self.path.stem, self._arms)
            self._curves = _curves_of(run)
            self._view = self._view_of(run)
            self._stamp = stamp
        return self._view

    def metrics(self) -> set[str]:
        """Return the names of all that the curve keeps."""
        return set(self._curves)

    def curve(self, metric: str) -> Points:
        """Return the curve of a metric."""
        return self._curves.get(metric, [])

    def _view_of(self, run: Run) -> View:
        return View(
            key=key_of(self.path),
            name=clean(self.path.stem),
            member=Member(run.arm, run.algo, run.env, {**run.settings, "total_timesteps": run.budget}),
            seed=run.seed,
            total=run.budget,
            progress=Progress("finished", run.budget, ""),
            speed=None,
            recent=[y for _, y in self._curves[RETURN][-RECENT:]],
            tests=self._curves.get(TEST_RETURN, []),
        )


Watched = WatchedRun | WatchedCurve


def _news(tail: LogTail) -> tuple[list[Row], bool]:
    """Return the new rows of a log; of one that is not there, none."""
    try:
        return tail.read()
    except ToppoError:
        return [], False


def _columns(rows: list[Row], x: str, y: str) -> Iterator[tuple[float, float]]:
    for row in rows:
        at = row.get(x)
        value = row.get(y)
        if is_number(at) and is_number(value):
            yield float(at), float(value)


def _newest_video(root: Path) -> Video | None:
    found: list[Video] = []
    with suppress(OSError), os.scandir(root) as entries:
        for entry in islice(entries, MAX_ENTRIES):
            path = root / entry.name
            if path.suffix in VIDEOS and entry.is_file(follow_symlinks=False) and (stamp := stamp_of(path)):
                found.append(Video(path, stamp))
    return max(found, key=lambda video: video.stamp, default=None)


def _curves_of(run: Run) -> dict[str, Points]:
    series = {name: zip(run.grid, values, strict=True) for name, values in (run.series | {RETURN: run.returns}).items()}
    if len(run.evaluations):
        series[TEST_RETURN] = zip(run.evaluations[:, 0], run.evaluations[:, 1], strict=True)
    return {name: [(float(x), float(y)) for x, y in points if y == y] for name, points in series.items()}
