import ctypes
import os
from pathlib import Path

import jax
import pytest
from hypothesis import settings

from tests.support.training import clear_programs
from toppo.learn.xla import prepare

# The same examples in every run, and no clock: a busy machine must not fail a test.
settings.register_profile("toppo", deadline=None, derandomize=True, max_examples=60, database=None)
settings.load_profile("toppo")

# Programs that an earlier test run compiled are read from the disk.
prepare()

MAX_MAPS = 20_000
MAX_RESIDENT_BYTES = 1_000_000_000


@pytest.fixture(autouse=True)
def _few_programs():
    """Forget compiled programs before they pile up: each holds memory, and maps, of which a process has 65,530."""
    yield
    if Path("/proc/self/maps").is_file() and (memory_maps() > MAX_MAPS or resident_bytes() > MAX_RESIDENT_BYTES):
        clear_programs()
        jax.clear_caches()
        return_freed_memory()


def memory_maps() -> int:
    return Path("/proc/self/maps").read_bytes().count(b"\n")


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def return_freed_memory() -> None:
    """Half of what the compiler has freed stays with the process, unless glibc is told to give it back."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim:
        trim(0)
