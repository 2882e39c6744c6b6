"""What a collector goes on from, as named arrays and counters, and back.

Of environments in Python that is what replays their open episodes.  Of environments written in JAX it is their state,
whose arrays may have any type and any value.
"""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import ShapeDtypeStruct

from toppo.algos.contract import Tree
from toppo.collect.episodes import OpenEpisode
from toppo.learn.jax_episodes import EpisodeSums, JaxEpisodes, Worlds
from toppo.learn.setup import Setup
from toppo.rundir.checkpoint import DTYPES, Declared, Facts

STATES = "worlds/leaves/"  # names of the arrays in the environments' own states


def episodes_to_arrays(episodes: Any) -> tuple[dict[str, Tree], dict[str, object]]:
    """Return a tree of arrays, and counters."""
    if not isinstance(episodes, JaxEpisodes):
        names = ("actions", "rewards", "obs")
        arrays = [{name: getattr(episode, name) for name in names} for episode in episodes]
        return {"episode": arrays}, {"started": [episode.started for episode in episodes]}
    worlds = episodes.worlds._asdict()
    del worlds["index"]
    leaves = [_storable(np.asarray(leaf)) for leaf in worlds.pop("leaves")]
    tree = {"worlds": worlds | {"leaves": leaves}, "sums": episodes.sums}
    return tree, {"state_arrays": len(leaves)}


def episodes_template(setup: Setup, arrays: Mapping[str, Declared], counters: Facts) -> dict[str, Tree]:
    """Return shapes and types of these arrays, which are untrusted; a misfit is a ``ValueError`` or ``KeyError``."""
    spaces = setup.spaces
    envs = (setup.common.n_envs,)
    if "state_arrays" in counters:
        leaves = [arrays[f"{STATES}{i}"] for i in range(min(counters["state_arrays"], len(arrays)))]
        if any(leaf.shape[:1] != envs for leaf in leaves):
            raise ValueError("the state of its environments is not one entry for each")
        number = ShapeDtypeStruct(envs, np.int32)
        worlds = {
            "row": ShapeDtypeStruct((*envs, spaces.row_size), spaces.row_dtype),
            "started": number,
            "step": number,
            "due": ShapeDtypeStruct(envs, bool),
            "leaves": [ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in leaves],
        }
        sums: Tree = [ShapeDtypeStruct(envs, np.float64)] * len(EpisodeSums._fields)
        return {"worlds": worlds, "sums": EpisodeSums(*sums)}
    if len(counters["started"]) != setup.common.n_envs:
        raise ValueError("it holds other arrays than the spec implies")
    return {"episode": [_open_episode(setup, arrays[f"episode/{i}/rewards"].shape[:1]) for i in range(*envs)]}


def episodes_from_tree(tree: Mapping[str, Tree], counters: Facts) -> Any:
    """Return what a collector goes on from."""
    if "worlds" in tree:
        worlds = dict(tree["worlds"])
        leaves = tuple(worlds.pop("leaves"))
        worlds = {name: jnp.asarray(array) for name, array in worlds.items()}
        index = jnp.arange(len(worlds["due"]))
        return JaxEpisodes(Worlds(index=index, leaves=leaves, **worlds), tree["sums"])
    pairs = zip(counters["started"], tree["episode"], strict=True)
    return tuple(OpenEpisode(started=count(started), **episode) for started, episode in pairs)


def count(value: object) -> int:
    """Return a number from an untrusted file, or refuse it with a ``ValueError``."""
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is not a count")
    return value


def _open_episode(setup: Setup, length: tuple[int, ...]) -> Tree:
    spaces = setup.spaces
    return {
        "actions": ShapeDtypeStruct((*length, *spaces.action_row), np.int32 if spaces.discrete else np.float32),
        "rewards": ShapeDtypeStruct(length, np.float64),
        "obs": ShapeDtypeStruct((spaces.row_size,), spaces.row_dtype),
    }


def _storable(array: np.ndarray) -> np.ndarray:
    """Return the array, or its bytes along a further axis if safetensors has not its type."""
    if array.dtype in map(np.dtype, DTYPES.values()):
        return array
    return np.ascontiguousarray(array)[..., None].view(np.uint8)
