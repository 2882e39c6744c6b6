"""What ``toppo theory`` prints and writes: report.md, report.json and three figures."""

import json
from io import StringIO
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from toppo.plotting import write_output
from toppo.theory import gradient, radius
from toppo.theory.run import Report, Result

SCHEMA = 1
COLUMNS = ("statement", "says", "from", "verdict", "violations / tried", "random", "search")
QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
FILTER_EDGES = np.asarray([0.0003, 0.003, 0.03, 0.3, 3.0])


def render(report: Report) -> str:
    """Format the table, the counterexamples and the two studies for a terminal."""
    table = Table(title=f"{report.mdps} random processes and a search per statement, seed {report.seed}", box=None)
    for number, name in enumerate(COLUMNS):
        table.add_column(name, justify="left" if number < 4 else "right", no_wrap=True)
    for result in report.results:
        table.add_row(*row(result))
    page = StringIO()
    Console(file=page, width=132, color_system=None).print(table)
    return "\n".join([*(line.rstrip() for line in page.getvalue().splitlines()), "", *notes(report)])


def row(result: Result) -> tuple[str, ...]:
    """Format one line of the table: errors of an identity, penalty shares of a bound."""
    statement = result.statement
    number = ".0e" if statement.kind == "identity" else ".3f"
    return (
        statement.title,
        statement.formula,
        statement.source,
        "holds" if result.holds else "FALSE",
        f"{result.violations} / {len(result.scores)}",
        f"{np.nanmax(result.scores):{number}}",
        "-" if result.worst is None else f"{result.worst.score:{number}}",
    )


def notes(report: Report) -> list[str]:
    """Explain the table, list the counterexamples, and summarise the two studies."""
    lines = ["Columns 'random' and 'search': the worst error of an identity; the largest share of its penalty that"]
    lines += ["a bound needed (1 is tight, above 1 is violated).", ""]
    for result in report.results:
        if result.counterexample:
            lines += [f"Counterexample to '{result.statement.title}: {result.statement.formula}':"]
            lines += [f"  {line}" for line in result.counterexample] + [""]
    lines += [f"At the exact arg max with shared rows, eta itself falls in {report.returns_fall} of {report.mdps}.", ""]
    return [*lines, *radius_lines(report), "", *cosine_lines(report)]


def radius_lines(report: Report) -> list[str]:
    """Summarise the radius study: four medians at each discount, and what is certified at the filter's alpha."""
    lines = ["Certified radius, median of max_s TV(mu, pi_k): Lemma 3.1 | strengthened | second order | Theorem 3.1"]
    for r in report.radii:
        medians = [f"{float(np.median(radii)):.1e}" for radii in r.by_bound.values()]
        lines.append(f"  gamma {r.gamma:<5g} " + " | ".join(medians))
    share = max(r.certified_at_alpha for r in report.radii)
    at_alpha = f"  at mean KL = {radius.ALPHA:g} Lemma 3.1 certifies improvement in at most {share:.0%} of directions"
    return [*lines, at_alpha]


def cosine_lines(report: Report) -> list[str]:
    """Summarise the gradient study: median, 5th percentile and share of negative cosines in each range of distances."""
    lines = [f"Cosine with the true policy gradient, by E KL(mu, pi_k); the filter has alpha = {radius.ALPHA:g}:"]
    for b in gradient.binned(report.cosines, FILTER_EDGES):
        shares = [f"{m:.5f}, 5% below {q:.3f}, negative {100 * n:.1f}%" for m, q, n in (b.own, b.current)]
        lines.append(f"  [{b.low:g}, {b.high:g}): A^mu median {shares[0]}; A^pi_k median {shares[1]}")
    return lines


def write(report: Report, out: Path) -> list[Path]:
    """Write report.json, report.md and the figures into ``out``; the same report gives the same bytes."""
    from toppo.theory.figures import draw

    six_digits = json.loads(json.dumps(as_data(report)), parse_float=lambda number: float(f"{float(number):.6g}"))
    texts = {"report.json": json.dumps(six_digits, indent=1) + "\n", "report.md": as_markdown(report)}
    for name, text in texts.items():
        write_output(out / name, text.encode())
    return [*(out / name for name in texts), *draw(report, out)]


def as_markdown(report: Report) -> str:
    """Format the same as a page."""
    lines = ["# Theory: report", "", f"`toppo theory --mdps {report.mdps} --seed {report.seed}`", ""]
    lines += ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    for result in report.results:
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in row(result)) + " |")
    figures = [f"![{name}](theory-{name}.png)" for name in ("tightness", "radius", "gradient")]
    return "\n".join([*lines, "", *figures, "", "```", *notes(report), "```", ""])


def as_data(report: Report) -> dict[str, object]:
    """Turn the report into JSON without the time or the machine."""
    return {
        "schema": SCHEMA,
        "mdps": report.mdps,
        "seed": report.seed,
        "statements": [statement_data(result) for result in report.results],
        "returns_fall": report.returns_fall,
        "radius": [radius_data(r) for r in report.radii],
        "gradient": [b._asdict() for b in gradient.binned(report.cosines)],
    }


def statement_data(result: Result) -> dict[str, object]:
    """Turn the result of one statement into JSON: verdict, counts, quantiles and search."""
    worst = result.worst
    return {
        **{name: getattr(result.statement, name) for name in ("key", "title", "formula", "source", "kind")},
        "holds": result.holds,
        "violations": result.violations,
        "tried": len(result.scores),
        "quantiles": {f"{q:g}": float(np.nanquantile(result.scores, q)) for q in QUANTILES},
        "search": None if worst is None else worst.score,
        "search_by_discount": {} if worst is None else {f"{g:.4g}": s for g, s in worst.by_discount.items()},
        "counterexample": list(result.counterexample),
    }


def radius_data(r: radius.Radii) -> dict[str, float]:
    """Turn the radii at one discount into JSON: medians, largest values, and the certificate at the filter's alpha."""
    data = {"gamma": r.gamma, "certified_at_alpha": r.certified_at_alpha, "tv_at_alpha": r.tv_at_alpha}
    for name, radii in r.by_bound.items():
        data |= {f"{name}_median": float(np.median(radii)), f"{name}_max": float(radii.max())}
    return data
