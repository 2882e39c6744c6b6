"""What a person sees during a run: a live panel on a terminal, a plain line every ten seconds elsewhere."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import fmean
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.live import Live
from rich.markup import escape
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from toppo.display.console import Terminal, clock, live_view

if TYPE_CHECKING:
    from toppo.runs.training import Training

BARS = "▁▂▃▄▅▆▇█"
SECONDS_BETWEEN_LINES = 10.0
SECONDS_UNTIL_WAITING = 2.0  # an iteration that takes longer shows what it is doing
MAX_WARNINGS = 3  # about environments that failed


@contextmanager
def run_display(title: str, shown: bool = True) -> Iterator[RunDisplay | Callable[[Training], None]]:
    """Show a training on this terminal while the block runs, and say in a line how it ended; or show nothing."""
    if not shown:
        yield lambda training: None
        return
    console = Terminal()
    with live_view(console) as live:
        display = RunDisplay(title, console, live)
        yield display
    if display.live and display.training and display.training.iteration:  # otherwise its last line is there already
        console.say(f"{title}: {line(display.training, display.recent)}")


class RunDisplay:
    """Shows every iteration of a run."""

    def __init__(self, title: str, console: Terminal, live: Live | None) -> None:
        self.title = title
        self.console = console
        self.live = live
        self.training: Training | None = None
        self.recent: deque[float] = deque(maxlen=20)
        self.history: list[float] = []
        self._rows: list[tuple[str, RenderableType]] = []
        self._last_line = 0.0
        self._last_change = time.monotonic()
        self._warnings = 0
        if live:
            live.update(self)

    def on_training_start(self, training: Training) -> None:
        """Say that the first steps are not counted: in a slow environment they take long."""
        self.training = training
        self._last_change = time.monotonic()
        if not self.live and (steps := warmup_steps(training)):
            self.console.say(f"warm-up: {steps:,} steps, which are not counted")

    def __call__(self, training: Training) -> None:
        """Show an iteration."""
        self._last_change = time.monotonic()
        for fault in training.faults[: MAX_WARNINGS - self._warnings]:
            self._warnings += 1
            last = " (faults.jsonl has the others)" if self._warnings == MAX_WARNINGS else ""
            self.console.say(f"warning: {fault.sentence}{last}")
        returns = [e.episode_return for e in training.episodes]
        self.recent.extend(returns)
        if returns:
            self.history.append(fmean(returns))
        if self.live:
            self._rows = self._describe(training)
            return
        now = time.monotonic()
        if training.is_last() or now - self._last_line >= SECONDS_BETWEEN_LINES:
            self._last_line = now
            self.console.say(line(training, self.recent))

    def results(self) -> list[tuple[str, str]]:
        """What the training reached, by name."""
        found = [("return", self.mean_return())]
        if self.training and self.training.evaluations:
            found.append(("test", tests(self.training)))
        return found

    def mean_return(self) -> str:
        """The mean return of the last episodes, in words."""
        of = f" (mean of the last {len(self.recent)} episodes)" if len(self.recent) > 1 else ""
        return f"{fmean(self.recent):,.1f}{of}" if self.recent else "no episode has ended"

    def __rich__(self) -> Panel:
        """Draw the panel; the live view does so several times a second, in a thread of its own."""
        rows = Table.grid(padding=(0, 2))
        waited = time.monotonic() - self._last_change
        now = [("now", f"{activity(self.training)}   {clock(waited)}")]
        for name, content in [*self._rows, *(now if not self._rows or waited > SECONDS_UNTIL_WAITING else [])]:
            rows.add_row(name, content)
        return Panel(rows, title=escape(self.title), title_align="left", expand=False)

    def _describe(self, training: Training) -> list[tuple[str, RenderableType]]:
        """Return the rows of the panel after an iteration."""
        metrics = training.metrics
        steps = training.num_timesteps
        total = training.total_timesteps
        kl = metrics["memory/kl"]
        assert isinstance(kl, list)
        distances = f"   KL {min(kl):.3f} to {max(kl):.3f}" if len(kl) > 1 else ""
        # A trust region clips nothing.
        clipped = f"   clipped {metrics['train/clip_fraction']:.0%}" if "train/clip_fraction" in metrics else ""
        rows: list[tuple[str, RenderableType]] = [
            ("", ProgressBar(total=total, completed=min(steps, total), width=60)),
            ("steps", f"{steps:,} of {total:,}   {speed(training):,.0f} steps/s   {time_left(training)} left"),
            ("return", self.mean_return()),
            ("", Text(sparkline(self.history, 60), style="cyan")),
            ("update", f"TV {metrics['train/tv']:.3f}   epochs {metrics['train/epochs']}{clipped}"),
            ("memory", f"|M| {metrics['memory/size']}   kept {metrics['memory/kept']}{distances}"),
        ]
        return [*rows, ("test", tests(training))] if training.evaluations else rows


def activity(training: Training | None) -> str:
    """What the training is doing at this moment."""
    if training is None:
        return "checking the environment"
    if training.activity:
        return training.activity
    batch, steps = training.collected()
    size = training.spec.config.n_steps
    uncounted = warmup_steps(training)
    if batch * size < uncounted:
        done = batch * size + (steps or 0)
        return f"warm-up: {done:,} of {uncounted:,} steps, which are not counted"
    if steps is not None and steps >= size - training.spec.common.n_envs:
        return f"learning from a batch of {size:,} steps"
    return f"collecting a batch: {steps:,} of {size:,} steps" if steps is not None else "collecting and learning"


def warmup_steps(training: Training) -> int:
    """How many steps are taken before the first that counts; none in a resumed run."""
    size: int = training.spec.config.n_steps
    return 0 if training.num_timesteps else -(-training.spec.common.warmup_steps // size) * size


def tests(training: Training) -> str:
    """The newest test and the best one."""
    newest = training.evaluations[-1]
    best = max(training.evaluations, key=lambda test: test.mean)
    of = "" if best is newest else f"   best {best.mean:,.1f} at {best.step:,}"
    return f"{newest.mean:,.1f} at {newest.step:,} steps{of}"


def line(training: Training, recent: deque[float]) -> str:
    """How far the training is, in one line."""
    metrics = training.metrics
    total = f"{training.total_timesteps:,}"
    mean = f"{fmean(recent):,.1f}" if recent else "-"
    memory = f"|M| {metrics['memory/size']}  TV {metrics['train/tv']:.3f}"
    end = f"test {training.evaluations[-1].mean:,.1f}" if training.evaluations else memory
    return (
        f"{training.num_timesteps:>{len(total)},} / {total}  return {mean:>8}  "
        f"{speed(training):>6,.0f} steps/s  {time_left(training)} left  {end}"
    )


def speed(training: Training) -> float:
    """Steps per second since this process began."""
    return (training.num_timesteps - training.first_step) / max(training.elapsed, 1e-9)


def time_left(training: Training) -> str:
    """Time to the end at the present speed."""
    steps = max(0, training.total_timesteps - training.num_timesteps)
    return clock(steps / max(speed(training), 1e-9))


def sparkline(values: list[float], width: int) -> str:
    """A curve drawn in one line of text; every column is the mean of a stretch of it."""
    if not values:
        return ""
    size = max(1, -(-len(values) // width))
    means = [fmean(values[i : i + size]) for i in range(0, len(values), size)]
    low = min(means)
    span = (max(means) - low) or 1.0
    return "".join(BARS[min(len(BARS) - 1, int((m - low) / span * len(BARS)))] for m in means)
