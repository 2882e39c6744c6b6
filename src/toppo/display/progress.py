"""What a person sees during a run: a live panel on a terminal, a plain line every ten seconds elsewhere."""

from __future__ import annotations

import time
from collections import deque
from statistics import fmean
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.live import Live
from rich.markup import escape
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from toppo.display.console import Terminal, clock

if TYPE_CHECKING:
    from toppo.runs.run import RunProgress

BARS = "▁▂▃▄▅▆▇█"
SECONDS_BETWEEN_LINES = 10.0
MAX_WARNINGS = 3  # about environments that failed


class RunDisplay:
    """Shows every iteration of a run."""

    def __init__(self, title: str, console: Terminal, live: Live | None) -> None:
        self.title = title
        self.console = console
        self.live = live
        self.recent: deque[float] = deque(maxlen=20)
        self.history: list[float] = []
        self._last_line = 0.0
        self._warnings = 0
        if live:
            live.update(self._boxed("starting: compiling and taking the first steps"))

    def __call__(self, progress: RunProgress) -> None:
        """Show an iteration."""
        for fault in progress.iteration.faults[: MAX_WARNINGS - self._warnings]:
            self._warnings += 1
            last = " (faults.jsonl has the others)" if self._warnings == MAX_WARNINGS else ""
            self.console.say(f"warning: {fault.sentence}{last}")
        returns = [e.episode_return for e in progress.iteration.episodes]
        self.recent.extend(returns)
        if returns:
            self.history.append(fmean(returns))
        if self.live:
            self.live.update(self._panel(progress))
            return
        now = time.monotonic()
        finished = progress.iteration.state.steps >= progress.spec.total_timesteps
        if finished or now - self._last_line >= SECONDS_BETWEEN_LINES:
            self._last_line = now
            self.console.say(self._line(progress))

    def mean_return(self) -> str:
        """The mean return of the last episodes, in words."""
        of = f" (mean of the last {len(self.recent)} episodes)" if len(self.recent) > 1 else ""
        return f"{fmean(self.recent):,.1f}{of}" if self.recent else "no episode has ended"

    def _line(self, progress: RunProgress) -> str:
        metrics = progress.iteration.metrics
        total = f"{progress.spec.total_timesteps:,}"
        mean = f"{fmean(self.recent):,.1f}" if self.recent else "-"
        return (
            f"{progress.iteration.state.steps:>{len(total)},} / {total}  return {mean:>8}  "
            f"{speed(progress):>6,.0f} steps/s  {time_left(progress)} left  "
            f"|M| {metrics['memory/size']}  TV {metrics['train/tv']:.3f}"
        )

    def _panel(self, progress: RunProgress) -> Panel:
        metrics = progress.iteration.metrics
        steps = progress.iteration.state.steps
        total = progress.spec.total_timesteps
        kl = metrics["memory/kl"]
        assert isinstance(kl, list)
        distances = f"   KL {min(kl):.3f} to {max(kl):.3f}" if len(kl) > 1 else ""
        # A trust region clips nothing.
        clipped = f"   clipped {metrics['train/clip_fraction']:.0%}" if "train/clip_fraction" in metrics else ""
        rows = Table.grid(padding=(0, 2))
        rows.add_row("", ProgressBar(total=total, completed=min(steps, total), width=60))
        rows.add_row("steps", f"{steps:,} of {total:,}   {speed(progress):,.0f} steps/s   {time_left(progress)} left")
        rows.add_row("return", self.mean_return())
        rows.add_row("", Text(sparkline(self.history, 60), style="cyan"))
        rows.add_row("update", f"TV {metrics['train/tv']:.3f}   epochs {metrics['train/epochs']}{clipped}")
        rows.add_row("memory", f"|M| {metrics['memory/size']}   kept {metrics['memory/kept']}{distances}")
        return self._boxed(rows)

    def _boxed(self, content: RenderableType) -> Panel:
        return Panel(content, title=escape(self.title), title_align="left", expand=False)


def speed(progress: RunProgress) -> float:
    """Steps per second since this process began."""
    return (progress.iteration.state.steps - progress.first_step) / max(progress.seconds, 1e-9)


def time_left(progress: RunProgress) -> str:
    """Time to the end at the present speed."""
    steps = max(0, progress.spec.total_timesteps - progress.iteration.state.steps)
    return clock(steps / max(speed(progress), 1e-9))


def sparkline(values: list[float], width: int) -> str:
    """A curve drawn in one line of text; every column is the mean of a stretch of it."""
    if not values:
        return ""
    size = max(1, -(-len(values) // width))
    means = [fmean(values[i : i + size]) for i in range(0, len(values), size)]
    low = min(means)
    span = (max(means) - low) or 1.0
    return "".join(BARS[min(len(BARS) - 1, int((m - low) / span * len(BARS)))] for m in means)
