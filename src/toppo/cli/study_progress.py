"""What a person sees during a study: a live table on a terminal, plain lines elsewhere."""

import time

from rich.console import Group
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from toppo.display.console import PacedView, Terminal, clock
from toppo.studies.folder import Folder
from toppo.studies.run_jobs import StudyStatus


class StudyDisplay:
    """Shows how far a study is."""

    def __init__(self, title: str, folder: Folder, console: Terminal, live: Live | None) -> None:
        self.title = title
        self.folder = folder
        self.view = PacedView(console, live)
        self._first: dict[str, tuple[float, int]] = {}  # when this process first saw a run, and its steps then
        self._ended_steps = 0  # steps that this process has seen of runs that ended

    def __call__(self, status: StudyStatus) -> None:
        """Show how far the study is."""
        if status.event:
            self.view.say(f"{len(status.finished)}/{len(status.jobs)}  {status.event}")
        if not self.view.is_due():
            return
        now = time.monotonic()
        steps = {job.name: self.folder.steps(job) for job in status.running}
        self._count_steps(steps, status, now)
        self.view.show(lambda: self._table(status, steps, now), lambda: self._total(status, steps, now))

    def _count_steps(self, steps: dict[str, int], status: StudyStatus, now: float) -> None:
        for name, done in steps.items():
            self._first.setdefault(name, (now, done))
        for job in status.jobs:
            if job.name in self._first and job.name not in steps:
                done = job.spec.total_timesteps if job.name in status.finished else self.folder.steps(job)
                self._ended_steps += done - self._first.pop(job.name)[1]

    def _table(self, status: StudyStatus, steps: dict[str, int], now: float) -> Group:
        table = Table(title=escape(self.title), title_justify="left", box=None)
        for name in ("run", "progress", "steps", "steps/s", "left"):
            table.add_column(name, justify="left" if name in ("run", "progress") else "right")
        for job in status.running:
            done = steps[job.name]
            total = job.spec.total_timesteps
            began, first = self._first[job.name]
            speed = (done - first) / max(now - began, 1e-9)
            left = clock((total - done) / speed) if speed > 0 else "-"
            bar = ProgressBar(total=total, completed=min(done, total), width=12)
            table.add_row(escape(job.name), bar, f"{done:,} / {total:,}", f"{speed:,.0f}", left)
        return Group(Text(self._total(status, steps, now)), table)  # a low terminal cuts off the end

    def _total(self, status: StudyStatus, steps: dict[str, int], now: float) -> str:
        ended = {*status.finished, *status.faults}
        to_do = sum(max(0, j.spec.total_timesteps - steps.get(j.name, 0)) for j in status.jobs if j.name not in ended)
        gained = self._ended_steps + sum(steps[n] - first for n, (_, first) in self._first.items() if n in steps)
        left = clock(to_do * (now - self.view.began) / gained) if gained > 0 else "-"
        failed = f", {len(status.faults)} failed" if status.faults else ""
        waiting = len(status.jobs) - len(ended) - len(status.running)
        counts = f"{len(status.finished)} finished, {len(status.running)} running, {waiting} waiting{failed}"
        return f"{counts}; {left} left"
