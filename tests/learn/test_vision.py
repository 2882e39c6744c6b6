"""The networks that read images."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from toppo.learn import nets
from toppo.learn.nets import Inputs, Layer
from toppo.learn.vision import NATURE, SMALL, channels_last, convolve, vision_body


@pytest.mark.parametrize(("stack", "shape"), [(NATURE, (36, 51, 3)), (SMALL, (7, 9, 2))])
def test_a_convolution_and_its_gradients_are_those_of_xla(stack, shape):
    def theirs(x, w, stride):
        form = ("NHWC", "HWIO", "NHWC")
        return jax.lax.conv_general_dilated(x, w, (stride, stride), stack.padding, dimension_numbers=form)

    def ours(x, w, stride):
        return convolve(x, Layer(w, jnp.zeros(w.shape[-1])), stride, stack.padding)

    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.normal(size=(2, *shape)), jnp.float32)
    for size, channels, stride in stack.convolutions:
        w = jnp.asarray(rng.normal(size=(size, size, x.shape[-1], channels)) / size, jnp.float32)
        direction = jnp.asarray(rng.normal(size=theirs(x, w, stride).shape), jnp.float32)

        @jax.jit
        def both(x, w, direction, stride=stride):
            found = [jax.vjp(lambda x, w, f=f: f(x, w, stride), x, w) for f in (ours, theirs)]
            return [(value, *back(direction)) for value, back in found]

        for a, b in zip(*both(x, w, direction), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-5 * float(jnp.abs(b).max()))
        x = theirs(x, w, stride)


@pytest.mark.parametrize(
    ("shape", "order", "expected"),
    [
        ((9, 8), (0, 1), (9, 8, 1)),
        ((7, 7, 3), (0, 1, 2), (7, 7, 3)),
        ((7, 7, 20), (0, 1, 2), (7, 7, 20)),  # MiniGrid's one-hot view
        ((20, 7, 7), (1, 2, 0), (7, 7, 20)),
        ((4, 84, 84), (1, 2, 0), (84, 84, 4)),  # Atari
        ((84, 84, 4), (0, 1, 2), (84, 84, 4)),
        ((3, 9, 8), (1, 2, 0), (9, 8, 3)),
        ((9, 8, 3), (0, 1, 2), (9, 8, 3)),
        ((5, 4, 5), (0, 1, 2), (5, 4, 5)),
        ((5, 5, 5), (0, 1, 2), (5, 5, 5)),
        ((4, 3, 84, 84), (2, 3, 0, 1), (84, 84, 12)),
        ((4, 84, 84, 3), (1, 2, 0, 3), (84, 84, 12)),
        ((4, 9, 8, 3), (1, 2, 0, 3), (9, 8, 12)),
        ((3, 3, 9, 8), (2, 3, 0, 1), (9, 8, 9)),
    ],
)
def test_channels_are_found_first_or_last_and_a_stack_becomes_channels(shape, order, expected):
    pixels = np.arange(2 * np.prod(shape)).reshape(2, *shape)
    wanted = pixels.transpose(0, *(axis + 1 for axis in order)).reshape(2, *expected)
    np.testing.assert_array_equal(channels_last(jnp.asarray(pixels)), wanted)


@pytest.mark.parametrize(("images", "numbers"), [([(8, 8, 1)], 3), ([(8, 8, 1), (36, 36, 1)], 0)])
def test_what_one_tower_says_changes_what_another_means(images, numbers):
    """f(a, b) is not g(a) + h(b): the mixed difference is not 0."""
    body, rng = vision_body(images, numbers, (16,)), np.random.default_rng(0)
    params = body.init(jax.random.key(0), [(2, 1.0)])
    pixels, first = rng.integers(256, size=(2, sum(map(np.prod, images))), dtype=np.uint8), int(np.prod(images[0]))
    vectors = rng.normal(size=(2, numbers)).astype(np.float32)

    def out(a, b):
        row = np.concatenate([pixels[a, :first], pixels[b, first:]])
        return body.apply(params, Inputs(jnp.asarray(vectors[[b]]), jnp.ones((1, 0), bool), jnp.asarray(row[None])))

    assert np.abs(out(0, 0) - out(0, 1) - out(1, 0) + out(1, 1)).max() > 0.01


def test_one_image_alone_is_read_as_by_mnih_et_al():
    params = vision_body([(4, 84, 84)], 0, (64, 64)).init(jax.random.key(0), [(6, 0.01), (1, 1.0)])
    shapes = [layer.w.shape for layer in (*params.images[0], *params.fusion)]
    assert shapes == [(8, 8, 4, 32), (4, 4, 32, 64), (3, 3, 64, 64), (3136, 512), (512, 7)]


@pytest.mark.parametrize(("rows", "calls"), [(8, [8]), (16, [8]), (21, [8, 5])])
def test_a_batch_in_parts_is_what_it_is_as_a_whole(monkeypatch, rows, calls):
    """Eight images at a time, and what is left over."""
    monkeypatch.setattr(nets, "CHUNK_BYTES", 9 * 48)
    rng, sizes = np.random.default_rng(0), []
    pixels = rng.integers(256, size=(rows, 48), dtype=np.uint8)
    seen = Inputs(rng.normal(size=(rows, 3)).astype(np.float32), np.zeros((rows, 0), bool), pixels)

    def apply(factor, part):
        sizes.append(len(part.pixels))
        return part.vector * factor, part.pixels.sum(axis=-1)

    numbers, brightness = nets.apply_in_chunks(apply, 2.0, seen)
    np.testing.assert_array_equal(numbers, seen.vector * np.float32(2.0))
    np.testing.assert_array_equal(brightness, pixels.astype(int).sum(axis=1))
    assert list(dict.fromkeys(sizes)) == calls
    assert nets.apply_in_chunks(lambda params, x: x, (), seen.vector) is seen.vector


@pytest.mark.parametrize("shape", [(4, 84, 84), (3, 40, 50), (1, 7, 9)])
def test_planes_are_read_as_pixels_are(shape):
    planes = np.random.default_rng(0).integers(256, size=(3, *shape), dtype=np.uint8)
    pixels = np.moveaxis(planes, 1, -1)
    found = []
    for images in (planes, pixels):
        body = vision_body([images.shape[1:]], 0, (16,))
        params = body.init(jax.random.key(0), [(5, 1.0)])
        seen = Inputs(jnp.zeros((3, 0)), jnp.zeros((3, 0), bool), jnp.asarray(images.reshape(3, -1)))
        found.append(jax.jit(body.apply)(params, seen))
    np.testing.assert_allclose(*found, rtol=1e-4, atol=1e-5)
