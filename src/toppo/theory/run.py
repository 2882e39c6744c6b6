"""``toppo theory``: evaluate every statement, try to violate it, and report what came out."""

from collections.abc import Callable
from typing import NamedTuple
from zlib import crc32

import numpy as np

from toppo.theory import gradient, radius
from toppo.theory.catalogue import EXHAUSTIVE, STATEMENTS
from toppo.theory.counterexample import describe, simplified
from toppo.theory.mdp import Array, Case
from toppo.theory.ppo_theorem import return_falls, theorem_shared_rows
from toppo.theory.random_mdps import random_batches
from toppo.theory.search import Worst, climb, search
from toppo.theory.statement import Statement, score, violated

SEARCH_STEPS = 240
SMALLEST_SHAPE = (2, 2)
READABLE_DISCOUNTS = (0.9, 0.5, 0.1)
STUDIES = ("radius study", "gradient study")
PARTS = (*(s.title for s in STATEMENTS), *(s.title for s in EXHAUSTIVE), *STUDIES)

Observe = Callable[[str], object]  # takes the name of the part that begins


class Result(NamedTuple):
    """What was found out about one statement; ``scores`` are errors of an identity or penalty shares of a bound."""

    statement: Statement[Case] | Statement[np.random.Generator]
    violations: int
    scores: Array
    worst: Worst | None = None
    counterexample: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Tell whether neither the cases tried nor the search violated it."""
        return self.violations == 0 and not (self.worst and self.worst.violated)


class Report(NamedTuple):
    """All that ``toppo theory`` found out."""

    mdps: int
    seed: int
    results: tuple[Result, ...]
    radii: tuple[radius.Radii, ...]
    cosines: gradient.Cosines
    returns_fall: int


def check_all(mdps: int, seed: int, steps: int = SEARCH_STEPS, observe: Observe = lambda part: None) -> Report:
    """Check every statement on ``mdps`` random processes and by search, and carry out the two studies."""
    if mdps < 1:
        raise ValueError(f"mdps is {mdps}, but must be at least 1")
    results = []
    for statement in STATEMENTS:
        observe(statement.title)
        results.append(check(statement, mdps, seed, steps))
    for exhaustive in EXHAUSTIVE:
        observe(exhaustive.title)
        results.append(check_exhaustively(exhaustive, seed))
    observe(STUDIES[0])
    radii = radius.study(named_rng(seed, "radius"), max(10, mdps // 20))
    observe(STUDIES[1])
    cosines = gradient.study(named_rng(seed, "gradient"), max(500, 2 * mdps))
    batches = random_batches(named_rng(seed, theorem_shared_rows.key), mdps, theorem_shared_rows.discounts)
    falls = sum(int(return_falls(batch).sum()) for batch in batches)
    return Report(mdps=mdps, seed=seed, results=tuple(results), radii=tuple(radii), cosines=cosines, returns_fall=falls)


def check(statement: Statement[Case], mdps: int, seed: int, steps: int = SEARCH_STEPS) -> Result:
    """Evaluate a statement on random processes of all shapes, then search; simplify the counterexample, if any."""
    batches = random_batches(named_rng(seed, statement.key), mdps, statement.discounts)
    sides = [statement.sides(batch) for batch in batches]
    violations = sum(int(violated(statement, s).sum()) for s in sides)
    worst = search(statement, named_rng(seed, statement.key, "search"), steps)
    return Result(
        statement=statement,
        violations=violations,
        scores=np.concatenate([score(statement, s) for s in sides]),
        worst=worst,
        counterexample=readable_counterexample(statement, seed, steps) if violations or worst.violated else (),
    )


def check_exhaustively(statement: Statement[np.random.Generator], seed: int) -> Result:
    """Evaluate a statement by arithmetic, or on every path of an absorbing process."""
    sides = statement.sides(named_rng(seed, statement.key))
    violations = int(violated(statement, sides).sum())
    return Result(statement=statement, violations=violations, scores=score(statement, sides))


def readable_counterexample(statement: Statement[Case], seed: int, steps: int) -> tuple[str, ...]:
    """Describe a simple counterexample with two states and two actions, at the first discount that has one."""
    for gamma in READABLE_DISCOUNTS:
        at_gamma = statement._replace(discounts=(gamma,))
        worst = climb(at_gamma, named_rng(seed, statement.key, "smallest"), steps, SMALLEST_SHAPE)
        if worst.violated:
            return tuple(describe(statement, simplified(statement, worst.case)))
    return ()


def named_rng(seed: int, *names: str) -> np.random.Generator:
    """Make random numbers that depend on seed and purpose only: a new statement changes no other's numbers."""
    return np.random.default_rng([seed, *(crc32(name.encode()) for name in names)])
