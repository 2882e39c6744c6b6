import os
from pathlib import Path

import jax
import pytest
from hypothesis import settings

from toppo.learn.xla import prepare

# The same examples in every run, and no clock: a busy machine must not fail a test.
settings.register_profile("toppo", deadline=None, derandomize=True, max_examples=60, database=None)
settings.load_profile("toppo")

# Programs that an earlier test run compiled are read from the disk.
prepare()

MAX_MAPS = 20_000
MAX_RESIDENT_BYTES = 1_000_000_000


def memory_maps() -> int:
    return Path("/proc/self/maps").read_bytes().count(b"\n")


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture(autouse=True)
def _few_programs():
    """Forget compiled programs that pile up: each holds memory, and maps, of which Linux grants a process 65,530."""
    yield
    if Path("/proc/self/maps").is_file() and (memory_maps() > MAX_MAPS or resident_bytes() > MAX_RESIDENT_BYTES):
        forget_programs()


@pytest.fixture(autouse=True, scope="module")
def _no_programs_of_other_modules():
    yield
    forget_programs()


def forget_programs() -> None:
    from tests.support.training import clear_programs

    clear_programs()
    jax.clear_caches()
