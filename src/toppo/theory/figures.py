"""The three figures of the report: tightness, certified radius, gradient direction."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from toppo.plotting import COLOURS, INK, MORE_COLOURS, WARNING, add_legend, panels, save, set_labels, set_title
from toppo.theory import gradient, radius
from toppo.theory.mdp import Array
from toppo.theory.run import Report, Result

if TYPE_CHECKING:  # importing Matplotlib takes half a second
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MIN_SHARE = -1.05
MAX_SHARE = 2.05


def draw(report: Report, out: Path) -> list[Path]:
    """Draw the figures and save them into ``out``."""
    figures = {"tightness": tightness(report), "radius": certified_radius(report), "gradient": direction(report)}
    for name, figure in figures.items():
        save(figure, out / f"theory-{name}.png")
    return [out / f"theory-{name}.png" for name in figures]


def tightness(report: Report) -> "Figure":
    """Draw the penalty share of every bound: the spread at random, the worst at random, the worst by search."""
    bounds = [result for result in report.results if result.statement.kind == "bound" and result.worst is not None]
    figure, (axis,) = panels(1, width=9.0, height=0.36 * len(bounds) + 1.5)
    axis.axvspan(1.0, MAX_SHARE, color=WARNING, alpha=0.07)
    axis.axvline(1.0, color=WARNING, linewidth=1)
    draw_spread(axis, bounds)
    draw_worst(axis, bounds)
    names = [result.statement.title + ("" if result.holds else " (FALSE)") for result in bounds]
    axis.set_yticks(range(len(bounds)), names)
    for name, result in zip(axis.get_yticklabels(), bounds, strict=True):
        name.set_color(INK if result.holds else WARNING)
    axis.set(xlim=(MIN_SHARE, MAX_SHARE), ylim=(len(bounds) - 0.5, -0.5))
    set_labels(axis, x="gap / penalty (1 is tight, above 1 is violated)")
    set_title(axis, f"Share of its penalty that each bound needs ({report.mdps} random processes, and a search)")
    add_legend(axis, loc="lower left")
    return figure


def draw_spread(axis: "Axes", bounds: list[Result]) -> None:
    """Draw bars for the middle 90% and 50% of random processes, and a tick at the median."""
    quantiles = [np.nanquantile(visible(result.scores), (0.05, 0.25, 0.5, 0.75, 0.95)) for result in bounds]
    low, first, median, third, high = np.transpose(quantiles)
    rows = np.arange(len(bounds))
    axis.hlines(rows, low, high, color=INK, alpha=0.5, linewidth=1.5, label="middle 90%")
    axis.hlines(rows, first, third, color=INK, alpha=0.35, linewidth=6, label="middle 50%")
    axis.plot(median, rows, "|", color=INK, markersize=9, label="median")


def draw_worst(axis: "Axes", bounds: list[Result]) -> None:
    """Draw the worst values at random and by search, in red where a bound is false."""
    colours = [COLOURS["toppo"] if result.holds else WARNING for result in bounds]
    at_random = np.asarray([np.nanmax(result.scores) for result in bounds])
    by_search = np.asarray([result.worst.score for result in bounds if result.worst is not None])
    rows = np.arange(len(bounds))
    axis.scatter(visible(at_random), rows, s=25, color=colours, label="worst at random", zorder=3)
    diamonds = axis.scatter(visible(by_search), rows, s=36, marker="D", label="worst by search", zorder=3)
    diamonds.set(facecolor="white", edgecolor=colours)
    for row, share in enumerate(by_search):
        if share > MAX_SHARE:
            axis.annotate(f"{share:.1f} →", (MAX_SHARE - 0.1, row), ha="right", va="center", fontsize=8, color=WARNING)


def visible(shares: Array) -> Array:
    """Move values beyond the limits of the figure to its edge."""
    return np.clip(shares, MIN_SHARE, MAX_SHARE - 0.05)


def certified_radius(report: Report) -> "Figure":
    """Draw the certified radius against the discount, with the distance that the filter allows."""
    figure, (axis,) = panels(1, width=7.5, height=4.6)
    horizon = [1.0 / (1.0 - r.gamma) for r in report.radii]
    curves = (
        ("second_order", "second-order bound", "s-"),
        ("strengthened", "strengthened linear term", "o-"),
        ("paper", "Lemma 3.1", "^-"),
        ("explicit", "proved for every direction (Theorem 3.1)", "v--"),
    )
    for (name, label, style), colour in zip(curves, MORE_COLOURS, strict=False):
        values = np.asarray([np.quantile(r.by_bound[name], (0.1, 0.5, 0.9)) for r in report.radii])
        axis.plot(horizon, values[:, 1], style, color=colour, label=label, markersize=5)
        axis.fill_between(horizon, values[:, 0], values[:, 2], color=colour, alpha=0.12, linewidth=0)
    at_filter = float(np.median([r.tv_at_alpha for r in report.radii]))
    axis.axhline(at_filter, color=INK, linestyle=":", linewidth=1.2)
    text = f"the filter's distance: mean TV where mean KL = alpha = {radius.ALPHA:g}"
    axis.annotate(text, (horizon[0], at_filter), (0, 4), textcoords="offset points", fontsize=9, color=INK)
    axis.set(xscale="log", yscale="log")
    axis.set_xticks(horizon, [f"{r.gamma:g}" for r in report.radii])
    axis.minorticks_off()
    axis.set_ylim(top=1.0)
    set_labels(axis, x=r"discount $\gamma$", y=r"largest $\max_s\, TV(\mu, \pi_k)$ with a positive certificate")
    set_title(axis, f"Certified radius: median and middle 80% of {len(report.radii[0].by_bound['paper'])} processes")
    add_legend(axis, loc="lower left")
    return figure


def direction(report: Report) -> "Figure":
    """Draw 1 - cosine with the true policy gradient against the distance of the data."""
    figure, (axis,) = panels(1, width=7.5, height=4.6)
    bins = list(gradient.binned(report.cosines))
    centres = [float(np.sqrt(b.low * b.high)) for b in bins]
    for name, label, colour in (("own", "A^mu (ToPPO)", "toppo"), ("current", "A^pi_k (exact)", "geppo")):
        median = [1.0 - getattr(b, name)[0] for b in bins]
        worst = [1.0 - getattr(b, name)[1] for b in bins]
        axis.plot(centres, median, "o-", color=COLOURS[colour], label=f"{label}, median", markersize=4)
        axis.plot(centres, worst, "v--", color=COLOURS[colour], label=f"{label}, worst 5%", markersize=4)
    axis.axvline(radius.ALPHA, color=INK, linestyle=":", linewidth=1.2)
    where = axis.get_xaxis_transform()
    axis.text(radius.ALPHA * 1.1, 0.05, f"alpha = {radius.ALPHA:g}", transform=where, fontsize=9, color=INK)
    axis.set(xscale="log", yscale="log")
    set_labels(axis, x=r"$E_{\rho^\mu}\, KL(\mu, \pi_k)$", y="1 - cosine with the true policy gradient")
    set_title(axis, f"Direction of the surrogate's gradient: {len(report.cosines.kl)} random processes")
    add_legend(axis, loc="upper left")
    return figure
