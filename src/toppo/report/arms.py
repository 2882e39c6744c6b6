"""Arms: what a study or a directory calls a run, and in which settings the runs of one name differ."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from toppo.report.text import unique_name

Defaults = Callable[[str], Mapping[str, object]]
"""Takes an algorithm; returns the settings that a run has which does not state them."""


class Member(NamedTuple):
    """What decides to which arm a run belongs."""

    arm: str  # as far as names tell
    algo: str
    env: str
    settings: Mapping[str, object]


def no_defaults(algo: str) -> Mapping[str, object]:
    """State no settings: those that a run lacks differ from all values."""
    return {}


def comparable(settings: Mapping[str, object]) -> dict[str, object]:
    """Return settings with names and values that can be shown and compared."""
    return {unique_name(k): v if isinstance(v, bool | int | float) else unique_name(v) for k, v in settings.items()}


def file_name(text: str) -> str:
    """Return a name as a study writes it in the names of its files."""
    return re.sub(r"[^A-Za-z0-9_.=+-]", "-", text)


def arm_of(name: str, algo: str, env: str, seed: int, arms: Iterable[str] = ()) -> str:
    """Return the arm in a name that a study gave, as ``arms`` of the study spell it; else the algorithm."""
    tail = file_name(f"-{env}-{seed}")
    if not name.endswith(tail) or name == tail:
        return algo
    found = name.removesuffix(tail)
    return unique_name(next((arm for arm in arms if file_name(arm).lstrip(".") == found), found))


def told_apart(members: Sequence[Member], defaults: Defaults = no_defaults) -> list[str]:
    """Return the arm of every run: its name, and the settings in which runs of that name differ on one task.

    A setting that differs on one task is told on all of them, so that an arm has the same name everywhere.
    """
    settings = _stated(members, defaults)
    differ: dict[str, set[str]] = {m.arm: set() for m in members}
    first: dict[tuple[str, str], Mapping[str, object]] = {}
    for member, mine in zip(members, settings, strict=True):
        theirs = first.setdefault((member.arm, member.env), mine)
        differ[member.arm] |= {k for k in {**theirs, **mine} if not _same(theirs, mine, k)}
    return [
        unique_name(", ".join([m.arm, *(f"{k}={mine.get(k, 'unset')}" for k in sorted(differ[m.arm]))]))
        for m, mine in zip(members, settings, strict=True)
    ]


def _stated(members: Sequence[Member], defaults: Defaults) -> list[Mapping[str, object]]:
    """Return the settings of every run, completed by the defaults of those that only other runs state."""
    known: dict[str, dict[str, None]] = {m.algo: {} for m in members}
    for m in members:
        known[m.algo] |= dict.fromkeys(m.settings)
    complete: list[Mapping[str, object]] = []
    for m in members:
        own = {"algo": m.algo, **m.settings}
        if missing := [k for k in known[m.algo] if k not in m.settings]:
            own |= {k: v for k, v in comparable(defaults(m.algo)).items() if k in missing}
        complete.append(own)
    return complete


def _same(one: Mapping[str, object], other: Mapping[str, object], name: str) -> bool:
    return (name in one, one.get(name)) == (name in other, other.get(name))


def natural(name: str) -> tuple[str | float, ...]:
    """Return a key that sorts numbers in names by their value: 0.0003 before 0.001, 9 before 10."""
    parts = re.split(r"(\d+(?:\.\d+)?(?:e[-+]?\d{1,3})?)", name)
    return tuple(float(part) if i % 2 else part for i, part in enumerate(parts))
