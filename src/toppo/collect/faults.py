"""What a run does about environments that fail: how much it bears, and what it writes down."""

from typing import Any, Literal, NamedTuple, get_args

from toppo.errors import ToppoError

OnNan = Literal["raise", "truncate"]
Ends = dict[tuple[int, int], int]
"""(environment, episode) -> the row of the batch before which that episode is given up."""

FailedReplays = dict[int, str]
"""Environments that a replay did not bring back to where they were, each with a sentence on why."""


class FaultPolicy(NamedTuple):
    """How faults of environments are handled.  Nothing here changes the numbers of a run without faults."""

    on_nan: OnNan = "raise"
    env_timeout: float = 60.0  # seconds for one step or reset in a worker process
    env_restarts: int = 0  # replacements of each environment


STRICT = FaultPolicy()


class SurvivedFault(NamedTuple):
    """A fault that the run survived."""

    env: int
    row: int  # of the batch
    sentence: str
    exact: bool  # are the numbers those of a run without the fault?


def tolerance(on_nan: Any, env_timeout: float, env_restarts: int) -> FaultPolicy:
    """The settings, checked."""
    if on_nan not in get_args(OnNan):
        raise ToppoError(f"on_nan is {on_nan!r}, but must be one of {', '.join(get_args(OnNan))}")
    if not env_timeout > 0:
        raise ToppoError(f"env_timeout is {env_timeout}, but must be above 0 (inf for none)")
    if env_restarts < 0:
        raise ToppoError(f"env_restarts is {env_restarts}, but must be 0 or more")
    return FaultPolicy(on_nan, env_timeout, env_restarts)
