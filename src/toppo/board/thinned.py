"""Curves that stay small while a run grows."""

import numpy as np

MAX_POINTS = 240
GRID_POINTS = 120

Points = list[tuple[float, float]]


class Thinned:
    """A curve of at most ``MAX_POINTS`` points: the mean of the values in equal parts of x, at the last x of each."""

    def __init__(self, width: float = 1.0) -> None:
        self.width = width  # of a part; it doubles when there are too many parts
        self._parts: dict[float, tuple[float, float, int]] = {}  # by number: last x, sum, count

    def add(self, x: float, y: float) -> None:
        """Add a value."""
        self._join(x // self.width, (x, y, 1))
        while len(self._parts) > MAX_POINTS:
            self.width *= 2
            parts = self._parts
            self._parts = {}
            for number, part in parts.items():
                self._join(number // 2, part)

    def points(self) -> Points:
        """Return the curve from left to right."""
        return sorted((x, total / count) for x, total, count in self._parts.values())

    def _join(self, number: float, part: tuple[float, float, int]) -> None:
        x, total, count = self._parts.get(number, (part[0], 0.0, 0))
        self._parts[number] = (max(x, part[0]), total + part[1], count + part[2])


def mean_curve(curves: list[Points]) -> Points:
    """Return the mean of some curves where all of them are known; nothing if that is nowhere."""
    known = [np.array(curve) for curve in curves if len(curve) > 1]
    if len(known) < 2:
        return []
    first = max(curve[0, 0] for curve in known)
    last = min(curve[-1, 0] for curve in known)
    if first >= last:
        return []
    grid = np.linspace(first, last, GRID_POINTS)
    mean = np.mean([np.interp(grid, curve[:, 0], curve[:, 1]) for curve in known], axis=0)
    return list(zip(grid.tolist(), mean.tolist(), strict=True))
