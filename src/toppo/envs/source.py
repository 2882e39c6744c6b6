"""What an environment is.  ``resolve`` answers this once, for the id, function or object that a user gives."""

import importlib
import json
import logging
import os
import sys
import warnings
from collections.abc import Callable, Mapping
from ctypes.util import find_library
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, cast

import gymnasium as gym

from toppo.envs.atari import AtariGames, is_game, names_of_game
from toppo.envs.spaces import Env
from toppo.envs.vector import GymVecEnv, VectorEnv
from toppo.errors import (
    ENV_EXCEPTIONS,
    EnvironmentFault,
    ToppoError,
    first_line,
    in_one_line,
    install_command,
    prefixed,
)
from toppo.jaxenvs import is_jax_env, library_of, make_jax_env
from toppo.jaxenvs.protocol import JaxEnv

EXTRAS = {"mujoco": "mujoco", "Box2D": "worlds", "minigrid": "worlds", "gymnasium_robotics": "worlds"}
"""The extra of toppo that brings a module."""

OTHERS = {
    "envpool": "EnvPool's environments take no seed at a reset, and an episode could not be repeated: give the id that "
    "the task has in Gymnasium{count}",
    "stable_baselines3": "a VecEnv of Stable-Baselines3 does not reset single environments by a seed: give the id or "
    "the function that makes one environment{count}; toppo normalises by itself",
    "pettingzoo": "PettingZoo's environments have several agents, and toppo trains one: wrap yours as a gymnasium.Env "
    "in which the other agents act inside step(), as docs/environments.md shows",
}
"""What to do with the environments of packages that have another interface than Gymnasium's."""

EnvSource = str | Callable[..., Env] | Env | VectorEnv | JaxEnv
Address = Mapping[str, Any]
VecEnv = GymVecEnv | AtariGames  # several environments that one call steps


@dataclass(frozen=True, eq=False)
class Source:
    """An environment as the user gave it, and what toppo knows of it before it is made."""

    given: EnvSource
    name: str  # its id, or the name of the function or of the class inside all wrappers
    kind: Literal["mujoco", "atari", "minatar", "jax", "other"] = "other"  # Gymnasium's own MuJoCo tasks, games, ...
    is_vector: bool = False  # does one call step several environments?
    is_registered: bool = False  # can Gymnasium make it without an import of a module that its id names?
    address: Address | None = None  # JSON data from which another process makes it; None if it must stay here
    kwargs: Mapping[str, Any] = field(default_factory=dict)  # with which it is made; JSON data

    @property
    def is_object(self) -> bool:
        """Does the environment exist already?  Then it belongs to the user, and there is only one of it."""
        return isinstance(self.given, gym.Env | gym.vector.VectorEnv)

    @property
    def is_jax(self) -> bool:
        """Is the environment written in JAX?"""
        return self.kind in ("jax", "minatar")

    @property
    def num_envs(self) -> int | None:
        """The number of environments in a vector environment object; None for everything else."""
        return self.given.num_envs if isinstance(self.given, gym.vector.VectorEnv) else None

    def label(self, index: int) -> str:
        """The name of environment number ``index`` of a run in messages."""
        return f"{self.name} (environment {index})"


def resolve(env: EnvSource | Source, env_kwargs: Mapping[str, object] | None = None) -> Source:
    """Find out what an environment is; ``env_kwargs`` are given to whatever makes it.

    Nothing is made, and nothing is imported except ale-py for an id that looks like one of its games.
    """
    source = env if isinstance(env, Source) else _resolve(env)
    if not env_kwargs:
        return source
    kwargs = _json_data(env_kwargs)
    if source.is_object:
        raise ToppoError(
            f"env_kwargs are for an id or a function, but {source.name} is made already: give them where it is made"
        )
    if source.kind == "atari":
        raise ToppoError(f"env_kwargs are {kwargs}, but {source.name} takes none: its preprocessing is fixed")
    if source.is_jax:
        raise ToppoError(
            f"env_kwargs are {kwargs}, but {source.name} takes none: make an environment of JAX in Python and give it"
        )
    return replace(source, kwargs=kwargs, address=source.address and {**source.address, "kwargs": kwargs})


def _json_data(env_kwargs: Mapping[str, object]) -> Mapping[str, Any]:
    """Check that the arguments can be stored; lists take the place of tuples."""
    try:
        if all(isinstance(name, str) for name in env_kwargs):
            kwargs: dict[str, Any] = json.loads(json.dumps(dict(env_kwargs), allow_nan=False))
            return kwargs
    except (TypeError, ValueError):
        pass
    raise ToppoError(
        f"env_kwargs are {env_kwargs!r:.200}, but must be names with JSON data, which the run's file can hold: give a "
        "function that makes the environment instead"
    )


