"""TensorBoard event files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np


class Scalars:
    """One event file; numbers only, a list is shown by its mean."""

    def __init__(self, folder: Path, steps: int) -> None:
        """Open a new event file; what an older one says beyond ``steps`` is void."""
        from tensorboardX import SummaryWriter

        self._writer = SummaryWriter(str(folder), purge_step=steps)

    def add(self, values: Mapping[str, Any], steps: int) -> None:
        """Write the values of one iteration."""
        for name, value in values.items():
            if not isinstance(value, list):
                self._writer.add_scalar(name, value, steps)
            elif value:
                self._writer.add_scalar(name, float(np.mean(value)), steps)

    def close(self) -> None:
        """Write what is left."""
        self._writer.close()
