"""How fast a run is now."""

from collections import deque

SECONDS = 120.0  # the speed is that of so much time


class Pace:
    """The speed of a run between the changes of its log that the board has seen."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()  # when the log changed, and the steps in it

    def speed(self, changed: float, steps: int, logged: float | None) -> float | None:
        """Return steps per second; until the board has seen the run move, what the run itself has logged."""
        if self._seen and steps < self._seen[-1][1]:
            self._seen.clear()  # it was resumed from a checkpoint
        if not self._seen or changed > self._seen[-1][0]:
            self._seen.append((changed, steps))
        while changed - self._seen[0][0] > SECONDS:
            self._seen.popleft()
        began, first = self._seen[0]
        return (steps - first) / (changed - began) if changed - began > 5.0 else logged
