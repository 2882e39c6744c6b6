"""Networks that read images: convolutions for each image, a network for the numbers, and a layer that joins them.

Images of 36 pixels and more in both directions go through the convolutions of Mnih et al. (2015), the fewest that
they can read; smaller ones through a stack of 3x3.
"""

from collections.abc import Sequence
from math import prod, sqrt
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from toppo.learn.nets import (
    ACTIVATIONS,
    Body,
    Heads,
    Inputs,
    Layer,
    chunk_size,
    layer_init,
    materialised_transpose,
    matmul,
    mlp,
    mlp_init,
)

GAIN = sqrt(2.0)


class Stack(NamedTuple):
    """Convolutions (kernel, channels, stride), how their borders are treated, and the width of the layer after them."""

    convolutions: tuple[tuple[int, int, int], ...]
    padding: str
    width: int


NATURE = Stack(((8, 32, 4), (4, 64, 2), (3, 64, 1)), "VALID", 512)
SMALL = Stack(((3, 16, 1), (3, 32, 2), (3, 64, 2)), "SAME", 128)
MIN_SIZE_FOR_NATURE = 36
CHUNK_BYTES = 2**22  # of patches that are made at once


class ImageEncoder(NamedTuple):
    """Parameters; several encoders are joined by a hidden layer, a single one needs none."""

    images: tuple[tuple[Layer, ...], ...]  # convolutions [k, k, in, out], then a dense layer
    vector: tuple[Layer, ...]
    fusion: tuple[Layer, ...]


def vision_body(
    images: Sequence[tuple[int, ...]], obs_size: int, hidden: Sequence[int], activation: str = "tanh"
) -> Body:
    """Return a network on images of the given shapes and ``obs_size`` numbers; convolutions have relu."""
    activate = ACTIVATIONS[activation]
    shapes = [jax.eval_shape(channels_last, jax.ShapeDtypeStruct((1, *s), jnp.uint8)).shape[1:] for s in images]
    stacks = [NATURE if min(shape[:2]) >= MIN_SIZE_FOR_NATURE else SMALL for shape in shapes]
    widths = tuple(hidden) if obs_size else ()
    features = sum(stack.width for stack in stacks) + (widths[-1] if widths else obs_size)
    # Without a layer between encoders and heads, the output of one could only be added to that of the others.
    fusion = tuple(hidden[-1:]) if len(images) > 1 or obs_size else ()

    def init(key: Array, heads: Heads) -> ImageEncoder:
        *keys, vector_key, fusion_key = jax.random.split(key, len(images) + 2)
        encoders = tuple(encoder_init(k, *pair) for k, *pair in zip(keys, stacks, shapes, strict=True))
        vector = mlp_init(vector_key, [obs_size, *widths[:-1]], [(widths[-1], GAIN)]) if widths else ()
        return ImageEncoder(encoders, vector, mlp_init(fusion_key, [features, *fusion], heads))

    def apply(params: ImageEncoder, inputs: Inputs) -> Array:
        found = []
        first = 0
        for encoder, stack, shape in zip(params.images, stacks, images, strict=True):
            size = prod(shape)
            pixels = inputs.pixels[:, first : first + size].reshape(-1, *shape)
            planar = pixels.ndim == 4 and channels_first(pixels.shape[1:])
            found.append(encoder_apply(encoder, stack, pixels if planar else channels_last(pixels), planar))
            first += size
        vector = inputs.vector
        found.append(activate(mlp(params.vector, vector, activate, deterministic=True)) if widths else vector)
        return mlp(params.fusion, jnp.concatenate(found, axis=-1), activate, deterministic=True)

    return Body(init, apply, has_images=True)


