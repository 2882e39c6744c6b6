"""The family.  ``REGISTRY`` is the one list of algorithms."""

from toppo.algos import ppo, toppo
from toppo.types import Algorithm

REGISTRY: dict[str, Algorithm] = {a.name: a for a in (toppo.ALGORITHM, ppo.ALGORITHM)}
