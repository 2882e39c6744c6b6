from hypothesis import settings

from toppo.device import prepare

# The same examples in every run, and no clock: a busy machine must not fail a test.
settings.register_profile("toppo", deadline=None, derandomize=True, max_examples=60, database=None)
settings.load_profile("toppo")

# Programs that an earlier test run compiled are read from the disk.
prepare()
