"""A policy as plain arrays and a description in JSON: what every exported format is made from.

Images are read with channels first here, so their weights are turned once instead of every image.
"""

from math import prod
from typing import Any, NamedTuple

import jax
import numpy as np

from toppo.agent import Agent
from toppo.envs.actions import box_scaling
from toppo.envs.spaces import Part
from toppo.learn.nets import GaussianPolicy, Layer
from toppo.learn.vision import MIN_SIZE_FOR_NATURE, NATURE, SMALL, ImageEncoder, channels_first
from toppo.maths.moments import mean_and_inv_std

SCHEMA = 1


class Portable(NamedTuple):
    """Arrays by name, and how they are put together."""

    arrays: dict[str, np.ndarray]
    about: dict[str, Any]  # JSON data


def portable(agent: Agent) -> Portable:
    """Take the deterministic policy of an agent apart: inputs, normaliser, layers, actions."""
    spaces = agent.spaces
    policy = agent.state.learner.params.policy
    body = policy.mean if isinstance(policy, GaussianPolicy) else policy
    mean, inv_std = mean_and_inv_std(agent.state.obs_moments)
    arrays = {"mean": mean, "inv_std": inv_std}
    about: dict[str, Any] = {
        "schema": SCHEMA,
        "env": agent.spec.env,
        "algo": agent.spec.algo,
        "steps": agent.num_timesteps,
        "inputs": [_input(part, arrays) for part in spaces.parts],
        "masked": spaces.masked,
        "images": [],
        "vector": 0,
        "activation": agent.spec.common.activation,
        "action": {"shape": list(spaces.action_shape), "dtype": spaces.action_dtype, "discrete": spaces.discrete},
    }
    if isinstance(body, ImageEncoder):
        for number, (layers, shape) in enumerate(zip(body.images, spaces.images, strict=True)):
            about["images"].append(_image(f"image{number}", layers, shape, arrays))
        about["vector"] = _add_layers("vector", body.vector, arrays)
        about["layers"] = _add_layers("layer", body.fusion, arrays)
    else:
        about["layers"] = _add_layers("layer", body, arrays)
    last = f"layer{about['layers'] - 1}"
    for name in ("w", "b"):  # a shared trunk has the critic's output beside the actions
        arrays[f"{last}.{name}"] = arrays[f"{last}.{name}"][..., : spaces.action_size]
    if spaces.discrete:
        arrays |= _choices(spaces.choices, spaces.starts)
    else:
        arrays |= {f"box.{name}": array for name, array in box_scaling(spaces)._asdict().items()}
    return Portable({name: np.ascontiguousarray(array) for name, array in arrays.items()}, about)


def _input(part: Part, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    name = "/".join(("observation", *map(str, part.path)))
    if part.kind == "choices":
        # One-hot: entry j is 1 where number d(j) of the part has the value v(j).
        counts = part.choices
        arrays[f"{name}.number"] = np.repeat(np.arange(len(counts)), counts)
        values = [np.arange(start, start + count) for start, count in zip(part.starts, counts, strict=True)]
        arrays[f"{name}.value"] = np.concatenate([*values, np.zeros(0, int)])
    return {"name": name, "path": list(part.path), "kind": part.kind, "shape": list(part.shape)}


def _image(name: str, layers: tuple[Layer, ...], shape: tuple[int, ...], arrays: dict[str, np.ndarray]) -> Any:
    """How an image becomes [B, C, H, W], and its convolutions."""
    *convolutions, dense = jax.tree.map(np.asarray, layers)
    planar = len(shape) > 2 and channels_first(shape[-3:])
    frames = len(shape) - 2 if planar or len(shape) == 2 else len(shape) - 3
    sides = list(shape[-2:] if planar or len(shape) == 2 else shape[-3:-1])
    # Axes of the batch: first, frames and channels, then height and width.
    axes = list(range(len(shape) + 1))
    if not planar and len(shape) > 2:
        axes = [*axes[: frames + 1], axes[-1], *axes[-3:-1]]
    about: dict[str, Any] = {"name": name, "axes": axes, "sides": sides, "convolutions": []}
    stack = NATURE if min(sides) >= MIN_SIZE_FOR_NATURE else SMALL
    for number, ((w, b), (size, _, stride)) in enumerate(zip(convolutions, stack.convolutions, strict=True)):
        w = w / np.float32(255) if number == 0 else w
        arrays[f"{name}.conv{number}.w"] = w.transpose(3, 2, 0, 1)
        arrays[f"{name}.conv{number}.b"] = b
        pads = jax.lax.padtype_to_pads(sides, (size, size), (stride, stride), stack.padding)
        about["convolutions"].append({"stride": stride, "pads": [list(map(int, pad)) for pad in pads]})
        sides = [(length + sum(pad) - size) // stride + 1 for length, pad in zip(sides, pads, strict=True)]
    last = stack.convolutions[-1][1]
    width = dense.w.shape[1]
    arrays[f"{name}.dense.w"] = dense.w.reshape(*sides, last, width).transpose(2, 0, 1, 3).reshape(-1, width)
    arrays[f"{name}.dense.b"] = dense.b
    about["channels"] = prod(shape) // prod(about["sides"])
    return about


def _add_layers(name: str, layers: tuple[Layer, ...], arrays: dict[str, np.ndarray]) -> int:
    for number, layer in enumerate(layers):
        arrays[f"{name}{number}.w"] = np.asarray(layer.w)
        arrays[f"{name}{number}.b"] = np.asarray(layer.b)
    return len(layers)


def _choices(counts: tuple[int, ...], starts: tuple[int, ...]) -> dict[str, np.ndarray]:
    """For every dimension of the action, where its scores are; a place beyond the last score holds -inf."""
    widths = np.array(counts)[:, None]
    column = np.arange(max(counts))
    firsts = np.cumsum((0, *counts[:-1]))[:, None]
    return {"choices": np.where(column < widths, firsts + column, sum(counts)), "starts": np.array(starts, np.int64)}
