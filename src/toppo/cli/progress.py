"""What a person sees while a run goes on: a live panel on a terminal, a plain line now and then elsewhere."""

import time
from collections import deque
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from toppo.cli.console import mute
from toppo.runs.run import Progress

BARS = "▁▂▃▄▅▆▇█"
SECONDS_BETWEEN_LINES = 10.0
MAX_WARNINGS = 3  # about environments that failed


class Screen:
    """An observer of a run."""

    def __init__(self, title: str, console: Console) -> None:
        """Prepare; nothing is shown before the first iteration."""
        self.title, self.console = title, console
        self.recent: deque[float] = deque(maxlen=20)
        self.history: list[float] = []
        self._live = Live(console=console, refresh_per_second=4, transient=True) if console.is_terminal else None
        self._last_line = 0.0
        self._warnings = 0

    def __enter__(self) -> Self:
        """Open the live view."""
        if self._live:
            self._live.start()
            self._live.update(Panel(Text("starting: compiling and taking the first steps"), title=escape(self.title)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the live view."""
        if self._live:
            self._live.stop()

    def __call__(self, progress: Progress) -> None:
        """Show an iteration; a run goes on when nobody looks at it any more."""
        try:
            self._show(progress)
        except OSError:  # the terminal has gone
            mute()

    def _show(self, progress: Progress) -> None:
        for fault in progress.iteration.faults[: MAX_WARNINGS - self._warnings]:
            self._warnings += 1
            last = " (further faults stand in faults.jsonl)" if self._warnings == MAX_WARNINGS else ""
            self.console.print(f"warning: {escape(fault.sentence)}{last}", highlight=False, soft_wrap=True)
        returns = [e.ret for e in progress.iteration.episodes]
        self.recent.extend(returns)
        if returns:
            self.history.append(sum(returns) / len(returns))
        if self._live:
            self._live.update(self._panel(progress))
            return
        now, steps = time.monotonic(), progress.iteration.state.steps
        if now - self._last_line >= SECONDS_BETWEEN_LINES or steps >= progress.spec.total_timesteps:
            self._last_line = now
            self.console.print(self._line(progress), highlight=False, soft_wrap=True)

    def _line(self, progress: Progress) -> str:
        metrics, steps = progress.iteration.metrics, progress.iteration.state.steps
        return (
            f"{steps:>10,} / {progress.spec.total_timesteps:,} steps  return {self._mean():>9}  {speed(progress):,.0f} steps/s  "
            f"{time_left(progress)} left  |M| {metrics['memory/size']}  TV {metrics['train/tv']:.3f}"
        )

    def _panel(self, progress: Progress) -> Panel:
        metrics, steps, total = (
            progress.iteration.metrics,
            progress.iteration.state.steps,
            progress.spec.total_timesteps,
        )
        rows = Table.grid(padding=(0, 2))
        kl = metrics["memory/kl"]
        assert isinstance(kl, list)
        distances = " ".join(f"{x:.3f}" for x in kl) or "-"
        rows.add_row("", ProgressBar(total=total, completed=min(steps, total), width=60))
        rows.add_row("steps", f"{steps:,} of {total:,}   {speed(progress):,.0f} steps/s   {time_left(progress)} left")
        rows.add_row("return", f"{self._mean()}   (mean of the last {len(self.recent)} episodes)")
        rows.add_row("", Text(sparkline(self.history, 60), style="cyan"))
        # A trust region clips nothing.
        clipped = f"   clipped {metrics['train/clip_fraction']:.0%}" if "train/clip_fraction" in metrics else ""
        rows.add_row("update", f"TV {metrics['train/tv']:.3f}   epochs {metrics['train/epochs']}{clipped}")
        rows.add_row("memory", f"|M| {metrics['memory/size']}   kept {metrics['memory/kept']}   KL {distances}")
        return Panel(rows, title=escape(self.title), title_align="left", expand=False)

    def _mean(self) -> str:
        return f"{sum(self.recent) / len(self.recent):,.1f}" if self.recent else "-"


def speed(progress: Progress) -> float:
    """Steps per second since this process began."""
    return (progress.iteration.state.steps - progress.first_step) / max(progress.seconds, 1e-9)


def time_left(progress: Progress) -> str:
    """Minutes and seconds at the present speed."""
    seconds = max(0, progress.spec.total_timesteps - progress.iteration.state.steps) / max(speed(progress), 1e-9)
    hours, rest = divmod(round(seconds), 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"


def sparkline(values: list[float], width: int) -> str:
    """A small drawing of a curve, the mean of every stretch a column."""
    if not values:
        return ""
    size = max(1, -(-len(values) // width))
    means = [sum(part) / len(part) for part in (values[i : i + size] for i in range(0, len(values), size))]
    low, high = min(means), max(means)
    span = (high - low) or 1.0
    return "".join(BARS[min(len(BARS) - 1, int((m - low) / span * len(BARS)))] for m in means)
