"""A policy as one .npz file, and the module that runs it with NumPy alone."""

import io
import json
from pathlib import Path

import numpy as np

from toppo.agent import Agent
from toppo.export import numpy_policy
from toppo.export.portable import portable
from toppo.rundir.layout import write_bytes


def write_numpy(agent: Agent, path: Path) -> Path:
    """Write the arrays of a policy; beside them the module that reads them, whose path is returned."""
    arrays, about = portable(agent)
    file = io.BytesIO()
    np.savez_compressed(file, allow_pickle=False, about=np.array(json.dumps(about)), **arrays)
    runner = path.with_name("numpy_policy.py")
    write_bytes(runner, Path(numpy_policy.__file__).read_bytes())
    write_bytes(path, file.getvalue())
    return runner
