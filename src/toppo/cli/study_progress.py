"""What a person sees while a study goes on: a live table on a terminal, plain lines elsewhere."""

import time
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from toppo.cli.console import mute
from toppo.studies.folder import Folder
from toppo.studies.run_jobs import StudyStatus

SECONDS_BETWEEN_LINES = 60.0
SECONDS_BETWEEN_READS = 1.0


class StudyScreen:
    """An observer of a study."""

    def __init__(self, title: str, folder: Folder, console: Console) -> None:
        """Nothing is shown before the first look."""
        self.title, self.folder, self.console = title, folder, console
        self._live = Live(console=console, refresh_per_second=2, transient=True) if console.is_terminal else None
        self._began, self._read, self._line = time.monotonic(), -SECONDS_BETWEEN_READS, time.monotonic()
        self._first: dict[str, tuple[float, int]] = {}  # when a run was first seen by this process, and its steps then
        self._gained = 0  # steps of runs that this process has seen to their end

    def __enter__(self) -> Self:
        """Open the live view."""
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the live view."""
        if self._live:
            self._live.stop()

    def __call__(self, standing: StudyStatus) -> None:
        """Show how the study stands; it goes on when nobody looks at it any more."""
        try:
            self._show(standing)
        except OSError:  # the terminal has gone
            mute()

    def _show(self, standing: StudyStatus) -> None:
        now = time.monotonic()
        if standing.event:
            done = f"{len(standing.finished)}/{len(standing.jobs)}"
            self.console.print(f"[{_clock(now - self._began)}] {done}  {standing.event}", highlight=False, markup=False)
        if now - self._read < SECONDS_BETWEEN_READS:
            return
        self._read = now
        steps = {job.name: self.folder.steps(job) for job in standing.running}
        self._follow(steps, standing, now)
        if self._live:
            self._live.update(self._table(standing, steps, now))
        elif now - self._line >= SECONDS_BETWEEN_LINES:
            self._line = now
            self.console.print(f"[{_clock(now - self._began)}] {self._total(standing, steps, now)}", markup=False)

    def _follow(self, steps: dict[str, int], standing: StudyStatus, now: float) -> None:
        for name, done in steps.items():
            self._first.setdefault(name, (now, done))
        for job in standing.jobs:
            if job.name in self._first and job.name not in steps:
                done = job.spec.total_timesteps if job.name in standing.finished else self.folder.steps(job)
                self._gained += done - self._first.pop(job.name)[1]

    def _table(self, standing: StudyStatus, steps: dict[str, int], now: float) -> Group:
        table = Table(title=escape(self.title), title_justify="left")
        for name in ("run", "progress", "steps", "steps/s", "left"):
            table.add_column(name, justify="left" if name in ("run", "progress") else "right")
        for job in standing.running:
            done, total = steps[job.name], job.spec.total_timesteps
            began, first = self._first[job.name]
            speed = (done - first) / max(now - began, 1e-9)
            left = _clock((total - done) / speed) if speed > 0 else "-"
            bar = ProgressBar(total=total, completed=min(done, total), width=24)
            table.add_row(escape(job.name), bar, f"{done:,} / {total:,}", f"{speed:,.0f}", left)
        return Group(Text(self._total(standing, steps, now)), table)  # a low terminal cuts off what stands below

    def _total(self, standing: StudyStatus, steps: dict[str, int], now: float) -> str:
        ended = {*standing.finished, *standing.faults}
        to_do = sum(max(0, j.spec.total_timesteps - steps.get(j.name, 0)) for j in standing.jobs if j.name not in ended)
        gained = self._gained + sum(steps[n] - first for n, (_, first) in self._first.items() if n in steps)
        left = _clock(to_do * (now - self._began) / gained) if gained > 0 else "-"
        failed = f", {len(standing.faults)} failed" if standing.faults else ""
        waiting = len(standing.jobs) - len(ended) - len(standing.running)
        counts = f"{len(standing.finished)} finished, {len(standing.running)} running, {waiting} waiting{failed}"
        return f"{counts}; {left} left"


def _clock(seconds: float) -> str:
    hours, rest = divmod(round(seconds), 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}"
