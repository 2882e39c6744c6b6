"""What a person sees during a search: a live table on a terminal, plain lines elsewhere."""

from rich.console import Group
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from toppo.display.console import PacedView, Terminal
from toppo.studies.folder import Folder
from toppo.tune.run_search import SearchStatus
from toppo.tune.search import best_of


class TuneDisplay:
    """Shows how far a search is."""

    def __init__(self, title: str, trials: int, folder: Folder, console: Terminal, live: Live | None) -> None:
        self.title = title
        self.trials = trials
        self.folder = folder
        self.view = PacedView(console, live)

    def __call__(self, status: SearchStatus) -> None:
        """Show how far the search is."""
        if status.event:
            self.view.say(f"{len(status.ended)}/{self.trials}  {status.event}")
        if self.view.is_due():
            self.view.show(lambda: self._table(status), lambda: self._total(status))

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
