"""What ``toppo theory`` prints and leaves on disk: report.md, report.json and three figures."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from toppo.theory import gradient, radius
from toppo.theory.run import Report, Result

SCHEMA = 1
COLUMNS = ("statement", "says", "from", "verdict", "violations / tried", "random", "search")
FILTER_EDGES = np.asarray([0.0003, 0.003, 0.03, 0.3, 3.0])


def render(report: Report) -> str:
    """The table, the counterexamples and the two studies as text for a terminal."""
    table = Table(title=f"{report.mdps} random processes and a search per statement, seed {report.seed}", box=None)
    for number, name in enumerate(COLUMNS):
        table.add_column(name, justify="left" if number < 4 else "right", no_wrap=True)
    for result in report.results:
        table.add_row(*row(result))
    page = StringIO()
    Console(file=page, width=132, color_system=None).print(table)
    return "\n".join([*(line.rstrip() for line in page.getvalue().splitlines()), "", *notes(report)])


def row(result: Result) -> tuple[str, ...]:
    """One line of the table; errors for identities, used fractions of the penalty for bounds."""
    found = "-" if result.found is None else number(result, result.found.score)
    worst = number(result, float(np.nanmax(result.scores)))
    verdict = "holds" if result.holds else "FALSE"
    count = f"{result.violations} / {result.tried}"
    return result.title, result.formula, result.source, verdict, count, worst, found


def number(result: Result, value: float) -> str:
    """An error in powers of ten, a fraction in three decimals."""
    return f"{value:.0e}" if result.kind == "identity" else f"{value:.3f}"


def notes(report: Report) -> list[str]:
    """How to read the table, the counterexamples, and the two studies in a few lines."""
    lines = ["Columns 'random' and 'search': the worst error of an identity; the largest share of its penalty that"]
    lines += ["a bound needed (1 is tight, above 1 is violated).", ""]
    for result in report.results:
        if result.counterexample:
            lines += [f"Counterexample to '{result.title}: {result.formula}':"]
            lines += [f"  {line}" for line in result.counterexample] + [""]
    lines += [f"At the exact arg max with shared rows, eta itself falls in {report.returns_fall} of {report.mdps}.", ""]
    return [*lines, *radius_lines(report), "", *cosine_lines(report)]


def radius_lines(report: Report) -> list[str]:
    """The radius study: four medians at each discount, and what is certified where the filter stands."""
    lines = ["Certified radius, median of max_s TV(mu, pi_k): Lemma 3.1 | strengthened | second order | Theorem 3.1"]
    lines += [f"  gamma {r.gamma:<5g} " + " | ".join(radius_cells(r)) for r in report.radii]
    share = 100.0 * max(r.certified_at_alpha for r in report.radii)
    return [
        *lines,
        f"  at mean KL = {radius.ALPHA:g} Lemma 3.1 certifies improvement in at most {share:.0f}% of directions",
    ]


def radius_cells(r: radius.Radii) -> list[str]:
    """The four median radii at one discount."""
    return [f"{float(np.median(x)):.1e}" for x in (r.paper, r.strengthened, r.second_order, r.explicit)]


def cosine_lines(report: Report) -> list[str]:
    """The gradient study: median, 5th percentile and share of negative cosines for each range of distances."""
    lines = [f"Cosine with the true policy gradient, by E KL(mu, pi_k); the filter stands at alpha = {radius.ALPHA:g}:"]
    for b in gradient.binned(report.cosines, FILTER_EDGES):
        shares = [f"{m:.5f}, 5% below {q:.3f}, negative {100 * n:.1f}%" for m, q, n in (b.own, b.current)]
        lines.append(f"  [{b.low:g}, {b.high:g}): A^mu median {shares[0]}; A^pi_k median {shares[1]}")
    return lines


def write(report: Report, out: Path) -> list[Path]:
    """Write report.json, report.md and the figures into ``out``; the same report gives the same bytes."""
    from toppo.theory.figures import draw

    out.mkdir(parents=True, exist_ok=True)
    as_json, as_text = out / "report.json", out / "report.md"
    as_json.write_text(json.dumps(as_data(report), indent=1) + "\n", encoding="utf-8")
    as_text.write_text(as_markdown(report), encoding="utf-8")
    return [as_json, as_text, *draw(report, out)]


def as_markdown(report: Report) -> str:
    """The same as on the terminal, as a page."""
    lines = ["# The theory, run", "", f"`toppo theory --mdps {report.mdps} --seed {report.seed}`", ""]
    lines += ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    for result in report.results:
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in row(result)) + " |")
    figures = [f"![{name}](theory-{name}.png)" for name in ("tightness", "radius", "gradient")]
    return "\n".join([*lines, "", *figures, "", "```", *notes(report), "```", ""])


def as_data(report: Report) -> dict[str, Any]:
    """The report as JSON: six significant digits, no clock, no machine."""
    return {
        "schema": SCHEMA,
        "mdps": report.mdps,
        "seed": report.seed,
        "statements": [statement_data(result) for result in report.results],
        "returns_fall": report.returns_fall,
        "radius": [radius_data(r) for r in report.radii],
        "gradient": [gradient_data(b) for b in gradient.binned(report.cosines)],
    }


def statement_data(result: Result) -> dict[str, Any]:
    """One statement: verdict, counts, distribution and search."""
    levels = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
    found = result.found
    return {
        "key": result.key,
        "title": result.title,
        "formula": result.formula,
        "source": result.source,
        "kind": result.kind,
        "holds": result.holds,
        "violations": result.violations,
        "tried": result.tried,
        "quantiles": {f"{q:g}": short(float(np.nanquantile(result.scores, q))) for q in levels},
        "search": None if found is None else short(found.score),
        "search_by_discount": {} if found is None else {f"{g:.4g}": short(s) for g, s in found.by_discount.items()},
        "counterexample": list(result.counterexample),
    }


def radius_data(r: radius.Radii) -> dict[str, float]:
    """Median and largest radius at one discount, and the certificate at the filter's alpha."""
    data = {"gamma": r.gamma, "certified_at_alpha": r.certified_at_alpha, "tv_at_alpha": short(r.tv_at_alpha)}
    for name in ("paper", "strengthened", "second_order", "explicit"):
        values = getattr(r, name)
        data |= {f"{name}_median": short(float(np.median(values))), f"{name}_max": short(float(values.max()))}
    return data


def gradient_data(b: gradient.Bin) -> dict[str, Any]:
    """One range of distances: median, 5th percentile and share of negative cosines for either advantage."""
    own, current = ([short(x) for x in cosines] for cosines in (b.own, b.current))
    return {"low": short(b.low), "high": short(b.high), "processes": b.processes, "own": own, "current": current}


def short(x: float) -> float:
    """Six significant digits."""
    return float(f"{x:.6g}")
