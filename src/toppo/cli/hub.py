"""``toppo card`` and ``toppo push``."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from toppo import agent
from toppo.agent import Agent
from toppo.cli.flags import OwnEnv, flag, parse, require_at_least
from toppo.display.console import Terminal
from toppo.errors import CANNOT_CREATE, ToppoError
from toppo.export.card import Tested, pack, play, write_card
from toppo.hub import checked_name, import_hub, refuse_without_token, upload
from toppo.runs.run import registered_source, source_for


@dataclass(frozen=True, kw_only=True)
class CardFlags:
    """Write a model card: README.md, and for a run its learning curve as curve.png."""

    run: Annotated[Path, flag("Run directory, or what Agent.save wrote.", "RUN")]
    episodes: Annotated[int, flag("Test episodes to play.")] = 20
    seed: Annotated[int, flag("Seed of the test episodes.")] = 0
    out: Annotated[Path | None, flag("Directory to write (default: RUN).", "PATH")] = None
    env: OwnEnv = None


@dataclass(frozen=True, kw_only=True)
class PushFlags:
    """Upload a policy and its model card to the Hugging Face hub."""

    run: Annotated[Path, flag("Run directory, or what Agent.save wrote.", "RUN")]
    name: Annotated[str, flag("Model on the hub, as owner/name.", "NAME")]
    private: Annotated[bool, flag("Make a new model visible to its owner alone.")] = False
    episodes: Annotated[int, flag("Test episodes for the card.")] = 20
    seed: Annotated[int, flag("Seed of the test episodes.")] = 0
    env: OwnEnv = None


def card(arguments: list[str]) -> None:
    """Write a model card."""
    given = parse("card", CardFlags, arguments)
    require_at_least(given, episodes=1, seed=0)
    trained = agent.load(given.run)
    folder = given.out or given.run
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ToppoError(
            f"{folder} cannot be written ({error.strerror}): choose another --out", CANNOT_CREATE
        ) from error
    written = write_card(trained, _tested(trained, given), given.run, folder)
    Terminal().say(f"wrote {' and '.join(map(str, written))}")


def push(arguments: list[str]) -> None:
    """Upload a policy and its card."""
    given = parse("push", PushFlags, arguments)
    require_at_least(given, episodes=1, seed=0)
    name = checked_name(given.name)
    import_hub()
    refuse_without_token()
    trained = agent.load(given.run)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "model"
        pack(trained, _tested(trained, given), given.run, folder, name)
        Terminal().say(f"uploaded to {upload(folder, name, given.private)}")


def _tested(trained: Agent, given: CardFlags | PushFlags) -> Tested:
    source = source_for(trained.spec, given.env) if given.env else registered_source(trained.spec)
    return play(trained, source, given.episodes, given.seed)
