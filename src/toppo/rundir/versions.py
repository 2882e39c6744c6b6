"""Versions of everything that can change a run's numbers."""

import platform
import re
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from toppo.errors import BAD_DATA, ToppoError

SIMULATORS = ("mujoco", "ale-py", "mujoco-mjx", "gymnax", "brax", "playground", "navix", "craftax")
PACKAGES = ("toppo", "jax", "jaxlib", "numpy", "optax", "gymnasium", *SIMULATORS)
VECTORS = ("avx512f", "avx2", "avx", "sve", "asimd")


def versions() -> dict[str, str]:
    """Package versions, Python's and the processor's kind; what is not installed is left out."""
    cpuinfo = Path("/proc/cpuinfo")
    found = {
        "python": platform.python_version(),
        "machine": f"{platform.machine()} {instructions(cpuinfo.read_text() if cpuinfo.exists() else '')}".strip(),
    }
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def instructions(cpuinfo: str) -> str:
    """The processor's maker, model and widest vectors, from Linux's description.

    Compilers and libraries choose by these, and by a model's caches, in which order they add.
    """

    def first(name: str) -> list[str]:
        return re.findall(rf"^{name}\s*: (.+)", cpuinfo, re.MULTILINE)[:1]

    model = "/".join(first("cpu family") + first("model") + first("CPU part"))
    known = " ".join(first("flags") + first("Features")).split()
    widest = [name for name in VECTORS if name in known][:1]
    return " ".join(filter(None, [*first("vendor_id"), model, *widest]))


def differences(recorded: object) -> list[str]:
    """Every version that differs from the recorded one, as ``name recorded -> now``."""
    if not isinstance(recorded, dict):
        raise ToppoError(f"the recorded versions are {type(recorded).__name__}, but must be an object", BAD_DATA)
    now = versions()
    # A simulator that was installed after the run began has no part in it.
    names = [n for n in (*PACKAGES, "machine") if n in recorded or n not in SIMULATORS]
    return [f"{n} {recorded.get(n)} -> {now.get(n)}" for n in names if recorded.get(n) != now.get(n)]
