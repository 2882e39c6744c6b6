"""``toppo list`` and ``toppo theory``."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from toppo.algos import REGISTRY
from toppo.cli.flags import flag, parse, require_at_least
from toppo.display.console import Terminal, live_view
from toppo.reproduce.registry import FIGURES
from toppo.runs.presets import PAPER_GAMES, PAPER_TASKS
from toppo.studies.paper import PAPER


@dataclass(frozen=True)
class ListFlags:
    """Show the algorithms, the paper's environments, the figures and the studies."""


@dataclass(frozen=True)
class TheoryFlags:
    """Check every statement of the paper on random finite problems and by search."""

    mdps: Annotated[int, flag("Random problems per statement.")] = 2000
    seed: Annotated[int, flag("Seed of the problems and of the searches.")] = 0
    out: Annotated[Path, flag("Directory for the report and its figures.")] = Path("runs/theory")


def list_all(arguments: list[str]) -> None:
    """Show what can be chosen."""
    parse("list", ListFlags, arguments)
    algorithms = {name: f"{chosen.title}: {chosen.summary}" for name, chosen in REGISTRY.items()}
    suffix = "NoFrameskip-v4"
    games = ", ".join(game.removesuffix(suffix) for game in PAPER_GAMES)
    environments = {"MuJoCo": ", ".join(PAPER_TASKS), "Atari": f"{games} (as in Breakout{suffix})"}
    sections = {
        "Algorithms: toppo train ENV --algo NAME": algorithms,
        "Environments of the paper; any other Gymnasium id works as well": environments,
        "Figures of the paper: toppo reproduce NAME": {name: figure.text for name, figure in FIGURES.items()},
        "Studies: toppo study NAME": {name: study.text for name, study in PAPER.items()},
    }
    console = Console()
    for title, texts in sections.items():
        table = Table(title=f"\n{title}", title_justify="left", title_style="bold", box=None, show_header=False)
        table.add_column(no_wrap=True, style="cyan")
        table.add_column()
        for name, text in texts.items():
            table.add_row(name, text)
        console.print(table)
    console.print("\nEvery setting of an algorithm: toppo train ENV --algo NAME --help", highlight=False)


def theory(arguments: list[str]) -> None:
    """Check the theory."""
    from toppo.theory.report import render, write
    from toppo.theory.run import PARTS, check_all

    given = parse("theory", TheoryFlags, arguments)
    require_at_least(given, mdps=1, seed=0)
    console = Terminal()
    with live_view(console) as live:
        report = check_all(given.mdps, given.seed, observe=TheoryDisplay(len(PARTS), console, live))
    print(render(report))
    for path in write(report, given.out):
        print(f"wrote {path}")


class TheoryDisplay:
    """Shows which part of the theory is being checked: a bar on a terminal, a line for every part elsewhere."""

    def __init__(self, parts: int, console: Terminal, live: Live | None) -> None:
        self.parts = parts
        self.console = console
        self.live = live
        self._begun = 0

    def __call__(self, part: str) -> None:
        """Show the part that begins."""
        self._begun += 1
        if self.live is None:
            self.console.say(f"{self._begun}/{self.parts}  {part}")
            return
        row = Table.grid(padding=(0, 2))
        bar = ProgressBar(total=self.parts, completed=self._begun - 1, width=30)
        row.add_row(bar, f"{self._begun} of {self.parts}", part)
        self.live.update(row)
