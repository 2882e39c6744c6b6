"""How JAX is set up for a run."""

import os
from pathlib import Path

import jax


def prepare() -> None:
    """Keep compiled programs on the disk, so that the second start of the same run is quick; run them where called.

    On a processor, JAX hands a program to a thread of its own, whose core nobody can choose.
    """
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "toppo" / "xla"
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError:
        return  # no place to keep them: compile every time
    jax.config.update("jax_compilation_cache_dir", str(cache))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.05)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
