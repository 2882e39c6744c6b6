"""The one style of all figures, and how they are written."""

import colorsys
import io
import re
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from toppo.errors import IO_ERROR, ToppoError
from toppo.rundir.files import refuse_to_write
from toppo.rundir.layout import write_bytes

COLOURS = {
    "toppo": "#0b7fb0",
    "ppo": "#d1603d",
    "geppo": "#6a994e",
    "trpo": "#8a6bbf",
    "otrpo": "#b08900",
    "oppo": "#7f8ea3",
    "disc": "#bc4b8a",
}
MORE_COLOURS = ("#e08214", "#1b9e9e", "#5e81c4", "#c05a7a", "#8c9a2b", "#a0705a", "#6d6ab8", "#3f9b62")
PANEL_WIDTHS = {1: 5.6, 2: 5.0, 3: 4.2}  # inches, by panels in a row
WIDE = 7.0  # inches: a figure above this fills the width of a page
INK = "#1b1f24"  # on a page it becomes the colour of the text
WARNING = "#b03030"
QUICK_RUN = "quick run, no conclusion"


def subplots(rows: int, columns: int, width: float = 4.2, height: float = 3.1) -> tuple[Figure, np.ndarray]:
    """Return a figure and its axes [rows, columns], each ``width`` x ``height`` inches; needs no display."""
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False)
    for axis in axes.flat:
        axis.spines[["top", "right"]].set_visible(False)
        axis.spines[:].set_color(INK)
        axis.grid(alpha=0.25, linewidth=0.6)
        axis.tick_params(which="both", labelsize=8, colors=INK)
    return figure, axes


def panels(count: int, width: float | None = None, height: float = 3.1) -> tuple[Figure, list[Axes]]:
    """Return a figure and ``count`` axes, at most three in a row; a panel on its own is wider."""
    columns = 2 if count == 4 else min(count, 3)
    figure, axes = subplots(-(-count // columns), columns, width or PANEL_WIDTHS[columns], height)
    for axis in axes.flat[count:]:
        axis.remove()
    return figure, list(axes.flat[:count])


def set_title(axis: Axes, text: str, fontsize: float = 10) -> None:
    """Set a title that is never read as a formula."""
    axis.set_title(text, fontsize=fontsize, color=INK, parse_math=False)


def set_labels(axis: Axes, x: str = "", y: str = "") -> None:
    """Name the axes."""
    axis.set_xlabel(x, fontsize=9, color=INK)
    axis.set_ylabel(y, fontsize=9, color=INK)


def set_rows(axis: Axes, names: Sequence[str]) -> None:
    """Name the rows of a chart of horizontal bars, from the top down."""
    axis.set_yticks(range(len(names)), names, fontsize=8, color=INK, parse_math=False)
    axis.set_ylim(len(names) - 0.5, -0.5)


def add_legend(where: Axes | Figure, **options: Any) -> None:
    """Add a legend to an axis or to the whole figure; its names are never read as formulas."""
    legend = where.legend(fontsize=8, frameon=False, labelcolor=INK, **options)
    for text in legend.get_texts():
        text.set_parse_math(False)


def colours_of(arms: Sequence[str]) -> dict[str, str]:
    """Return a colour for every arm; algorithms always have the same."""
    others = [a for a in dict.fromkeys(arms) if a not in COLOURS]
    colours = MORE_COLOURS if len(others) <= len(MORE_COLOURS) else around_the_wheel(len(others))
    return COLOURS | dict(zip(others, colours, strict=False))


def around_the_wheel(count: int) -> tuple[str, ...]:
    """Return ``count`` colours with hues at equal distances, so that each stands for one arm."""
    points = (colorsys.hls_to_rgb(i / count, 0.42 + 0.14 * (i % 2), 0.6) for i in range(count))
    return tuple("#" + "".join(f"{round(255 * part):02x}" for part in point) for point in points)


def save(figure: Figure, out: Path) -> None:
    """Write the figure in the format that the ending of its name says."""
    without_clock = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}}
    picture = io.BytesIO()
    try:
        if not out.suffix:
            raise ValueError("its name does not end in .png, .pdf or .svg")
        with matplotlib.rc_context({"svg.hashsalt": "toppo"}):
            figure.savefig(picture, format=out.suffix[1:], dpi=150, metadata=without_clock.get(out.suffix))
    except ValueError as error:
        raise ToppoError(f"{out} cannot be written: {error}", IO_ERROR) from error
    write_output(out, picture.getvalue())


def save_png_and_pdf(figure: Figure, folder: Path, name: str, quick_run: str = "") -> None:
    """Write the figure for a screen and for a paper; ``quick_run`` says on it why it allows no conclusion."""
    if quick_run:
        letters_per_line = int(15 * figure.get_figwidth())
        figure.suptitle(textwrap.fill(f"{QUICK_RUN}: {quick_run}", letters_per_line), fontsize=9, color=WARNING)
    save(figure, folder / f"{name}.png")
    save(figure, folder / f"{name}.pdf")


def write_output(out: Path, data: bytes) -> None:
    """Write a file where the user wants it, or raise a sentence."""
    refuse_to_write(out)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(out, data)
    except OSError as error:
        raise ToppoError(f"{out} cannot be written: {error.strerror}", IO_ERROR) from error


def to_svg(figure: Figure, name: str) -> str:
    """Return the figure as an element of an HTML page: text stays text, ids begin with ``name``."""
    text = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    body = text.getvalue()
    body = body[body.index("<svg") :].replace(INK, "currentColor").replace("#000000", "currentColor")
    size = "wide" if figure.get_figwidth() > WIDE else "narrow"
    body = body.replace("<svg", f'<svg class="{size}"', 1)
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    # A screen shows no more than two decimals of a path, and the page is a quarter smaller.
    body = re.sub(r' d="[^"]*"', lambda path: re.sub(r"(\.\d\d)\d+", r"\1", path[0]).replace(" \n", "\n"), body)
    body = re.sub(r'\bid="', f'id="{name}-', body)
    return re.sub(r'(url\(#|href="#)', rf"\g<1>{name}-", body)
