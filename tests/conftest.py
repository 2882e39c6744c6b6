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


@pytest.fixture(autouse=True)
def _few_programs():
    """Compiled programs hold memory maps, of which Linux grants a process 65,530; beyond that XLA aborts."""
    yield
    maps = Path("/proc/self/maps")
    if maps.is_file() and maps.read_bytes().count(b"\n") > MAX_MAPS:
        jax.clear_caches()
