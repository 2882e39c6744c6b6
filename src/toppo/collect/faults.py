"""What a run does about environments that fail: how much it survives, and what it writes down."""

from typing import Literal, NamedTuple, get_args

from toppo.errors import ToppoError, refuse_below

OnNan = Literal["raise", "truncate"]

Truncations = dict[tuple[int, int], int]
"""(environment, episode) -> the row of the batch before which that episode ends, since its environment fails there."""

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


def checked_fault_policy(on_nan: OnNan, env_timeout: float, env_restarts: int) -> FaultPolicy:
    """Return the settings as a policy, or refuse them."""
    if on_nan not in get_args(OnNan):
        raise ToppoError(f"on_nan is {on_nan!r}, but must be one of {', '.join(get_args(OnNan))}")
    if not (isinstance(env_timeout, int | float) and env_timeout > 0):
        raise ToppoError(f"env_timeout is {env_timeout!r}, but must be a number above 0 (inf for none)")
    refuse_below(0, "env_restarts", env_restarts)
    return FaultPolicy(on_nan, env_timeout, env_restarts)
