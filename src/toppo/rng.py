"""Randomness without state: every stream is a function of the run's seed, the stream's name and indices.

Nothing has to be saved to continue a run, and the number of workers changes no byte.
"""

from enum import IntEnum

import numpy as np


class Stream(IntEnum):
    """What a stream is for.  The numbers are part of the meaning of a seed: never change them.

    Each has a fixed number of indices, since a SeedSequence ignores zeros at its end.
    """

    ENV_RESET = 1
    ACTION_NOISE = 2
    MINIBATCHES = 3
    MEMORY_CHOICE = 4
    NETWORK_INIT = 5
    EVALUATION = 6
    TUNING = 7


def rng_for(seed: int, stream: Stream, *indices: int) -> np.random.Generator:
    """Return the generator of (seed, stream, indices)."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, stream, *indices])))


def seed_for(seed: int, stream: Stream, *indices: int) -> int:
    """Return the seed of (seed, stream, indices), below 2^31, for ``env.reset(seed=...)``."""
    return int(np.random.SeedSequence([seed, stream, *indices]).generate_state(1)[0] >> 1)
