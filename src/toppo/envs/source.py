"""Making an environment from whatever the user has: an id, a function, or the thing itself."""

import importlib
import os
import sys
import warnings
from collections.abc import Callable
from ctypes.util import find_library
from typing import Any

import gymnasium as gym
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

from toppo.envs.atari import is_atari, names_of_game
from toppo.envs.spaces import Env
from toppo.errors import ENV_EXCEPTIONS, EnvironmentFault, ToppoError, first_line, in_one_line

EnvSource = str | Callable[[], Env] | Env | gym.vector.VectorEnv[Any, Any, Any]


def choose_renderer() -> None:
    """Without a display MuJoCo must be told to draw with EGL or OSMesa before it is first imported."""
    if "MUJOCO_GL" in os.environ or os.environ.get("DISPLAY") or sys.platform != "linux":
        return
    if find_library("EGL") and (find_library("GL") or find_library("OpenGL")):
        os.environ["MUJOCO_GL"] = "egl"
    elif find_library("OSMesa"):
        os.environ["MUJOCO_GL"] = "osmesa"


def quiet_mujoco() -> None:
    """Keep MuJoCo's word on Gymnasium's own models from the screen; what it says of a simulation still gets there."""
    try:
        import mujoco
    except ImportError:
        return
    mujoco.set_mju_user_warning(
        lambda text: None if text.startswith("compiler attribute") else print(f"MuJoCo: {text}", file=sys.stderr)
    )


def name_of(source: EnvSource) -> str:
    """What the environment is called: its id, or the name of its function or class, whatever is wrapped around it."""
    if isinstance(source, str):
        return source
    inner = source.unwrapped if isinstance(source, gym.Env) else getattr(source, "func", source)
    return getattr(inner, "__name__", type(inner).__name__)


def make(source: EnvSource, render_mode: str | None = None) -> Env:
    """The environment that ``source`` stands for."""
    if isinstance(source, gym.Env):
        return source
    if isinstance(source, gym.vector.VectorEnv):
        raise ToppoError(f"one environment is wanted here, but {type(source).__name__} is {source.num_envs} of them")
    if not isinstance(source, str) and not callable(source):
        raise ToppoError(
            f"{type(source).__name__} {source!r:.60} is no environment: give an id, a gymnasium.Env, a function that "
            "makes one, or a gymnasium.vector.VectorEnv"
        )
    try:
        env = _by_id(source, render_mode) if isinstance(source, str) else source()
    except ToppoError:
        raise
    except ENV_EXCEPTIONS as error:
        raise EnvironmentFault(f"{name_of(source)} cannot be made: it raised {in_one_line(error)}") from error
    if not isinstance(env, gym.Env):
        raise ToppoError(f"the environment function returned {type(env).__name__}, but must return a gymnasium.Env")
    return env


def _by_id(source: str, render_mode: str | None) -> Env:
    if kind_of(source) == "mujoco":
        choose_renderer()
        quiet_mujoco()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # version hints of Gymnasium; the id is the user's choice
            # Drawing on a processor takes a tenth of a second for a picture of this size, and four times that at 480.
            # The camera follows the body, which otherwise runs out of the picture, where there is one.
            mujoco = {"width": 240, "height": 240, "camera_name": "track"} if kind_of(source) == "mujoco" else {}
            # Not every environment takes these: they are named only when a picture is wanted.
            drawing: dict[str, Any] = {"render_mode": render_mode, **mujoco} if render_mode else {}
            return gym.make(source, disable_env_checker=True, **drawing)
    except ModuleNotFoundError as error:
        missing = str(error.name or getattr(error.__cause__, "name", None))  # Gymnasium raises it anew, without a name
        if f"{source.partition(':')[0]}.".startswith(f"{missing}."):
            raise ToppoError(
                f"{source!r} needs the module {missing!r}, which is not found: install it, or put its directory on "
                "PYTHONPATH"
            ) from error
        raise ToppoError(f"{source!r} needs the package {missing!r}: {_extra(missing)}") from error
    except gym.error.DependencyNotInstalled as error:
        raise ToppoError(f"{source!r} cannot be made: {error}") from error
    except gym.error.Error as error:
        said = first_line(error).rstrip(".")
        names = f"; {sentence}" if (sentence := names_of_game(source)) else ""
        raise ToppoError(f"{source!r} is not an environment that Gymnasium can make: {said}{names}") from error


def factory(path: str) -> Callable[[], Env]:
    """The importable function that ``module:name`` stands for."""
    module, name = path.split(":")
    found: Callable[[], Env] = getattr(importlib.import_module(module), name)
    return found


def factory_path(source: EnvSource) -> str | None:
    """``module:name`` of an importable function, so that another process can call it; None if it has none."""
    module, name = getattr(source, "__module__", None), getattr(source, "__qualname__", "<")
    if isinstance(source, gym.Env) or module in (None, "__main__") or "<" in name or "." in name:
        return None
    return f"{module}:{name}" if getattr(sys.modules.get(module), name, None) is source else None


def strip(env: Env) -> tuple[Env, int | None]:
    """The environment without Gymnasium's checks, and its time limit if that was the outermost wrapper.

    Checks that have passed once cost a tenth of every step; the limit is then counted by ``Environment``.
    """
    limit = None
    while isinstance(env, OrderEnforcing | PassiveEnvChecker | TimeLimit):
        if isinstance(env, TimeLimit):
            if limit is not None:
                break
            limit = env._max_episode_steps
        env = env.env
    return env, limit


def _extra(module: str) -> str:
    extras = {"mujoco": "mujoco", "ale_py": "atari"}
    name = extras.get(module)
    return f"pip install 'toppo[{name}]'" if name else f"pip install {module}"


def kind_of(source: EnvSource) -> str:
    """``mujoco`` for Gymnasium's own MuJoCo tasks, ``atari`` for ale-py's games, otherwise ``other``."""
    if is_atari(source):
        return "atari"
    entry = gym.registry[source].entry_point if isinstance(source, str) and source in gym.registry else None
    return "mujoco" if isinstance(entry, str) and entry.startswith("gymnasium.envs.mujoco") else "other"


def is_registered(env_id: str) -> bool:
    """Can Gymnasium make this id without importing anything that the id names?"""
    return is_atari(env_id) or (":" not in env_id and env_id in gym.registry)


def known_everywhere(env_id: str) -> bool:
    """Can a fresh process make this id, or was it registered by hand in this one?"""
    entry = gym.registry[env_id].entry_point if env_id in gym.registry else None
    return ":" in env_id or (isinstance(entry, str) and entry.startswith("gymnasium."))
