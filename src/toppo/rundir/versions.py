"""Versions of everything that can change a run's numbers."""

import platform
from importlib.metadata import PackageNotFoundError, version

PACKAGES = ("toppo", "jax", "jaxlib", "numpy", "optax", "gymnasium", "mujoco", "ale-py")


def versions() -> dict[str, str]:
    """Package versions, Python's and the processor's kind; what is not installed is left out."""
    found = {"python": platform.python_version(), "machine": platform.machine()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
