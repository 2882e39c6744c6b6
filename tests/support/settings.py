"""The one small configuration of the tests."""

from typing import Any


def tiny(**settings: Any) -> dict[str, Any]:
    """Settings of a run whose update takes milliseconds; each of them, and any other, can be given."""
    return {
        "preset": "paper",
        "n_steps": 64,
        "n_minibatches": 4,
        "n_epochs": 2,
        "hidden": (8,),
        "warmup_steps": 64,
    } | settings


def tiny_flags(**settings: Any) -> list[str]:
    """The same settings on the command line."""
    flags = []
    for name, value in tiny(**settings).items():
        values = value if isinstance(value, tuple) else (value,)
        flags += [f"--{name.replace('_', '-')}", *map(str, values)]
    return flags
