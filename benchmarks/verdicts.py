"""Verdicts on comparisons of two arms: Welch's t, and Holm's correction over the rows of one claim.

A percentile bootstrap of five to ten runs gives intervals that are too narrow; Welch's keep their level.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import ttest_ind

from benchmarks.evidence import evidence_of
from toppo.plotting import INK, set_labels, set_rows, subplots
from toppo.report.tables import number

LEVEL = 0.05  # of all rows of a claim together
MIN_RUNS = 3  # of both arms: with fewer, no verdict
CONFIRMED = "confirmed"
CONTRADICTED = "contradicted"
NO_DIFFERENCE = "no difference"
HIGHER = "higher"
LOWER = "lower"
NOT_RUN = "not run yet"
COLOURS = {CONFIRMED: "#4d8b3c", CONTRADICTED: "#c0492b", HIGHER: "#0b7fb0", LOWER: "#b08900"}  # else grey
GREY = "#5b7083"
MAX_PERCENT = 150.0  # of a picture: one wide interval would press all others together


class Comparison(NamedTuple):
    """Two arms on a task, and which one the claim puts first: 1 for ours, -1 for theirs, 0 for neither."""

    study: str
    env: str
    ours: str
    theirs: str
    expected: int = 1


class Verdict(NamedTuple):
    """A word, how many runs it rests on, and how many there should be."""

    word: str
    seeds: int
    planned: int
    excluded_percent: float | None = None  # the smallest difference that the runs exclude, of the other's return

    @property
    def provisional(self) -> bool:
        """Return whether runs are missing."""
        return self.word != NOT_RUN and self.seeds < self.planned

    @property
    def text(self) -> str:
        """Return the verdict as it stands in a table."""
        return ("provisional: " if self.provisional else "") + f"**{self.word}**"


class Row(NamedTuple):
    """A comparison and what the runs say about it: the difference of mean final returns, ours minus theirs."""

    comparison: Comparison
    verdict: Verdict
    value: float = np.nan
    low: float = np.nan  # of the interval at the level at which Holm tests this row
    high: float = np.nan
    reference: float = np.nan  # the other's mean final return, without its sign

    @property
    def name(self) -> str:
        """Return the two arms."""
        return f"{self.comparison.ours} - {self.comparison.theirs}"

    @property
    def excluded(self) -> float:
        """Return the smallest size of a difference that the interval excludes in both directions."""
        return max(abs(self.low), abs(self.high))

    def percent(self, value: float) -> float:
        """Return a difference in percent of the other's return."""
        return 100.0 * value / self.reference

    def cells(self) -> list[str]:
        """Return the row of a table."""
        told = self.verdict.text
        if self.verdict.word == NO_DIFFERENCE:
            told += f" above {number(self.excluded)} ({self.percent(self.excluded):.0f}%)"
        numbers = ["-", "-"]
        if not np.isnan(self.value):
            limits = (self.percent(x) for x in (self.value, self.low, self.high))
            numbers = [f"{number(self.value)} [{number(self.low)}, {number(self.high)}]"]
            numbers.append("{:+.0f} [{:+.0f}, {:+.0f}]".format(*limits))
        seeds = f"{self.verdict.seeds} of {self.verdict.planned}"
        return [self.comparison.env, self.name, told, *numbers, seeds]


COLUMNS = ("task", "difference", "verdict", "final return", "in % of the other's", "seeds")


def holm(p_values: Sequence[float], level: float = LEVEL) -> list[tuple[bool, float]]:
    """Return for every p-value whether Holm's procedure rejects its hypothesis, and the level at which it tests it.

    From the smallest on, p_i is compared with level / (m - i).  After the first that is larger nothing is rejected, and
    that one's level is the one of all that follow.
    """
    found = [(False, level)] * len(p_values)
    rejects = True
    current = level
    for i, place in enumerate(np.argsort(p_values, kind="stable")):
        if rejects:
            current = level / (len(p_values) - i)
            rejects = bool(p_values[place] <= current)
        found[place] = (rejects, current)
    return found


def final_returns(comparison: Comparison) -> tuple[np.ndarray, np.ndarray, int]:
    """Return the final returns of both arms, [runs] each, and the number of runs that are planned for each."""
    found = evidence_of(comparison.study)
    ours, theirs = (found[comparison.env, arm] for arm in (comparison.ours, comparison.theirs))
    finals = [e.group.final() if e.seeds else np.zeros(0) for e in (ours, theirs)]
    return finals[0], finals[1], ours.planned


def judge(comparisons: Sequence[Comparison]) -> list[Row]:
    """Judge the rows of one claim together; rows without runs count in the correction as well."""
    finals = [final_returns(c) for c in comparisons]
    p_values = [p_value(a, b) for a, b, _ in finals]
    tests = holm(p_values)
    return [_row(*given) for given in zip(comparisons, finals, tests, strict=True)]