def _refuse_others(env: object) -> None:
    """Refuse an environment of another interface with the way that leads to training."""
    packages = {kind.__module__.partition(".")[0] for kind in type(env).__mro__}
    for package in packages & OTHERS.keys():
        if package == "stable_baselines3" and isinstance(env, gym.Env):
            continue  # its wrappers of single environments are Gymnasium's
        count = getattr(env, "num_envs", None)
        with_count = f" and n_envs={count}" if isinstance(count, int) else ""
        raise ToppoError(f"{type(env).__name__}: {OTHERS[package].format(count=with_count)}")


def _resolve(env: EnvSource) -> Source:
    _refuse_others(env)
    if isinstance(env, str):
        return _from_id(env)
    if isinstance(env, gym.vector.VectorEnv):
        return Source(given=env, name=type(env).__name__, is_vector=True)
    if isinstance(env, gym.Env):
        return Source(given=env, name=type(env.unwrapped).__name__)
    if is_jax_env(env):
        return Source(given=env, name=type(env).__name__, kind="jax")
    if not callable(env):
        raise ToppoError(
            f"{type(env).__name__} {env!r:.60} is not an environment: give an id, a gymnasium.Env, a function that "
            "makes one, or a gymnasium.vector.VectorEnv"
        )
    if isinstance(env, partial) and env.func is gym.make:
        return _from_partial_make(env)
    inner = getattr(env, "func", env)  # of a functools.partial
    name = getattr(inner, "__name__", type(inner).__name__)
    path = _import_path(env)
    return Source(given=env, name=name, address=None if path is None else {"function": path})


def from_address(address: Address) -> Source:
    """The Source that has this address."""
    kwargs = address.get("kwargs")
    if "id" in address:
        return resolve(address["id"], kwargs)
    module, name = address["function"].split(":")
    return resolve(getattr(importlib.import_module(module), name), kwargs)


def _from_id(env_id: str) -> Source:
    if library_of(env_id):
        kind: Literal["jax", "minatar"] = "minatar" if env_id.endswith("-MinAtar") else "jax"
        return Source(given=env_id, name=env_id, kind=kind, is_registered=True)
    if is_game(env_id):
        return Source(given=env_id, name=env_id, kind="atari", is_vector=True, is_registered=True)
    entry = gym.registry[env_id].entry_point if env_id in gym.registry else None
    where = entry if isinstance(entry, str) else ""
    # A fresh process knows Gymnasium's own ids and imports the module before a colon.  An id that was registered by
    # hand is known in this process only.
    known_elsewhere = ":" in env_id or where.startswith("gymnasium.")
    return Source(
        given=env_id,
        name=env_id,
        kind="mujoco" if where.startswith("gymnasium.envs.mujoco") else "other",
        is_registered=entry is not None and ":" not in env_id,
        address={"id": env_id} if known_elsewhere else None,
    )


def _from_partial_make(make_it: "partial[Env]") -> Source:
    """``partial(gym.make, id)`` is the id; with more arguments it is a function that is named by the id and by them."""
    named = dict(make_it.keywords)
    env_id, *others = make_it.args or (named.pop("id", None),)
    if isinstance(env_id, str) and not others and not named:
        return _from_id(env_id)
    name = env_id if isinstance(env_id, str) else getattr(env_id, "id", "make")  # an EnvSpec has an id
    arguments = [f"{value!r:.40}" for value in others] + [f"{key}={value!r:.40}" for key, value in named.items()]
    # With its arguments the name is not an id, so that nobody makes the environment without them.
    return Source(given=make_it, name=f"{name}({', '.join(arguments)})")


def _import_path(function: Callable[..., Env]) -> str | None:
    """``module:name`` of a function that another process can import; None if there is no such path."""
    module = getattr(function, "__module__", None)
    name = getattr(function, "__qualname__", "<")
    if module in (None, "__main__") or "<" in name or "." in name:
        return None
    return f"{module}:{name}" if getattr(sys.modules.get(module), name, None) is function else None


