"""The command line: parse, call, print."""

import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from toppo import __version__
from toppo.errors import IO_ERROR, USAGE, ToppoError


class Command(NamedTuple):
    """A command: its line in the overview, and the function that does it."""

    text: str
    run: Callable[[list[str]], None]


def train(arguments: list[str]) -> None:
    """Train a policy."""
    from toppo.cli.commands import train

    train(arguments)


def resume(arguments: list[str]) -> None:
    """Continue a run."""
    from toppo.cli.commands import resume

    resume(arguments)


def evaluate(arguments: list[str]) -> None:
    """Play a trained policy."""
    from toppo.cli.commands import evaluate

    evaluate(arguments)


def plot(arguments: list[str]) -> None:
    """Draw learning curves."""
    from toppo.cli.commands import plot

    plot(arguments)


def list_all(arguments: list[str]) -> None:
    """List what can be chosen."""
    from toppo.cli.commands import list_all

    list_all(arguments)


def study(arguments: list[str]) -> None:
    """Carry out a grid of runs."""
    from toppo.cli.study import study

    study(arguments)


def report(arguments: list[str]) -> None:
    """Write a page about runs."""
    from toppo.cli.study import report

    report(arguments)


def reproduce(arguments: list[str]) -> None:
    """Make a figure of the paper."""
    from toppo.cli.study import reproduce

    reproduce(arguments)


def theory(arguments: list[str]) -> None:
    """Check the theory."""
    from toppo.cli.commands import theory

    theory(arguments)


COMMANDS = {
    "train": Command("train a policy: toppo train HalfCheetah-v5 --algo toppo --total-timesteps 1000000", train),
    "resume": Command("continue a run to the same bytes as if it had never stopped", resume),
    "evaluate": Command("play a trained policy, and film it", evaluate),
    "plot": Command("draw the learning curves of one or more runs", plot),
    "list": Command("algorithms, environments, figures and studies", list_all),
    "study": Command("carry out a grid of runs: algorithms x environments x seeds", study),
    "report": Command("one page about many runs: curves, statistics, run times", report),
    "reproduce": Command("make a figure of the paper, end to end", reproduce),
    "theory": Command("check the lemmas of the paper on finite problems", theory),
}


def overview() -> str:
    """What `toppo --help` prints."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {command.text}" for name, command in COMMANDS.items()]
    return "\n".join(
        [
            f"toppo {__version__}: Transductive Off-policy PPO and its family",
            "",
            "usage: toppo COMMAND [...]        toppo COMMAND --help explains every setting",
            "",
            *lines,
        ]
    )


def main(arguments: list[str] | None = None) -> None:
    """Run one command; a user's mistake ends in one sentence and an exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(overview())
        return
    if arguments[0] in ("-V", "--version"):
        print(__version__)
        return
    if arguments[0] not in COMMANDS:
        _leave(f"{arguments[0]!r} is not a command: choose one of {', '.join(COMMANDS)}", USAGE)
    try:
        COMMANDS[arguments[0]].run(arguments[1:])
    except ToppoError as error:
        _leave(str(error), error.code)
    except MemoryError:
        _leave("there is not enough memory for this: choose smaller --n-steps, --n-envs or --hidden", IO_ERROR)
    except KeyboardInterrupt:
        _leave("stopped at once; whatever was saved before is whole", 130)
    except BrokenPipeError:
        sys.stderr.close()  # nobody reads any more: leave without a word
        raise SystemExit(0) from None


def _leave(sentence: str, code: int) -> Any:
    # What a file said may stand in the sentence: nothing of it may steer the terminal.
    plain = "".join(c if c.isprintable() else "?" for c in sentence)
    with suppress(OSError):  # the terminal may have gone
        print(f"toppo: {plain}", file=sys.stderr)
    raise SystemExit(code)


if __name__ == "__main__":
    main()
