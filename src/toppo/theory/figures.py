"""The three pictures of the report: tightness, certified radius, gradient direction."""

from pathlib import Path
from typing import Any

import numpy as np

from toppo.theory import gradient, radius
from toppo.theory.run import Report, Result

BLUE, RED, GREEN, GREY = "#2b6cb0", "#c53030", "#2f855a", "#718096"
LEFT, RIGHT = -1.05, 2.05


def draw(report: Report, out: Path) -> list[Path]:
    """Draw and save all three."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    paths = []
    for name, picture in (("tightness", tightness), ("radius", certified_radius), ("gradient", direction)):
        figure = picture(plt, report)
        path = out / f"theory-{name}.png"
        figure.savefig(path, dpi=110, metadata={"Software": None})
        plt.close(figure)
        paths.append(path)
    return paths


def tightness(plt: Any, report: Report) -> Any:
    """Gap over penalty of every bound: the spread at random, the worst at random, the worst under search."""
    bounds = [result for result in report.results if result.statement.kind == "bound" and result.worst is not None]
    figure, axis = plt.subplots(figsize=(9, 0.36 * len(bounds) + 1.5), layout="constrained")
    axis.axvspan(1.0, RIGHT, color=RED, alpha=0.07)
    axis.axvline(1.0, color=RED, linewidth=1)
    for y, result in enumerate(reversed(bounds)):
        one_bound(axis, y, result)
    labels = [
        result.statement.title if result.holds else f"{result.statement.title} (FALSE)" for result in reversed(bounds)
    ]
    axis.set_yticks(range(len(bounds)), labels)
    for label, result in zip(axis.get_yticklabels(), reversed(bounds), strict=True):
        label.set_color("black" if result.holds else RED)
    axis.set(
        xlim=(LEFT, RIGHT), ylim=(-0.7, len(bounds) - 0.3), xlabel="gap / penalty   (1 = tight, above 1 = violated)"
    )
    figure.suptitle(f"How much of its penalty each bound needs ({report.mdps} random processes, and a search)")
    axis.legend(loc="lower left", fontsize=8, framealpha=0.95)
    tidy(axis)
    return figure


def one_bound(axis: Any, y: int, result: Result) -> None:
    """Bars for the middle 90% and 50%, a tick at the median, dots for the two worst values."""
    scores = np.clip(result.scores[np.isfinite(result.scores)], LEFT, RIGHT - 0.05)
    low, first, middle, third, high = np.quantile(scores, (0.05, 0.25, 0.5, 0.75, 0.95))
    named = result.statement.title == "Lemma A.2"
    colour = BLUE if result.holds else RED
    axis.plot([low, high], [y, y], color=GREY, linewidth=1.5, label="middle 90%" if named else None)
    axis.plot([first, third], [y, y], color=GREY, linewidth=6, alpha=0.6, label="middle 50%" if named else None)
    axis.plot(middle, y, "|", color="black", markersize=9, label="median" if named else None)
    axis.plot(scores.max(), y, "o", color=colour, markersize=5, label="worst at random" if named else None)
    assert result.worst is not None
    beyond = min(result.worst.score, RIGHT - 0.05)
    axis.plot(beyond, y, "D", color=colour, markerfacecolor="white", label="worst by search" if named else None)
    if result.worst.score > RIGHT:
        axis.annotate(f"{result.worst.score:.1f} →", (beyond - 0.04, y), ha="right", va="center", fontsize=8, color=RED)


def certified_radius(plt: Any, report: Report) -> Any:
    """Certified radius against the discount, with what practice uses."""
    figure, axis = plt.subplots(figsize=(7.5, 4.6), layout="constrained")
    horizon = [1.0 / (1.0 - r.gamma) for r in report.radii]
    curves = (
        ("second_order", "second-order bound", GREEN, "s-"),
        ("strengthened", "strengthened linear term", BLUE, "o-"),
        ("paper", "Lemma 3.1", RED, "^-"),
        ("explicit", "proved for every direction (Theorem 3.1)", GREY, "v--"),
    )
    for name, label, colour, style in curves:
        values = np.asarray([np.quantile(getattr(r, name), (0.1, 0.5, 0.9)) for r in report.radii])
        axis.plot(horizon, values[:, 1], style, color=colour, label=label, markersize=5)
        axis.fill_between(horizon, values[:, 0], values[:, 2], color=colour, alpha=0.12, linewidth=0)
    practice = float(np.median([r.tv_at_alpha for r in report.radii]))
    axis.axhline(practice, color="black", linestyle=":", linewidth=1.2)
    text = rf"where the filter stands: mean TV at mean KL = $\alpha$ = {radius.ALPHA:g}"
    axis.annotate(text, (horizon[0], practice), (0, 4), textcoords="offset points")
    axis.set(xscale="log", yscale="log", xlabel=r"discount $\gamma$")
    axis.set_ylabel(r"largest $\max_s\, TV(\mu, \pi_k)$ with a positive certificate")
    axis.set_xticks(horizon, [f"{r.gamma:g}" for r in report.radii])
    axis.minorticks_off()
    axis.set_ylim(top=1.0)
    axis.set_title(f"How near the data must be: median and middle 80% of {len(report.radii[0].paper)} processes")
    axis.legend(loc="lower left", fontsize=8)
    tidy(axis)
    return figure


def direction(plt: Any, report: Report) -> Any:
    """1 - cosine with the true policy gradient against the distance of the data."""
    figure, axis = plt.subplots(figsize=(7.5, 4.6), layout="constrained")
    bins = gradient.binned(report.cosines)
    centres = [float(np.sqrt(b.low * b.high)) for b in bins]
    for name, label, colour in (("own", r"$A^\mu$ (ToPPO)", BLUE), ("current", r"$A^{\pi_k}$ (exact)", GREEN)):
        median = [1.0 - getattr(b, name)[0] for b in bins]
        poor = [1.0 - getattr(b, name)[1] for b in bins]
        axis.plot(centres, median, "o-", color=colour, label=f"{label}, median", markersize=4)
        axis.plot(centres, poor, "v--", color=colour, label=f"{label}, worst 5%", markersize=4)
    axis.axvline(radius.ALPHA, color="black", linestyle=":", linewidth=1.2)
    axis.set(xscale="log", yscale="log", xlabel=r"$E_{\rho^\mu}\, KL(\mu, \pi_k)$")
    axis.set_ylabel("1 - cosine with the true policy gradient")
    axis.text(radius.ALPHA * 1.1, 0.05, rf"$\alpha$ = {radius.ALPHA:g}", transform=axis.get_xaxis_transform())
    axis.set_title(f"Where the surrogate's gradient points: {len(report.cosines.kl)} random processes")
    axis.legend(loc="upper left", fontsize=8)
    tidy(axis)
    return figure


def tidy(axis: Any) -> None:
    """A light grid and no box."""
    axis.grid(alpha=0.25, linewidth=0.6)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)