def channels_last(pixels: Array) -> Array:
    """Make a stack of images channels.  [B, H, W], [B, S, H, W] and so on -> [B, H, W, C]"""
    if pixels.ndim == 3:
        return pixels[..., None]
    if channels_first(pixels.shape[-3:]):
        pixels = jnp.moveaxis(pixels, -3, -1)
    if pixels.ndim == 4:
        return pixels
    stacked = jnp.moveaxis(pixels, 1, -2)  # [B, S, H, W, C] -> [B, H, W, S, C]
    return stacked.reshape(*stacked.shape[:3], -1)


def channels_first(shape: tuple[int, ...]) -> bool:
    """Return whether the first of three axes is the channels: equal axes are sides, else the smaller end is it."""
    first, middle, last = shape
    return first < last if (first == middle) == (middle == last) else middle == last


def encoder_init(key: Array, stack: Stack, shape: tuple[int, ...]) -> tuple[Layer, ...]:
    """Return orthogonal weights with gain sqrt(2)."""
    *keys, dense_key = jax.random.split(key, len(stack.convolutions) + 1)
    layers: list[Layer] = []
    x = jax.ShapeDtypeStruct((1, *shape), jnp.float32)
    for k, (kernel, channels, stride) in zip(keys, stack.convolutions, strict=True):
        w = jax.nn.initializers.orthogonal(GAIN)(k, (kernel, kernel, x.shape[-1], channels))
        layers.append(Layer(w, jnp.zeros(channels)))
        x = jax.eval_shape(lambda a, b, s=stride: convolve(a, b, s, stack.padding), x, layers[-1])
    flat = x.shape[1] * x.shape[2] * x.shape[3]
    return (*layers, layer_init(dense_key, flat, [(stack.width, GAIN)]))


def encoder_apply(layers: tuple[Layer, ...], stack: Stack, pixels: Array, planar: bool) -> Array:
    """Encode bytes [B, H, W, C], or [B, C, H, W] if ``planar``, -> features [B, width]"""
    first, *others, dense = layers
    (_, _, stride), *strides = stack.convolutions
    x = jax.nn.relu(convolve(pixels, first._replace(w=first.w / 255.0), stride, stack.padding, planar))
    for layer, (_, _, stride) in zip(others, strides, strict=True):
        x = jax.nn.relu(convolve(x, layer, stride, stack.padding))
    return jax.nn.relu(matmul(x.reshape(len(x), -1), dense.w) + dense.b)