def p_value(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Return Welch's two-sided p-value, or 1 if there are too few runs or nothing varies."""
    if min(len(ours), len(theirs)) < MIN_RUNS:
        return 1.0
    if np.ptp(ours) == np.ptp(theirs) == 0:
        return 1.0
    return float(ttest_ind(ours, theirs, equal_var=False).pvalue)


def _row(comparison: Comparison, finals: tuple[np.ndarray, np.ndarray, int], test: tuple[bool, float]) -> Row:
    ours, theirs, planned = finals
    rejects, level = test
    seeds = min(len(ours), len(theirs))
    if seeds < MIN_RUNS:
        return Row(comparison, Verdict(NOT_RUN, seeds, planned))
    value = float(ours.mean() - theirs.mean())
    reference = abs(float(theirs.mean()))
    low = high = value
    if np.ptp(ours) or np.ptp(theirs):
        low, high = map(float, ttest_ind(ours, theirs, equal_var=False).confidence_interval(1 - level))
    word = NO_DIFFERENCE
    if rejects:
        word = CONFIRMED if np.sign(value) == comparison.expected else CONTRADICTED
        if not comparison.expected:
            word = HIGHER if value > 0 else LOWER
    excluded = 100 * max(abs(low), abs(high)) / reference
    return Row(comparison, Verdict(word, seeds, planned, excluded), value, low, high, reference)


def overall(verdicts: Sequence[Verdict], sometimes: bool = False) -> str:
    """Return the verdict on a claim from those on its rows; ``sometimes`` claims that one row holds, not all."""
    judged = [v for v in verdicts if v.word != NOT_RUN]
    if not judged:
        return f"**{NOT_RUN}**"
    words = [v.word for v in judged]
    if CONTRADICTED in words and not sometimes:
        told = f"**{CONTRADICTED}**{_share(words, CONTRADICTED, verdicts)}"
        told += f", confirmed{_share(words, CONFIRMED, verdicts)}" if CONFIRMED in words else ""
    elif CONFIRMED in words:
        part = "" if sometimes or set(words) == {CONFIRMED} else " in part"
        told = f"**{CONFIRMED}{part}**{_share(words, CONFIRMED, verdicts)}"
    else:
        largest = max(v.excluded_percent or 0.0 for v in judged)
        told = f"**{NO_DIFFERENCE}** above {largest:.0f}%{_share(words, NO_DIFFERENCE, verdicts)}"
    provisional = len(judged) < len(verdicts) or any(v.provisional for v in judged)
    return "provisional: " * provisional + told


def _share(words: list[str], word: str, verdicts: Sequence[Verdict]) -> str:
    return f" ({words.count(word)} of {len(verdicts)} rows)" if len(verdicts) > 1 else ""


def seeds_told(verdicts: Sequence[Verdict]) -> str:
    """Return how many of how many seeds are there, and how many rows have too few for a verdict."""
    if not verdicts:
        return "-"
    judged = [v for v in verdicts if v.word != NOT_RUN]
    planned = max(v.planned for v in verdicts)
    few, many = (f(v.seeds for v in judged or verdicts) for f in (min, max))
    told = f"{few} to {many} of {planned}" if few < many else f"{few} of {planned}"
    missing = len(verdicts) - len(judged)
    return told + (f"; {missing} of {len(verdicts)} rows lack runs" if missing and judged else "")


def forest(rows: Sequence[Row]) -> Figure:
    """Draw a line per row: the difference in percent of the other's return, with its interval."""
    figure, axes = subplots(1, 1, width=7.0, height=0.9 + 0.24 * len(rows))
    axis = axes[0, 0]
    for place, row in enumerate(rows):
        colour = COLOURS.get(row.verdict.word, GREY)
        if np.isnan(row.value):
            told = f"{row.verdict.seeds} of {row.verdict.planned} seeds"
            axis.text(2, place, told, fontsize=7, color=colour, va="center")
            continue
        limits = [float(np.clip(row.percent(x), -MAX_PERCENT, MAX_PERCENT)) for x in (row.low, row.high)]
        axis.plot(limits, [place, place], color=colour, linewidth=2.2, alpha=0.55, solid_capstyle="butt")
        face = "white" if row.verdict.provisional else colour
        axis.scatter([row.percent(row.value)], [place], color=face, edgecolors=colour, s=26, zorder=3)
    axis.axvline(0, color=INK, alpha=0.5, linewidth=0.8)
    shown = [abs(np.clip(row.percent(x), -MAX_PERCENT, MAX_PERCENT)) for row in rows for x in (row.low, row.high)]
    width = 1.08 * float(np.nanmax([*shown, 10.0]))
    axis.set_xlim(-width, width)
    several = len({(row.comparison.ours, row.comparison.theirs) for row in rows}) > 1
    set_rows(axis, [row.comparison.env.removesuffix("-v5") + (f": {row.name}" if several else "") for row in rows])
    title = "" if several else f"{rows[0].name}, "
    notes = ["hollow: seeds are missing"] * any(row.verdict.provisional for row in rows)
    notes += [f"longer intervals end at {MAX_PERCENT:.0f}%"] * (width > MAX_PERCENT)
    note = f"\n({'; '.join(notes)})" if notes else ""
    set_labels(axis, f"{title}final return, in % of the other's{note}")
    return figure
