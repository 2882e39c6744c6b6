"""The one place that knows Gymnasium."""

from toppo.envs.environment import Environment, open_environment
from toppo.envs.make import EnvSource, make
from toppo.envs.spaces import Spaces, describe

__all__ = ["EnvSource", "Environment", "Spaces", "describe", "make", "open_environment"]
