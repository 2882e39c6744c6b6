"""What a statement claims, in numbers: two sides, and how much of its allowance is used up."""

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

from toppo.theory.mdp import Array, Case

TOLERANCE = 1e-10
DISCOUNTS = (0.1, 0.3, 0.5, 0.8, 0.9, 0.95, 0.99)


class Sides(NamedTuple):
    """The claim smaller <= larger and the penalty to make it true; or smaller = larger and its scale.  [B, ...]"""

    smaller: Array
    larger: Array
    allowance: Array


class Statement(NamedTuple):
    """A statement that can be evaluated: where it comes from, what it says, and the discounts it is said for."""

    key: str
    title: str
    formula: str
    source: Literal["paper", "ours"]
    kind: Literal["identity", "bound"]
    sides: Callable[[Case], Sides]
    policies: tuple[str, ...] = ("mu", "pi_k", "pi")
    discounts: tuple[float, ...] = DISCOUNTS


def identity(left: Array, right: Array, scale: Array) -> Sides:
    """The claim left = right, its error to be measured against ``scale`` [B]."""
    return Sides(left, right, np.maximum(1.0, scale).reshape(scale.shape + (1,) * (left.ndim - scale.ndim)))


def at_most(smaller: Array, larger: Array) -> Sides:
    """The claim smaller <= larger of two positive quantities: all of the larger is allowance."""
    return Sides(smaller, larger, larger)


def lower_bound(gain: Array, surrogate: Array, penalty: Array) -> Sides:
    """The claim gain >= surrogate - penalty."""
    return Sides(surrogate - penalty, gain, penalty)


def with_penalty(sides: Sides, factor: float) -> Sides:
    """The same claim with its allowance multiplied by ``factor``: 0 removes it."""
    return Sides(sides.smaller + (1.0 - factor) * sides.allowance, sides.larger, factor * sides.allowance)


def relative_error(sides: Sides) -> Array:
    """|left - right| / scale, the worst over all axes but the first.  [B]"""
    error = np.abs(sides.smaller - sides.larger) / sides.allowance
    return np.asarray(error.reshape(len(error), -1).max(-1))


def used(sides: Sides) -> Array:
    """Gap over allowance: 1 is tight, above 1 is violated; NaN where the allowance is too small to divide by.  [B]"""
    slack = sides.larger - sides.smaller
    enough = sides.allowance > 1e-6 * np.maximum(1.0, np.abs(sides.larger))
    fraction = 1.0 - slack / np.where(enough, sides.allowance, 1.0)
    return np.asarray(np.where(enough, fraction, np.nan))


def broken(sides: Sides) -> Array:
    """Where the claim smaller <= larger fails by more than rounding.  [B]"""
    scale = np.maximum(1.0, np.maximum(np.abs(sides.smaller), np.abs(sides.larger)))
    return np.asarray(sides.larger - sides.smaller < -10.0 * TOLERANCE * scale)


def score(statement: Statement, sides: Sides) -> Array:
    """What a search drives up: the error of an identity, the used fraction of a bound.  [B]"""
    return relative_error(sides) if statement.kind == "identity" else used(sides)


def violated(statement: Statement, sides: Sides) -> Array:
    """Where the statement fails.  [B]"""
    return np.asarray(relative_error(sides) > TOLERANCE) if statement.kind == "identity" else broken(sides)
