"""Hugging Face's trackio, which stores runs on this machine unless a Space is named."""

from collections.abc import Mapping
from contextlib import redirect_stdout
from io import StringIO

import trackio

from toppo.tracking import Opening


class Trackio:
    """A run of trackio; its store says which steps it has."""

    def __init__(self, opening: Opening) -> None:
        """Start or continue a run."""
        with redirect_stdout(StringIO()):  # it prints where to look, which is ``where`` here
            self._run = trackio.init(
                project=opening.project or "toppo",
                name=f"{opening.name}-{opening.id}",
                config=dict(opening.settings),
                resume="allow",
                embed=False,
            )
        self.last_step = self._run._next_step - 1  # read from the store
        self.where = f"trackio show --project {opening.project or 'toppo'}"

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Add the values of a step."""
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        """Wait until everything is in the store."""
        with redirect_stdout(StringIO()):
            self._run.finish()
