"""Environments written in JAX: what they must be, and where they come from.  Importing this module imports no JAX."""

import inspect
from collections.abc import Callable
from importlib import import_module
from typing import NamedTuple

from toppo.errors import ToppoError, install_command
from toppo.jaxenvs.protocol import JaxEnv


class Library(NamedTuple):
    """A library of environments, named before the colon of an id such as ``gymnax:CartPole-v1``."""

    module: str  # of this package, with a function ``make`` that takes what stands after the colon
    requires: str  # the module that its extra brings


LIBRARIES = {"gymnax": Library("toppo.jaxenvs.gymnax_env", "gymnax")}
ARGUMENTS = {"reset": ["key"], "step": ["key", "state", "action"]}


def library_of(env_id: str) -> str | None:
    """Return the library that an id names; None if it is Gymnasium's."""
    library, colon, _ = env_id.partition(":")
    return library if colon and library in LIBRARIES else None


def make_jax_env(env_id: str) -> JaxEnv:
    """Make an environment of a library."""
    library, _, name = env_id.partition(":")
    module, requires = LIBRARIES[library]
    try:
        import_module(requires)
    except ImportError as error:
        missing = getattr(error, "name", None) or requires
        raise ToppoError(f"{env_id!r} needs the package {missing!r}: {install_command(library)}") from error
    make: Callable[[str], JaxEnv] = import_module(module).make
    return make(name)


def is_jax_env(candidate: object) -> bool:
    """Does an object have the functions of a ``JaxEnv``, with the arguments that its protocol names?"""
    if isinstance(candidate, type):
        return False
    functions = {name: getattr(candidate, name, None) for name in ARGUMENTS}
    return all(callable(f) and list(inspect.signature(f).parameters) == ARGUMENTS[n] for n, f in functions.items())
