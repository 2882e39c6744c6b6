"""Settings that may change over a run: a number, or values at fractions of the run with straight lines between them."""

from itertools import pairwise
from math import isfinite
from typing import TypeGuard

Points = tuple[tuple[float, float], ...]
"""(fraction of the run, value), the fractions rising from 0 to 1"""

Schedule = float | Points

LINEAR = "linear"
"""Stands for a line from the default at the start of the run to 0 at its end."""


def schedule_from(name: str, value: object) -> Schedule:
    """Read a schedule from JSON data."""
    if _is_number(value):
        return float(value)
    if isinstance(value, list | tuple) and len(value) > 1 and all(map(_is_pair, value)):
        fractions = [fraction for fraction, _ in value]
        if all(a < b for a, b in pairwise(fractions)) and fractions[0] >= 0 and fractions[-1] <= 1:
            return tuple((float(fraction), float(number)) for fraction, number in value)
    raise ValueError(
        f"{name} is {value!r}, but must be a float, {LINEAR!r}, or pairs of a fraction of the run and a value such as "
        "[[0, 0.1], [1, 0]], whose fractions rise within [0, 1]"
    )


def _is_pair(value: object) -> bool:
    return (
        isinstance(value, list | tuple)
        and len(value) == 2
        and all(map(_is_number, value))
        and all(map(isfinite, value))
    )


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, float) or (type(value) is int and abs(value) < 2**53)


def points_of(schedule: Schedule) -> Points:
    """Return the points of a schedule; a constant has one."""
    return schedule if isinstance(schedule, tuple) else ((0.0, schedule),)


def value_at(schedule: Schedule, progress: float) -> float:
    """Return the value after this fraction of the run; before the first point and after the last it is constant."""
    if not isinstance(schedule, tuple):
        return schedule
    for (x0, y0), (x1, y1) in pairwise(((0.0, schedule[0][1]), *schedule)):
        if progress < x1:
            share = (progress - x0) / (x1 - x0)
            return (1 - share) * y0 + share * y1
    return schedule[-1][1]


def linear_from(name: str, default: Schedule) -> Points:
    """Return the line from the default at the start to 0 at the end."""
    start = points_of(default)[0][1]
    if not start:
        raise ValueError(f"{name} is {LINEAR!r}, but its default is 0: say where it starts, as in [[0, 0.01], [1, 0]]")
    return ((0.0, start), (1.0, 0.0))
