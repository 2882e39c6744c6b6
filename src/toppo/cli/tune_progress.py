"""What a person sees during a search: a live table on a terminal, plain lines elsewhere."""

import time

from rich.console import Group
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from toppo.cli.study_progress import SECONDS_BETWEEN_LINES, SECONDS_BETWEEN_READS
from toppo.display.console import Terminal, clock
from toppo.studies.folder import Folder
from toppo.tune.run_search import SearchStatus
from toppo.tune.search import best_of


class TuneDisplay:
    """Shows how far a search is."""

    def __init__(self, title: str, trials: int, folder: Folder, console: Terminal, live: Live | None) -> None:
        self.title = title
        self.trials = trials
        self.folder = folder
        self.console = console
        self.live = live
        self._began = time.monotonic()
        self._last_line = self._began
        self._last_read = -SECONDS_BETWEEN_READS

    def __call__(self, status: SearchStatus) -> None:
        """Show how far the search is."""
        now = time.monotonic()
        if status.event:
            self.console.say(f"[{clock(now - self._began)}] {len(status.ended)}/{self.trials}  {status.event}")
        if now - self._last_read < SECONDS_BETWEEN_READS:
            return
        self._last_read = now
        if self.live:
            self.live.update(self._table(status))
        elif now - self._last_line >= SECONDS_BETWEEN_LINES:
            self._last_line = now
            self.console.say(f"[{clock(now - self._began)}] {self._total(status)}")

    def _table(self, status: SearchStatus) -> Group:
        table = Table(title=escape(self.title), title_justify="left", box=None)
        for name in ("run", "progress", "steps"):
            table.add_column(name, justify="right" if name == "steps" else "left")
        for job in status.running:
            done = self.folder.steps(job)
            total = job.spec.total_timesteps
            bar = ProgressBar(total=total, completed=min(done, total), width=12)
            table.add_row(escape(job.name), bar, f"{done:,} / {total:,}")
        return Group(Text(self._total(status)), table)

    def _total(self, status: SearchStatus) -> str:
        best = best_of(status.ended)
        found = f"; best {best.value:.6g} (trial {best.number})" if best else ""
        return f"{len(status.ended)} of {self.trials} trials ended, {len(status.running)} running{found}"
