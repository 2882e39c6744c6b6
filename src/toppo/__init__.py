"""Transductive Off-policy PPO and its family."""

__version__ = "0.1.0"
__all__ = ["DISC", "PPO", "TRPO", "Agent", "GePPO", "OffPolicyPPO", "OffPolicyTRPO", "ToPPO", "load"]


def __getattr__(name: str) -> object:
    """Import JAX only when something that needs it is asked for: ``import toppo`` stays light."""
    if name in __all__:
        from toppo import agent

        return getattr(agent, name)
    raise AttributeError(f"module 'toppo' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
