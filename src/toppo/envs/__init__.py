"""The one place that knows Gymnasium."""

from toppo.envs.single import Environment, open_environment
from toppo.envs.source import EnvSource, make
from toppo.envs.spaces import Spaces, describe
from toppo.envs.world import Player, open_player

__all__ = ["EnvSource", "Environment", "Player", "Spaces", "describe", "make", "open_environment", "open_player"]
