"""The tables and pictures of docs/findings.md, put between the marks of that page.

Its sentences are written by hand.
"""

import json
import re
from collections.abc import Callable

import numpy as np

from benchmarks.claims import Claim, evidence, summary, table
from benchmarks.evidence import evidence_of
from benchmarks.page import RESULTS
from benchmarks.verdicts import MIN_RUNS, Comparison, forest, judge, seeds_told
from toppo.plotting import save
from toppo.report.tables import number
from toppo.reproduce import v_ratio
from toppo.studies.paper import THREE_TASKS

PAGE = RESULTS.parent / "findings.md"
PICTURES = RESULTS / "claims"
BLOCK = re.compile(r"(<!-- begin (\S+) -->\n).*?(<!-- end \2 -->)", re.DOTALL)
COMPETITORS = ("toppo", "ppo", "geppo")
# The name of each competitor's arm with early stop, and without.
STOP = {
    "yes": ("toppo", "ppo-early-stop", "geppo-early-stop"),
    "no": ("toppo-no-early-stop", "ppo", "geppo"),
    "as published": COMPETITORS,
}
STD = {"1": "", "0.6": "-std=0.6"}


def label_steps() -> list[Comparison]:
    """The frozen critic against the newest, and the newest with and without the ratios, on two draws."""
    steps = {
        "geppo": ("geppo-newest-critic", "geppo-frozen", "geppo"),
        "toppo": ("toppo-newest-critic", "toppo", "toppo-vtrace"),
    }
    pairs = [pair for new, frozen, vtrace in steps.values() for pair in ((new, frozen), (vtrace, new))]
    return [Comparison("labels", env, *pair, expected=0) for pair in pairs for env in THREE_TASKS]


def stop_effects() -> list[Comparison]:
    """Each competitor with early stop against itself without, at the papers' initial std."""
    pairs = zip(STOP["yes"], STOP["no"], strict=True)
    return [Comparison("std-and-stop", env, *pair, expected=0) for pair in pairs for env in THREE_TASKS]


def std_effects() -> list[Comparison]:
    """Each competitor with the smaller initial std against itself with the papers'."""
    return [
        Comparison("std-and-stop", env, f"{arm}{STD['0.6']}", arm, expected=0)
        for arm in COMPETITORS
        for env in THREE_TASKS
    ]


def answered(name: str, comparisons: list[Comparison]) -> list[str]:
    """Return the table and the picture of comparisons that answer a question together."""
    rows = judge(comparisons)
    verdicts = [row.verdict for row in rows]
    lines = [f"Seeds: {seeds_told(verdicts)}.", "", *evidence(rows)]
    if any(v.seeds >= MIN_RUNS for v in verdicts):
        save(forest(rows), PICTURES / f"findings-{name}.png")
        lines += [f"![{name}](results/claims/findings-{name}.png)", ""]
    return lines


def ranks() -> list[str]:
    """Return the final returns of the three competitors under every initial std and rule of stopping, best first."""
    found = evidence_of("std-and-stop")
    rows = []
    for env in THREE_TASKS:
        for std, ending in STD.items():
            for stop, names in STOP.items():
                here = [found[env, name + ending] for name in names]
                told = [
                    (e.group.final().mean(), f"{algo} {number(e.group.final().mean())} ({e.seeds})")
                    for algo, e in zip(COMPETITORS, here, strict=True)
                    if e.seeds >= MIN_RUNS
                ]
                if len(told) > 1:
                    rows.append([env, std, stop, " > ".join(text for _, text in sorted(told, reverse=True))])
    return table(("task", "initial std", "early stop", "mean final return, best first (seeds)"), rows)


def v_ratio_rows() -> list[str]:
    """Return the bias of V-trace's values and the ratios at which it was measured, and draw them."""
    data = json.loads((RESULTS / "v-ratio" / "v-ratio.json").read_text())
    rows = []
    for env in v_ratio.TASKS:
        for algo, name in v_ratio.ALGOS.items():
            mine = [r for r in data["rows"] if (r["env"], r["algo"]) == (env, algo)]
            if not mine:
                continue
            seeds = len({r["seed"] for r in mine})
            medians = [f"{np.median([r[key] for r in mine]):.3f}" for key in ("ratio", "noise")]
            rows.append([env, name, *medians, str(len(mine)), str(seeds)])
    return table(("task", "estimate", "V ratio", "noise alone", "measurements", "seeds"), rows)


def fill(page: str, blocks: dict[str, Callable[[], list[str]]]) -> str:
    """Return the page with what the blocks generate between its marks."""

    def block(found: re.Match[str]) -> str:
        return f"{found[1]}\n{chr(10).join(blocks[found[2]]()).strip()}\n\n{found[3]}"

    return BLOCK.sub(block, page)


def write_findings(claims: list[Claim]) -> None:
    """Fill the tables and pictures of the page of findings."""
    blocks: dict[str, Callable[[], list[str]]] = {
        "claims": lambda: summary(claims, "results/claims.md"),
        "labels": lambda: answered("labels", label_steps()),
        "stop": lambda: answered("stop", stop_effects()),
        "std": lambda: answered("std", std_effects()),
        "ranks": ranks,
        "v-ratio": v_ratio_rows,
    }
    PAGE.write_text(fill(PAGE.read_text(), blocks))
