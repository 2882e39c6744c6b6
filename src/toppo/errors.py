"""Errors that a user can mend: one sentence each, with the exit code that the command line gives."""

import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

USAGE, BAD_DATA, NO_INPUT, CANNOT_CREATE, IO_ERROR = 64, 65, 66, 73, 74
ENV_EXCEPTIONS = (Exception, SystemExit)  # by an environment: one that wants to leave must not take the run with it


class ToppoError(Exception):
    """A sentence that names the value, the rule and the way out."""

    def __init__(self, sentence: str, code: int = USAGE) -> None:
        """Keep the sentence and the exit code."""
        super().__init__(sentence)
        self.code = code


class Fault(ToppoError):  # noqa: N818 - it names what happened
    """Something that ends a run: the sentence, and all that is known besides, as JSON data."""

    def __init__(self, sentence: str, details: dict[str, Any] | None = None) -> None:
        """A fault of the data."""
        super().__init__(sentence, BAD_DATA)
        self.details = details or {}


class EnvironmentFault(Fault):
    """The environment misbehaved: which one, when, and how."""


class NotFinite(EnvironmentFault):
    """The environment gave a value that is no number that a float32 can hold; it may be reset and go on."""


class LearnerFault(Fault):
    """The learner produced a value that is not finite."""


def refuse_below(least: int, name: str, value: int) -> None:
    """Refuse a number below the least that makes sense."""
    if value < least:
        raise ToppoError(f"{name} is {value}, but must be at least {least}")


def suggestion(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """Ask for the known name that is nearest to a wrong one; if none is near, name all of them, or ``otherwise``."""
    names = list(known)
    near = get_close_matches(name, names, n=1)
    return f"did you mean `{near[0]}`?" if near else otherwise or f"choose one of {', '.join(names)}"


def safe_message(error: BaseException) -> str:
    """What an exception of code that is not ours says, if it can."""
    try:
        return str(error).strip()
    except Exception:
        return "what it says cannot be read"


def first_line(error: Exception) -> str:
    """What an exception says first, or its kind if it says nothing."""
    return (safe_message(error).splitlines() or [type(error).__name__])[0]


def in_one_line(error: BaseException) -> str:
    """An exception of code that is not ours, with the place it came from."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{' '.join(f'{type(error).__name__}: {safe_message(error)}'.split())} ({last.filename}, line {last.lineno})"


@contextmanager
def as_environment_fault(where: str) -> Iterator[None]:
    """What is raised inside, and is no sentence yet, becomes the environment's fault."""
    try:
        yield
    except ToppoError:
        raise
    except ENV_EXCEPTIONS as error:
        details = {"traceback": traceback.format_exception(error)}
        raise EnvironmentFault(f"{where} raised {in_one_line(error)}", details) from error


@contextmanager
def prefixed(name: str) -> Iterator[None]:
    """Say of which environment a sentence is."""
    try:
        yield
    except ToppoError as error:
        error.args = (f"{name}: {error}",)
        raise
