"""The words of a command line, checked before tyro reads them: every mistake is one sentence of ours."""

from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import tyro

from toppo.errors import ToppoError, suggestion
from toppo.runs.presets import OTHERS_NAMES

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


class Expected(NamedTuple):
    """What a command takes: its options and its arguments by name, each with its type."""

    options: dict[str, Any]
    arguments: dict[str, Any]
    required: list[str]  # of the arguments


def checked_words(command: str, kind: "type[DataclassInstance]", words: list[str]) -> list[str]:
    """Return the words with counts as digits, or refuse the first one that the command does not take."""
    expected = _expected(kind)
    checked: list[str] = []
    arguments = 0
    left = deque(words)
    while left:
        word = left.popleft()
        if not _is_option(word):
            arguments += 1
            checked.append(word)
            continue
        name, equals, value = word.partition("=")
        option = name.replace("_", "-")
        if option not in expected.options:
            known = suggestion(option, expected.options, f"toppo {command} --help shows all")
            way_out = OTHERS_NAMES.get(option[2:].replace("-", "_"), known) if command == "train" else known
            raise ToppoError(f"toppo {command} has no option {option}: {way_out}")
        hint = expected.options[option]
        values = [value] if equals else list(_values(hint, left))
        if equals and hint is bool:
            raise ToppoError(f"{option} takes no value, but is given {value!r}: write {option} alone")
        if not values and hint is not bool and get_origin(hint) is not tuple:
            raise ToppoError(f"{option} needs a value: toppo {command} --help shows which")
        checked += [option, *(_checked(option, hint, value) for value in values)]
    _check_arguments(command, expected, arguments)
    return checked


def whole_number(text: str) -> int:
    """Read a count such as 1000000, 1_000_000 or 1e6."""
    with suppress(ValueError):
        return int(text)
    with suppress(ValueError):
        if (number := float(text)).is_integer():
            return int(number)
    raise ValueError(f"{text} is not a whole number")


def _is_option(word: str) -> bool:
    return word.startswith("--") or (word[:1] == "-" and word[1:2].isalpha() and word not in ("-inf", "-nan"))


def _values(hint: Any, left: deque[str]) -> Iterator[str]:
    """Take the words that are values of an option."""
    if hint is bool:
        return
    while left and not _is_option(left[0]):
        yield left.popleft()
        if get_origin(hint) is not tuple:
            return


def _checked(option: str, hint: Any, value: str) -> str:
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType, tuple) else (hint,)
    if any(get_origin(kind) is tuple for kind in kinds):  # a schedule, which is checked with the other settings
        return value
    words = [word for kind in kinds if get_origin(kind) is Literal for word in get_args(kind)]
    if value in words:
        return value
    try:
        if int in kinds:
            return str(whole_number(value))
        if float in kinds:
            float(value)
    except ValueError:
        rule = " or ".join(["a whole number" if int in kinds else "a number", *words])
        raise ToppoError(f"{option} is {value!r}, but must be {rule}") from None
    if get_origin(hint) is Literal:
        raise ToppoError(f"{option} is {value!r}, but must be one of {', '.join(get_args(hint))}")
    return value


def _check_arguments(command: str, expected: Expected, count: int) -> None:
    names = [name.upper() for name in expected.arguments]
    if count < len(expected.required):
        name = expected.required[count].upper()
        raise ToppoError(f"toppo {command} needs {name}: type toppo {command} {name}, or toppo {command} --help")
    if count > len(names) and not any(get_origin(hint) is tuple for hint in expected.arguments.values()):
        takes = " ".join(names) or "no arguments"
        raise ToppoError(
            f"toppo {command} takes {takes}, but {count} words stand there: toppo {command} --help shows all"
        )


def _expected(kind: "type[DataclassInstance]") -> Expected:
    """What the record, and the records inside it, take."""
    found = Expected({"--help": bool}, {}, [])
    hints = get_type_hints(kind)
    marked = get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        hint = hints[field.name]
        option = f"--{field.name.replace('_', '-')}"
        if is_dataclass(hint):
            inner = _expected(hint) if isinstance(hint, type) else found
            found.options.update(inner.options)
        elif tyro.conf.Positional in getattr(marked[field.name], "__metadata__", ()):
            found.arguments[field.name] = hint
        elif field.default is MISSING:
            found.arguments[field.name] = hint
            if get_origin(hint) is not tuple:
                found.required.append(field.name)
        else:
            found.options[option] = hint
            if hint is bool:
                found.options[f"--no{option[1:]}"] = bool
    return found
