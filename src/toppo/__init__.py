"""Transductive Off-policy PPO and its family."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toppo.agent import Agent as Agent
    from toppo.agent import load as load

__version__ = "0.1.0"

_AGENTS = {"ToPPO": "toppo", "PPO": "ppo"}
__all__ = ["PPO", "Agent", "ToPPO", "load"]


def __getattr__(name: str) -> Any:
    """Import JAX only when something that needs it is asked for: ``import toppo`` stays light."""
    if name in _AGENTS:
        from functools import partial

        from toppo.agent import create

        return partial(create, _AGENTS[name])
    if name in ("Agent", "load"):
        from toppo import agent

        return getattr(agent, name)
    raise AttributeError(f"module 'toppo' has no attribute {name!r}")
