"""The one place that knows Gymnasium."""

from toppo.envs.single import Environment, Player, open_player
from toppo.envs.source import EnvSource, Source, make, resolve
from toppo.envs.spaces import Spaces

__all__ = ["EnvSource", "Environment", "Player", "Source", "Spaces", "make", "open_player", "resolve"]
