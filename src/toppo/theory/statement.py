"""What a statement claims, as two numbers, and how much of its penalty a case needs."""

from collections.abc import Callable
from typing import Generic, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from toppo.theory.mdp import Array

Given = TypeVar("Given")
Source = Literal["paper", "ours"]
Kind = Literal["identity", "bound"]

TOLERANCE = 1e-10
DISCOUNTS = (0.1, 0.3, 0.5, 0.8, 0.9, 0.95, 0.99)


class Sides(NamedTuple):
    """The claim smaller <= larger and the penalty that makes it true; or smaller = larger and its scale.  [B, ...]"""

    smaller: Array
    larger: Array
    penalty: Array


class Statement(NamedTuple, Generic[Given]):
    """A claim, and the function that computes both of its sides from a solved case or from random numbers."""

    key: str
    title: str
    formula: str
    source: Source
    kind: Kind
    sides: Callable[[Given], Sides]
    discounts: tuple[float, ...] = DISCOUNTS


def statement(
    key: str, title: str, formula: str, *, source: Source = "paper", kind: Kind = "bound"
) -> Callable[[Callable[[Given], Sides]], Statement[Given]]:
    """Turn the decorated function, which computes both sides, into a statement."""
    return lambda sides: Statement(key=key, title=title, formula=formula, source=source, kind=kind, sides=sides)


def identity(left: Array, right: Array, scale: Array) -> Sides:
    """Claim left = right, with an error relative to ``scale`` [B]."""
    return Sides(left, right, np.maximum(1.0, scale).reshape(scale.shape + (1,) * (left.ndim - scale.ndim)))


def at_most(smaller: Array, larger: Array) -> Sides:
    """Claim smaller <= larger for two positive quantities: the whole right side is the penalty."""
    return Sides(smaller, larger, larger)


def lower_bound(gain: Array, surrogate: Array, penalty: Array) -> Sides:
    """Claim gain >= surrogate - penalty."""
    return Sides(surrogate - penalty, gain, penalty)


def relative_error(sides: Sides) -> Array:
    """max |left - right| / scale over all axes but the first  [B]"""
    error = np.abs(sides.smaller - sides.larger) / sides.penalty
    return np.asarray(error.reshape(len(error), -1).max(-1))


def penalty_share(sides: Sides) -> Array:
    """gap / penalty: 1 is tight, above 1 is violated, NaN where the penalty is too small to divide by  [B]"""
    slack = sides.larger - sides.smaller
    divisible = sides.penalty > 1e-6 * np.maximum(1.0, np.abs(sides.larger))
    share = 1.0 - slack / np.where(divisible, sides.penalty, 1.0)
    return np.asarray(np.where(divisible, share, np.nan))


def bound_violated(sides: Sides) -> NDArray[np.bool_]:
    """Tell where smaller <= larger fails by more than rounding.  [B]"""
    scale = np.maximum(1.0, np.maximum(np.abs(sides.smaller), np.abs(sides.larger)))
    return np.asarray(sides.larger - sides.smaller < -10.0 * TOLERANCE * scale)


def score(statement: Statement[Given], sides: Sides) -> Array:
    """Measure what a search drives up: the error of an identity, the penalty share of a bound.  [B]"""
    return relative_error(sides) if statement.kind == "identity" else penalty_share(sides)


def violated(statement: Statement[Given], sides: Sides) -> NDArray[np.bool_]:
    """Tell where the statement fails.  [B]"""
    return np.asarray(relative_error(sides) > TOLERANCE) if statement.kind == "identity" else bound_violated(sides)
