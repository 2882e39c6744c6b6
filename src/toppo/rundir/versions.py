"""Versions of everything that can change a run's numbers."""

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from toppo.errors import BAD_DATA, ToppoError

SIMULATORS = ("mujoco", "ale-py")
PACKAGES = ("toppo", "jax", "jaxlib", "numpy", "optax", "gymnasium", *SIMULATORS)


def versions() -> dict[str, str]:
    """Package versions, Python's and the processor's kind; what is not installed is left out."""
    found = {"python": platform.python_version(), "machine": platform.machine()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def differences(recorded: Any) -> list[str]:
    """What is installed in another version than was recorded, as ``name recorded -> now``."""
    if not isinstance(recorded, dict):
        raise ToppoError(f"the recorded versions are {type(recorded).__name__}, but must be an object", BAD_DATA)
    now = versions()
    # A simulator that was installed after the run began has no part in it.
    names = [n for n in (*PACKAGES, "machine") if n in recorded or n not in SIMULATORS]
    return [f"{n} {recorded.get(n)} -> {now.get(n)}" for n in names if recorded.get(n) != now.get(n)]
