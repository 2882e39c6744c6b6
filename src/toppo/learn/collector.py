"""Where batches come from.  The training loop sees this protocol alone."""

from typing import Any, NamedTuple, Protocol

from toppo.collect.faults import FailedReplays, SurvivedFault
from toppo.collect.plan import RawBatch
from toppo.learn.metrics import Episode
from toppo.learn.state import State
from toppo.maths.moments import Summary


class BatchStatistics(NamedTuple):
    """What the training loop learns of a batch in addition to its steps."""

    episodes: Any  # open after the batch; the next ``State`` holds them
    finished: list[Episode]  # in the order of their last steps
    obs: Summary | None  # of all numbers in the observations; None if they are not normalised
    returns: Summary | None  # from every step of the finished episodes on; None if rewards are not normalised


class Collector(Protocol):
    """Steps environments with the policy of a state; ``start`` may return before the batch is there."""

    def start(self, state: State) -> None:
        """Begin to collect the batch that follows ``state``."""

    def finish(self) -> list[SurvivedFault]:
        """Wait for the batch that was started; return the faults of environments that it survived."""

    def batch(self) -> RawBatch[Any]:
        """Return the batch in arrays that no later batch overwrites."""

    def statistics(self, state: State, use_open_episodes: bool = False) -> BatchStatistics:
        """Return what is to be known of the batch that followed ``state``; another thread may call this.

        ``use_open_episodes``: if no episode has ended, open ones give the returns.
        """

    def restore(self, episodes: Any) -> tuple[Any, FailedReplays]:
        """Bring the environments to where a state has them; return the episodes from which they go on.

        An episode whose replay fails is given up, and a new one follows; the second value says why.
        """

    def progress(self) -> tuple[int, int | None]:
        """Return the number of the newest batch, and about how many of its steps are done, if that is known."""

    def processes(self) -> int:
        """Return the number of worker processes."""

    def close(self) -> None:
        """End the workers."""
