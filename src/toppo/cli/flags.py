"""Flags: every command declares its own as a typed record, and tyro fills it in."""

import json
import re
import sys
from collections.abc import Callable, Iterable
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, fields
from functools import partial
from io import StringIO
from shutil import get_terminal_size
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, TypeVar

import tyro

from toppo.cli.words import checked_words, whole_number
from toppo.collect.faults import OnNan
from toppo.errors import USAGE, ToppoError, refuse_below

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Flags = TypeVar("Flags", bound="DataclassInstance")


def flag(text: str, metavar: str | None = None) -> object:
    """Describe a flag, or an argument if its field has no default.  With a metavar, the text names the default."""
    return tyro.conf.arg(help=text, metavar=metavar, help_behavior_hint="" if metavar else None)


STEPS = tyro.constructors.PrimitiveConstructorSpec(
    nargs=1,
    metavar="INT",
    instance_from_str=lambda words: whole_number(words[0]),
    is_instance=lambda value: isinstance(value, int),
    str_from_instance=lambda value: [str(value)],
)
"""An annotation for flags that count steps: 1e6 is welcome."""


def env_kwargs_in(words: Iterable[str]) -> dict[str, object]:
    """Read NAME=VALUE words; a value that is not JSON is text."""
    found: dict[str, object] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not name or not equals:
            raise ToppoError(f"--env-kwargs has {word!r}, but takes NAME=VALUE, such as continuous=true gravity=-9.8")
        found[name] = text
        with suppress(ValueError):
            found[name] = json.loads(text)
    return found


def schedule_in(text: str) -> object:
    """Read a number, a word or pairs in JSON; whether it makes sense is checked with the other settings."""
    for read in (float, json.loads):
        with suppress(ValueError):
            return read(text)
    return text


SCHEDULE = tyro.constructors.PrimitiveConstructorSpec(
    nargs=1,
    metavar="SCHEDULE",
    instance_from_str=lambda words: schedule_in(words[0]),
    is_instance=lambda value: isinstance(value, float | tuple),
    str_from_instance=lambda value: [json.dumps(value)],
)
"""An annotation for settings that may change over a run."""

TRACKERS = tyro.constructors.PrimitiveConstructorSpec(
    nargs=1,
    metavar="NAME,...",
    instance_from_str=lambda words: tuple(name for name in words[0].split(",") if name),
    is_instance=lambda value: isinstance(value, tuple),
    str_from_instance=lambda value: [",".join(value)],
)
"""An annotation for names with commas between them."""

# Flags of more than one command.
CheckpointEvery = Annotated[int, STEPS, flag("Steps between checkpoints.")]
EvaluateEvery = Annotated[int, STEPS, flag("Steps between tests of 10 deterministic episodes; 0: none.")]
OwnEnv = Annotated[str | None, flag("Environment id, if Gymnasium does not know the run's own.", "ENV")]


@dataclass(frozen=True)
class ExecutionFlags:
    """How the run is carried out. Without faults, nothing here changes its numbers."""

    workers: Annotated[
        int | None, flag("Worker processes; 0: none (default: one per environment and core).", "INT")
    ] = None
    checkpoint_every: CheckpointEvery = 50_000
    tensorboard: Annotated[bool, flag("Write TensorBoard event files.")] = True
    on_nan: Annotated[OnNan, flag("If an environment gives NaN or infinity: fail, or truncate the episode.")] = "raise"
    env_timeout: Annotated[float, flag("Seconds that a step or reset in a worker may take (inf: no limit).")] = 60.0
    env_restarts: Annotated[int, flag("How often toppo replaces an environment that raises, hangs or crashes.")] = 0
    evaluate_every: EvaluateEvery = 0
    keep_best: Annotated[bool, flag("Keep the agent of the best test in RUN/best.")] = False
    stop_return: Annotated[float | None, flag("Stop at a test with this mean return (default: never).", "FLOAT")] = None
    patience: Annotated[int | None, flag("Stop after so many tests without a new best (default: never).", "INT")] = None
    track: Annotated[
        tuple[str, ...], TRACKERS, flag("Also log to wandb, mlflow or trackio (default: none).", "NAME,...")
    ] = ()
    project: Annotated[str | None, flag("Project or experiment for --track (default: toppo).", "NAME")] = None


def parse(command: str, kind: type[Flags], arguments: list[str], text: str | None = None) -> Flags:
    """Read the flags of a command, or print its help; a mistake ends in an explanation and the exit code for usage."""
    read: Callable[..., Flags] = partial(
        tyro.cli,
        kind,
        prog=f"toppo {command}",
        description=fill(text or kind.__doc__ or "", get_terminal_size().columns),  # all else is wrapped by tyro
        config=(tyro.conf.OmitArgPrefixes, tyro.conf.PositionalRequiredArgs),
    )
    if {"-h", "--help"} & set(arguments):
        screen = _Screen()
        with redirect_stdout(screen), suppress(SystemExit):
            read(args=["--help"])  # and nothing else: tyro's help leaves out what was given already
        usage, _, rest = screen.getvalue().partition("\n")
        print(usage_of(command, usage), rest, sep="\n", end="")
        raise SystemExit(0)
    words = checked_words(command, kind, arguments)
    try:
        return read(args=words)
    except SystemExit:
        raise SystemExit(USAGE) from None


class _Screen(StringIO):
    """Takes what is printed, in colours if the output is a terminal."""

    def __init__(self) -> None:
        super().__init__()
        self._is_terminal = sys.stdout.isatty()

    def isatty(self) -> bool:
        return self._is_terminal


def usage_of(command: str, line: str) -> str:
    """Shorten tyro's line of usage, which it does not wrap; the help below it has the options."""
    plain = re.sub(r"\x1b\[[\d;]*m", "", line)
    return re.sub(r" \[[^]]*\]", "", plain).replace(f"toppo {command}", f"toppo {command} [OPTIONS]", 1)


def require_at_least(flags: object, **bounds: int) -> None:
    """Refuse a flag below the least value that makes sense; None has passed already."""
    for name, bound in bounds.items():
        if (value := getattr(flags, name)) is not None:
            refuse_below(bound, name, value)


def changed_flags(flags: "DataclassInstance", *names: str) -> list[str]:
    """Write the named flags (all if none is named) that differ from their default as words of a command line."""
    asked = [field for field in fields(flags) if not names or field.name in names]
    changed = {f.name: getattr(flags, f.name) for f in asked if getattr(flags, f.name) != f.default}
    return [word for name, value in changed.items() for word in _words(name.replace("_", "-"), value)]


def _words(option: str, value: object) -> list[str]:
    if isinstance(value, bool):
        return [f"--{option}" if value else f"--no-{option}"]
    return [f"--{option}", ",".join(value) if isinstance(value, tuple) else str(value)]
