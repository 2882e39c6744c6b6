"""The family.  ``REGISTRY`` is the one list of algorithms."""

from toppo.algos import disc, geppo, oppo, otrpo, ppo, toppo, trpo
from toppo.algos.contract import Algorithm

REGISTRY: dict[str, Algorithm] = {
    module.ALGORITHM.name: module.ALGORITHM for module in (toppo, ppo, trpo, geppo, otrpo, oppo, disc)
}
