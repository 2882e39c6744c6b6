"""How JAX is set up for a run."""

import ctypes
import os
from pathlib import Path

import jax

M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # numbers of glibc's malloc.h


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


def keep_freed_memory() -> None:
    """Let the C library of Linux keep what is freed for the next arrays of the same size.

    Otherwise it returns large arrays to the kernel, and new pages take longer to get and clear than to fill.
    """
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return  # another C library
    set_option(M_MMAP_MAX, 0)
    set_option(M_TRIM_THRESHOLD, 2**31 - 1)
