"""Environments written in JAX: what they must be, and where they come from.  Importing this module imports no JAX."""

import inspect
from collections.abc import Callable
from importlib import import_module
from subprocess import SubprocessError
from typing import NamedTuple

from toppo.errors import EnvironmentFault, ToppoError, first_line, in_one_line, install_command
from toppo.jaxenvs.protocol import JaxEnv


class Library(NamedTuple):
    """A library of environments, named before the colon of an id such as ``gymnax:CartPole-v1``."""

    make: str  # module:function of this package; the function takes what stands after the colon
    requires: str  # the module that its extra brings


LIBRARIES = {
    "gymnax": Library("gymnax_env:make", "gymnax"),
    "brax": Library("brax_env:make_brax", "brax"),
    "playground": Library("brax_env:make_playground", "mujoco_playground"),
    "navix": Library("navix_env:make", "navix"),
    "craftax": Library("craftax_env:make", "craftax"),
}
ARGUMENTS = {"reset": ["key"], "step": ["key", "state", "action"]}


def library_of(env_id: str) -> str | None:
    """Return the library that an id names; None if it is Gymnasium's."""
    library, colon, _ = env_id.partition(":")
    return library if colon and library in LIBRARIES else None


def make_jax_env(env_id: str) -> JaxEnv:
    """Make an environment of a library."""
    library, _, name = env_id.partition(":")
    path, requires = LIBRARIES[library]
    try:
        import_module(requires)
    except ImportError as error:
        missing = getattr(error, "name", None) or requires
        raise ToppoError(f"{env_id!r} needs the package {missing!r}: {install_command(library)}") from error
    module, function = path.split(":")
    make: Callable[[str], JaxEnv] = getattr(import_module(f"toppo.jaxenvs.{module}"), function)
    try:
        return make(name)
    except ToppoError:
        raise
    except (OSError, SubprocessError) as error:
        raise ToppoError(
            f"{env_id!r} needs files that {library} loads from the network, and that failed: {first_line(error)}"
        ) from error
    except Exception as error:
        raise EnvironmentFault(f"{env_id!r} cannot be made: it raised {in_one_line(error)}") from error


def is_jax_env(candidate: object) -> bool:
    """Does an object have the functions of a ``JaxEnv``, with the arguments that its protocol names?"""
    if isinstance(candidate, type):
        return False
    functions = {name: getattr(candidate, name, None) for name in ARGUMENTS}
    return all(callable(f) and list(inspect.signature(f).parameters) == ARGUMENTS[n] for n, f in functions.items())
