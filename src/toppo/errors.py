"""Errors that a user can fix: one sentence each, with the exit code that the command line gives."""

import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from numbers import Integral

USAGE = 64
BAD_DATA = 65
NO_INPUT = 66
CANNOT_CREATE = 73
IO_ERROR = 74

ENV_EXCEPTIONS = (Exception, SystemExit)
"""What an environment may raise: one that wants to leave must not take the run with it."""


class ToppoError(Exception):
    """A sentence that names the value, the rule and the way out."""

    def __init__(self, sentence: str, code: int = USAGE) -> None:
        super().__init__(sentence)
        self.code = code


class Fault(ToppoError):  # noqa: N818 - it names what happened
    """Something that ends a run: the sentence, and all else that is known, as JSON data."""

    def __init__(self, sentence: str, details: Mapping[str, object] | None = None) -> None:
        super().__init__(sentence, BAD_DATA)
        self.details = dict(details or {})


class EnvironmentFault(Fault):
    """The environment misbehaved: which one, when, and how."""


class NotFinite(EnvironmentFault):
    """The environment gave a value that a float32 cannot hold; it may be reset and go on."""


class LearnerFault(Fault):
    """The learner produced a value that is not finite."""


def refuse_below(least: int, name: str, value: object) -> None:
    """Refuse what is not a whole number, or is below the least that makes sense."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise ToppoError(f"{name} is {value!r}, but must be a whole number")
    if value < least:
        raise ToppoError(f"{name} is {value}, but must be at least {least}")


def suggestion(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """Ask for the known name that is nearest to a wrong one; if none is near, name all of them, or ``otherwise``."""
    names = list(known)
    near = get_close_matches(name, names, n=1)
    return f"did you mean `{near[0]}`?" if near else otherwise or f"choose one of {', '.join(names)}"


def install_command(extra: str) -> str:
    """Return the command that adds an extra to toppo, from wherever this toppo was installed."""
    # Imported here: only a message needs them, and `import toppo` stays light.
    import json
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.parse import unquote, urlsplit

    try:
        origin = json.loads(distribution("toppo").read_text("direct_url.json") or "{}")
    except PackageNotFoundError:  # the sources are on PYTHONPATH
        origin = {}
    url = urlsplit(origin.get("url", ""))
    if url.scheme != "file":
        return f"pip install 'toppo[{extra}]'"
    editable = "-e " if origin.get("dir_info", {}).get("editable") else ""
    return f"pip install {editable}'{unquote(url.path)}[{extra}]'"


def safe_message(error: BaseException) -> str:
    """Return the message of an exception that is not ours, if it has one that can be read."""
    try:
        return str(error).strip()
    except Exception:
        return "its message cannot be read"


def first_line(error: Exception) -> str:
    """Return the first line of an exception's message, or its type if it has none."""
    return (safe_message(error).splitlines() or [type(error).__name__])[0]


def in_one_line(error: BaseException) -> str:
    """Return type, message and origin of an exception that is not ours."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{' '.join(f'{type(error).__name__}: {safe_message(error)}'.split())} ({last.filename}, line {last.lineno})"


@contextmanager
def as_environment_fault(where: str) -> Iterator[None]:
    """Turn what is raised inside into the environment's fault, unless it is a ToppoError."""
    try:
        yield
    except ToppoError:
        raise
    except ENV_EXCEPTIONS as error:
        details = {"traceback": traceback.format_exception(error)}
        raise EnvironmentFault(f"{where} raised {in_one_line(error)}", details) from error


@contextmanager
def prefixed(name: str) -> Iterator[None]:
    """Put the environment's name before the sentence of an error."""
    try:
        yield
    except ToppoError as error:
        error.args = (f"{name}: {error}",)
        raise