def convolve(x: Array, layer: Layer, stride: int, padding: str, planar: bool = False) -> Array:
    """[B, H, W, C], or [B, C, H, W] if ``planar``, -> [B, H', W', channels]

    XLA's own convolution takes thirty times as long inside a loop on a processor (256 images).  Here a stride is taken
    by making blocks of stride x stride pixels into channels; what is left has none and is one product of matrices.
    """
    size, _, inputs, channels = layer.w.shape
    taps = -(-size // stride)
    lengths = x.shape[2:] if planar else x.shape[1:3]
    pads = jax.lax.padtype_to_pads(lengths, (size, size), (stride, stride), padding)
    counts = [(length + sum(pad) - size) // stride + taps for length, pad in zip(lengths, pads, strict=True)]
    rims = [(low, n * stride - length - low, 0) for n, length, (low, _) in zip(counts, lengths, pads, strict=True)]
    none = (0, 0, 0)
    x = jax.lax.pad(x, jnp.zeros((), x.dtype), (none, none, *rims) if planar else (none, *rims, none))
    blocks = (counts[0], stride, counts[1], stride)
    if planar:
        x = transposed(x.reshape(len(x), inputs, *blocks), (0, 2, 4, 1, 3, 5))
    else:
        x = transposed(x.reshape(len(x), *blocks, inputs), (0, 1, 3, 2, 4, 5))
    rim = (0, taps * stride - size)
    depth = stride * stride * inputs
    w = jnp.pad(layer.w, (rim, rim, (0, 0), (0, 0))).reshape(taps, stride, taps, stride, inputs, channels)
    w = w.transpose((0, 2, 4, 1, 3, 5) if planar else (0, 2, 1, 3, 4, 5)).reshape(taps, taps, depth, channels)
    return correlate(x.reshape(len(x), *counts, depth), w) + layer.b


def transposed(x: Array, axes: tuple[int, ...]) -> Array:
    """Return ``x.transpose(axes)``, where the last axis stays; bytes move four at a time, in an eighth of the time."""
    if x.dtype != jnp.uint8 or x.shape[-1] % 4:
        return x.transpose(axes)
    words = jax.lax.bitcast_convert_type(x.reshape(*x.shape[:-1], -1, 4), jnp.uint32)
    words = jax.lax.optimization_barrier(words.transpose(axes))  # without it the bytes would move one by one
    return jax.lax.bitcast_convert_type(words, jnp.uint8).reshape(*words.shape[:-1], -1)


@jax.custom_vjp
def correlate(x: Array, w: Array) -> Array:
    """[B, H, W, C], [k, k, C, channels] -> [B, H - k + 1, W - k + 1, channels]

    A few images at a time, so that their patches stay in the processor's cache: on one core a gradient of the Atari
    network takes 0.6 of the time that it takes with the patches of all.
    """
    return _correlate_forward(x, w)[0]


def _correlate_forward(x: Array, w: Array) -> tuple[Array, tuple[Array, Array]]:
    found = jax.lax.map(lambda part: im2col(part, w) @ w.reshape(-1, w.shape[-1]), split(x, chunk_count(x, w)))
    return found.reshape(-1, *found.shape[2:])[: len(x)], (x, w)


def _correlate_backward(kept: tuple[Array, Array], slope: Array) -> tuple[Array | None, Array]:
    x, w = kept
    rows = w.reshape(-1, w.shape[-1])
    depth = w[..., 0].size

    def add(of_w: Array, part: tuple[Array, Array]) -> tuple[Array, Array | None]:
        images, slope = part
        patches, back = jax.vjp(lambda images: im2col(images, w), images)
        # Slopes first: this product is twice as fast as that of patches and slopes.
        of_w += materialised_transpose(slope.reshape(-1, slope.shape[-1])) @ patches.reshape(-1, depth)
        return of_w, back(slope @ rows.T)[0] if jnp.issubdtype(x.dtype, jnp.floating) else None

    parts = chunk_count(x, w)
    of_w, of_x = jax.lax.scan(add, jnp.zeros(rows.T.shape, w.dtype), (split(x, parts), split(slope, parts)))
    of_x = None if of_x is None else of_x.reshape(-1, *x.shape[1:])[: len(x)]
    of_w = jax.lax.optimization_barrier(of_w)  # without it the transposition would swap the factors again
    return of_x, of_w.T.reshape(w.shape)


correlate.defvjp(_correlate_forward, _correlate_backward)


def im2col(x: Array, w: Array) -> Array:
    """Return the patch under the weights [k, k, C, ...] everywhere.  [B,H,W,C] -> [B, H - k + 1, W - k + 1, k k C]"""
    x = jax.lax.optimization_barrier(x.astype(w.dtype))  # bytes become numbers once, not again for every patch
    height, width = (length - len(w) + 1 for length in x.shape[1:3])
    places = [(i, j) for i in range(len(w)) for j in range(len(w))]
    return jnp.concatenate([x[:, i : i + height, j : j + width] for i, j in places], axis=-1)


def chunk_count(x: Array, w: Array) -> int:
    """Return how many chunks of images have patches that fit into a processor's cache."""
    patches = jax.eval_shape(im2col, x[:1], w)
    return -(-len(x) // chunk_size(patches.size * patches.dtype.itemsize, CHUNK_BYTES))


def split(x: Array, parts: int) -> Array:
    """Split [B, ...] into [parts, B / parts, ...]; zeros fill up the last."""
    size = -(-len(x) // parts)
    return jnp.pad(x, ((0, size * parts - len(x)), *((0, 0),) * (x.ndim - 1))).reshape(parts, size, *x.shape[1:])
