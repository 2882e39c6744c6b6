"""The twins in JAX of ``envs/observations.py`` and ``envs/actions.py``: from an observation to its row, and so on."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.dtypes import canonicalize_dtype

from toppo.algos.contract import Tree
from toppo.envs.actions import box_scaling
from toppo.envs.observations import part_of
from toppo.envs.spaces import Part, Spaces


def row_encoder(spaces: Spaces) -> Callable[[Tree], Array]:
    """Return the function from an observation to its row."""

    def encode(obs: Tree) -> Array:
        numbers = [numbers_of(part, part_of(obs, part)) for part in spaces.parts if part.kind != "image"]
        vector = jnp.concatenate([*numbers, jnp.zeros(0)])
        if not spaces.images:
            return vector
        pixels = [part_of(obs, part).ravel().astype(jnp.uint8) for part in spaces.parts if part.kind == "image"]
        return jnp.concatenate([jax.lax.bitcast_convert_type(vector, jnp.uint8).ravel(), *pixels])

    return encode


def numbers_of(part: Part, value: Array) -> Array:
    """Return a part's numbers, or its choices one-hot."""
    if part.kind == "numbers":
        return jnp.ravel(value).astype(jnp.float32)
    chosen = jnp.ravel(value) - jnp.array(part.starts)
    return jnp.concatenate([jax.nn.one_hot(chosen[i], n) for i, n in enumerate(part.choices)])


def numbers_in_row(row: Array, obs_size: int) -> Array:
    """Return the numbers of a row, which are normalised."""
    if row.dtype != jnp.uint8:
        return row[:obs_size]
    return jax.lax.bitcast_convert_type(row[: 4 * obs_size].reshape(obs_size, 4), jnp.float32)


def action_to_env(spaces: Spaces) -> Callable[[Array], Array]:
    """Return the function from the policy's action to the environment's."""
    dtype = canonicalize_dtype(np.dtype(spaces.action_dtype))
    if spaces.discrete:
        starts = np.array(spaces.starts).reshape(spaces.action_row)
        return lambda action: (action + starts).astype(dtype).reshape(spaces.action_shape)
    scaling = [jnp.asarray(x, jnp.float32) for x in box_scaling(spaces)]

    def rescale(action: Array) -> Array:
        low, high, factor, shift, least, most = scaling
        scaled = jnp.clip(jnp.clip(action, low, high) * factor + shift, least, most)
        return scaled.astype(dtype).reshape(spaces.action_shape)

    return rescale