def make(source: Source, render_mode: str | None = None, height: int | None = None) -> Env:
    """Make one environment, or take the object that the user gave; MuJoCo draws pictures of this height."""
    given = source.given
    if isinstance(given, gym.Env):
        return given
    if isinstance(given, gym.vector.VectorEnv):
        raise ToppoError(f"one environment is needed here, but {source.name} holds {given.num_envs}")
    if source.is_jax:
        from toppo.envs.jax_env import JaxEnvInGymnasium

        with prefixed(source.name):
            return JaxEnvInGymnasium(jax_env(source))
    if "mujoco" in sys.modules:  # for another kind it is not worth half a second of import
        quiet_mujoco()
    try:
        if isinstance(given, str):
            env = _make_id(source, render_mode, height)
        else:
            env = cast(Callable[..., Env], given)(**source.kwargs)
    except ToppoError:
        raise
    except ENV_EXCEPTIONS as error:
        if isinstance(error, AssertionError) and source.name.rpartition(":")[2].startswith("Fetch"):
            raise ToppoError(
                f"{source.name} cannot be made with this MuJoCo: gymnasium-robotics' Fetch tasks work with mujoco "
                "3.9.0 and fail with 3.13.0 and later, so type pip install mujoco==3.9.0"
            ) from error
        raise EnvironmentFault(f"{source.name} cannot be made: it raised {in_one_line(error)}") from error
    _refuse_others(env)
    if not isinstance(env, gym.Env):
        raise ToppoError(f"the environment function returned {type(env).__name__}, but must return a gymnasium.Env")
    return env


def jax_env(source: Source) -> JaxEnv:
    """The environment written in JAX that a user named or gave."""
    return make_jax_env(source.name) if isinstance(source.given, str) else cast(JaxEnv, source.given)


def open_vec_env(source: Source, count: int) -> VecEnv:
    """Open ``count`` environments that one call steps."""
    if not isinstance(source.given, gym.vector.VectorEnv):
        return AtariGames(source.name, count)
    if source.num_envs != count:
        raise ToppoError(
            f"n_envs is {count}, but the vector environment has {source.num_envs}: use n_envs={source.num_envs}"
        )
    return GymVecEnv(source.given)


def _make_id(source: Source, render_mode: str | None, height: int | None) -> Env:
    env_id = source.name
    # Not every environment takes these: they are given only when a picture is wanted.
    drawing: dict[str, Any] = {"render_mode": render_mode} if render_mode else {}
    if source.kind == "mujoco":
        choose_renderer()
        quiet_mujoco()
        if render_mode:
            # Drawing on a processor takes a tenth of a second for a picture of this size, and four times that at 480.
            # The camera follows the body, which otherwise runs out of the picture.
            side = height or 240
            drawing |= {"width": side, "height": side, "camera_name": "track"}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # version hints of Gymnasium; the id is the user's choice
            return gym.make(env_id, disable_env_checker=True, **{**source.kwargs, **drawing})
    except (ModuleNotFoundError, gym.error.DependencyNotInstalled) as error:
        missing = getattr(error, "name", None) or getattr(error.__cause__, "name", None)  # Gymnasium's own has no name
        if missing is None:
            raise ToppoError(f"{env_id!r} cannot be made: {first_line(error)}") from error
        if missing in EXTRAS:
            raise ToppoError(f"{env_id!r} needs the package {missing!r}: {install_command(EXTRAS[missing])}") from error
        if f"{env_id.partition(':')[0]}.".startswith(f"{missing}."):
            raise ToppoError(
                f"{env_id!r} needs the module {missing!r}, which is not found: install it, or put its directory on "
                "PYTHONPATH"
            ) from error
        raise ToppoError(f"{env_id!r} needs the package {missing!r}: pip install {missing}") from error
    except gym.error.Error as error:
        way_out = names_of_game(env_id)
        if isinstance(error, gym.error.NameNotFound) and not way_out and ":" not in env_id:
            way_out = f"one of another package is written PACKAGE:{env_id}"
        reason = "; ".join([first_line(error).rstrip("."), *([way_out] if way_out else [])])
        raise ToppoError(f"{env_id!r} is not an environment that Gymnasium can make: {reason}") from error


def choose_renderer() -> None:
    """Let MuJoCo draw with EGL or OSMesa if there is no display; it must know before it is first imported."""
    if "MUJOCO_GL" in os.environ or os.environ.get("DISPLAY") or sys.platform != "linux":
        return
    if find_library("EGL") and (find_library("GL") or find_library("OpenGL")):
        os.environ["MUJOCO_GL"] = "egl"
    elif find_library("OSMesa"):
        os.environ["MUJOCO_GL"] = "osmesa"


def quiet_mujoco() -> None:
    """Silence MuJoCo's warnings about Gymnasium's own models, and log those about a simulation."""
    try:
        import mujoco
    except ImportError:
        return
    log = logging.getLogger("toppo")
    mujoco.set_mju_user_warning(
        lambda text: None if text.startswith("compiler attribute") else log.warning("MuJoCo: %s", text)
    )
