"""Randomness without state: every stream is a function of the run's seed, a purpose and indices.

Nothing has to be saved to continue a run, and the number of workers changes no byte.
"""

from enum import IntEnum

import numpy as np


class Purpose(IntEnum):
    """What a stream is for.  The numbers are part of the meaning of a seed: never change them.

    Every purpose has a fixed number of indices, since a SeedSequence does not see zeros at its end.
    """

    EPISODE = 1
    ACTION = 2
    SHUFFLE = 3
    DRAW = 4
    NETWORK = 5
    EVALUATION = 6


def stream(seed: int, purpose: Purpose, *indices: int) -> np.random.Generator:
    """A generator of its own for (seed, purpose, indices)."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, purpose, *indices])))


def seed_for(seed: int, purpose: Purpose, *indices: int) -> int:
    """A seed below 2^31 for (seed, purpose, indices), as ``env.reset(seed=...)`` wants it."""
    return int(np.random.SeedSequence([seed, purpose, *indices]).generate_state(1)[0] >> 1)
