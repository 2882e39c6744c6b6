"""``toppo theory``: evaluate every statement, try to break it, and say what came out."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import numpy as np

from toppo.theory import estimators, gradient, lemma_4_1, radius
from toppo.theory.catalogue import STATEMENTS
from toppo.theory.counterexample import describe, minimal
from toppo.theory.mdp import Array, Instance, solve_case
from toppo.theory.ppo_theorem import returns_fall
from toppo.theory.random_mdps import batches
from toppo.theory.search import Found, climb, search
from toppo.theory.statement import DISCOUNTS, TOLERANCE, Sides, Statement, broken, relative_error, score, used, violated

SEARCH_STEPS = 240
SMALLEST_SHAPE = (2, 2)
READABLE_DISCOUNTS = (0.9, 0.5, 0.1)


class Result(NamedTuple):
    """What became of one statement: ``scores`` are errors of an identity or used fractions of a bound; 1 is tight."""

    key: str
    title: str
    formula: str
    source: str
    kind: str
    tried: int
    violations: int
    scores: Array
    found: Found | None
    counterexample: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether neither the random processes nor the search broke it."""
        return self.violations == 0 and not (self.found and self.found.broken)


class Report(NamedTuple):
    """All that ``toppo theory`` found out."""

    mdps: int
    seed: int
    results: tuple[Result, ...]
    radii: tuple[radius.Radii, ...]
    cosines: gradient.Cosines
    returns_fall: int


def run(mdps: int = 2000, seed: int = 0, out: Path | None = None, echo: Callable[[str], None] = print) -> Report:
    """Check every statement on ``mdps`` random processes and by search; report to ``echo`` and, if given, ``out``."""
    from toppo.theory.report import render, write

    if mdps < 1:
        raise ValueError(f"mdps is {mdps}, but must be at least 1")
    report = investigate(mdps, seed)
    echo(render(report))
    if out is not None:
        for path in write(report, out):
            echo(f"wrote {path}")
    return report


def investigate(mdps: int, seed: int, steps: int = SEARCH_STEPS) -> Report:
    """Everything but the writing."""
    results = [evaluate(statement, mdps, seed, steps) for statement in STATEMENTS] + without_processes(seed)
    radii = tuple(radius.study(stream(seed, "radius"), max(10, mdps // 20)))
    cosines = gradient.study(stream(seed, "gradient"), max(500, 2 * mdps))
    fallen = sum(int(returns_fall(solve_case(b)).sum()) for b in drawn("ppo-theorem", mdps, seed))
    return Report(mdps, seed, tuple(results), radii, cosines, fallen)


def evaluate(statement: Statement, mdps: int, seed: int, steps: int = SEARCH_STEPS) -> Result:
    """Both sides on random processes of all shapes, then a search; a broken statement gets its counterexample."""
    sides = [statement.sides(solve_case(b)) for b in drawn(statement.key, mdps, seed, statement.discounts)]
    violations = sum(int(violated(statement, s).sum()) for s in sides)
    found = search(statement, stream(seed, statement.key, "search"), steps)
    counterexample = smallest_counterexample(statement, seed, steps) if violations or found.broken else ()
    scores = np.concatenate([score(statement, s) for s in sides])
    about = (statement.key, statement.title, statement.formula, statement.source, statement.kind)
    return Result(*about, mdps, violations, scores, found, counterexample)


def smallest_counterexample(statement: Statement, seed: int, steps: int) -> tuple[str, ...]:
    """A counterexample with two states and two actions, at the first discount at which there is one, made readable."""
    for gamma in READABLE_DISCOUNTS:
        at_gamma = statement._replace(discounts=(gamma,))
        found = climb(at_gamma, stream(seed, statement.key, "smallest"), steps, SMALLEST_SHAPE)
        if found.broken:
            return tuple(describe(statement, minimal(statement, found.instance)))
    return ()


def without_processes(seed: int) -> list[Result]:
    """The statements checked by arithmetic, or on every path of an absorbing process."""
    ratios = lemma_4_1.definition_3_1(stream(seed, "definition-3-1"))
    gae = estimators.gae_identity(stream(seed, "gae"))
    vtrace = estimators.vtrace_identity(stream(seed, "vtrace"))
    first, second = lemma_4_1.lemma_4_1_loss(True), lemma_4_1.lemma_4_1_loss(False)
    return [
        identity_result("lemma-4-1", "Lemma 4.1, arithmetic", "N = 2 .. 50", "paper", lemma_4_1.lemma_4_1_arithmetic()),
        bound_result("lemma-4-1-loss", "Lemma 4.1, equal loss", "loss <= PPO's, by Lemma 3.1", "paper", first),
        bound_result("lemma-4-1-second", "Lemma 4.1, equal loss", "the same, by second order", "paper", second),
        identity_result("definition-3-1", "Definition 3.1", "max(c - eps, 0) clips as c - eps", "ours", ratios),
        identity_result("gae", "GAE of the code", "mean over all paths = A^mu", "ours", gae),
        identity_result("vtrace", "V-trace of the code", "mean over all paths = A^pi_rhobar", "ours", vtrace),
    ]


def identity_result(key: str, title: str, formula: str, source: str, sides: Sides) -> Result:
    """The result of an identity checked exhaustively."""
    errors = relative_error(sides)
    wrong = int((errors > TOLERANCE).sum())
    return Result(key, title, formula, source, "identity", len(errors), wrong, errors, None, ())


def bound_result(key: str, title: str, formula: str, source: str, sides: Sides) -> Result:
    """The result of a bound checked exhaustively."""
    fractions = used(sides)
    wrong = int(broken(sides).sum())
    return Result(key, title, formula, source, "bound", len(fractions), wrong, fractions, None, ())


def drawn(key: str, mdps: int, seed: int, among: tuple[float, ...] = DISCOUNTS) -> list[Instance]:
    """The random processes of one statement, their discounts drawn from ``among``."""
    return batches(stream(seed, key), mdps, among)


def stream(seed: int, *names: str) -> np.random.Generator:
    """Random numbers that depend on the seed and the purpose alone: a new statement changes no other's numbers."""
    return np.random.default_rng([seed, *(crc32(name.encode()) for name in names)])
