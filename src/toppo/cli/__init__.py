"""The command line: find the command, run it, and turn an error into one sentence and an exit code."""

import sys
import textwrap
from contextlib import suppress
from importlib import import_module
from shutil import get_terminal_size
from typing import NamedTuple, NoReturn

from toppo import __version__
from toppo.errors import IO_ERROR, USAGE, ToppoError, suggestion


class Command(NamedTuple):
    """A command: its line in the overview, and its function as "module:function", imported when it is called."""

    text: str
    function: str


COMMANDS = {
    "train": Command("train a policy", "toppo.cli.train:train"),
    "resume": Command("continue a run, to the same bytes as if it had never stopped", "toppo.cli.train:resume"),
    "evaluate": Command("play episodes with a trained policy, and record a video", "toppo.cli.evaluate:evaluate"),
    "plot": Command("draw the learning curves of one or more runs", "toppo.cli.evaluate:plot"),
    "export": Command("write the policy as an ONNX file or for NumPy alone", "toppo.cli.export:export"),
    "card": Command("write a model card: returns, curve, settings, how to use it", "toppo.cli.hub:card"),
    "push": Command("upload a policy and its card to the Hugging Face hub", "toppo.cli.hub:push"),
    "list": Command("show algorithms, environments, figures and studies", "toppo.cli.info:list_all"),
    "study": Command("train a grid of runs: algorithms x environments x seeds", "toppo.cli.study:study"),
    "tune": Command("search good settings of an algorithm", "toppo.cli.tune:tune"),
    "report": Command("write one page about many runs: curves, statistics, times", "toppo.cli.study:report"),
    "board": Command("serve a live page about a run or a study on this machine", "toppo.cli.board:board"),
    "reproduce": Command("make a figure of the paper, end to end", "toppo.cli.study:reproduce"),
    "theory": Command("check the lemmas of the paper on finite problems", "toppo.cli.info:theory"),
}


def overview() -> str:
    """What `toppo --help` prints."""
    commands = "\n".join(f"  {name:<9}  {command.text}" for name, command in COMMANDS.items())
    return f"""toppo {__version__}: Transductive Off-policy PPO and six baselines

usage: toppo COMMAND [...]

{commands}

toppo COMMAND --help shows every option of a command.  A first run:
  toppo train CartPole-v1 --algo toppo --total-timesteps 100000"""


def main(arguments: list[str] | None = None) -> None:
    """Run one command; a user's mistake ends in one sentence and an exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    if not words or words[0] in ("-h", "--help", "help"):
        print(overview())
        return
    if words[0] in ("-V", "--version"):
        print(__version__)
        return
    if words[0] not in COMMANDS:
        _leave(f"{words[0]!r} is not a command: {suggestion(words[0], COMMANDS)}", USAGE)
    module, function = COMMANDS[words[0]].function.split(":")
    try:
        getattr(import_module(module), function)(words[1:])
    except ToppoError as error:
        _leave(str(error), error.code)
    except MemoryError:
        _leave("there is not enough memory for this: choose smaller --n-steps, --n-envs or --hidden", IO_ERROR)
    except KeyboardInterrupt:
        _leave("stopped at once; everything that was saved before is intact", 130)
    except BrokenPipeError:
        sys.stderr.close()  # nobody reads any more: leave without a word
        raise SystemExit(0) from None


def _at_words(sentence: str) -> str:
    """Break a sentence between words for a terminal, which would break inside them."""
    if not sys.stderr.isatty():
        return sentence
    return textwrap.fill(sentence, get_terminal_size().columns, break_long_words=False, break_on_hyphens=False)


def _leave(sentence: str, code: int) -> NoReturn:
    # The sentence may quote an untrusted file: nothing of it may control the terminal.
    plain = "".join(c if c.isprintable() else "?" for c in sentence)
    with suppress(OSError):  # the terminal may have gone
        print(_at_words(f"toppo: {plain}"), file=sys.stderr)
    raise SystemExit(code)
