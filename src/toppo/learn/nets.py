"""Networks as pure functions on plain pytrees: a body that reads observations, and what stands on it."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from toppo.algos.contract import Net, Params
from toppo.maths.distributions import CATEGORICAL, GAUSSIAN, Categorical, Gaussian, choices_family
from toppo.maths.moments import normalise

LOG_STD_FLOOR = float(np.log(1e-3))
MASKED_LOGIT = -1e9  # the logit of an action that is not allowed: finite, so that 0 times it is 0
PART = 2**22  # bytes of images that go through a network at once
# XLA's libraries share a sum over more numbers, and a product that sums over more rows, between the cores.
LONG_SUM, LONG_PRODUCT = 2**15, 128
Heads = Sequence[tuple[int, float]]
"""Outputs of a network, and the gain of their initial weights."""


class Layer(NamedTuple):
    """x -> x w + b"""

    w: Array  # [in, out]
    b: Array  # [out]


class GaussianPolicy(NamedTuple):
    """Network of the mean, and a standard deviation that does not depend on the state."""

    mean: Any
    log_std: Array


class Body(NamedTuple):
    """A network from what is seen to the outputs of its heads, side by side."""

    init: Callable[[Array, Heads], Any]
    apply: Callable[[Any, Any], Array]  # [B, ...] -> [B, outputs]
    images: bool = False  # does it read any?


class Seen(NamedTuple):
    """An observation that is more than a vector."""

    vector: Array  # [B, O] normalised numbers
    mask: Array  # [B, A] allowed actions, or [B, 0]
    pixels: Array  # [B, P] all images, one after another, as bytes


def layer_init(key: Array, n_in: int, heads: Heads) -> Layer:
    """Orthogonal weights for each head, biases 0."""
    keys = [key] if len(heads) == 1 else jax.random.split(key, len(heads))
    parts = [jax.nn.initializers.orthogonal(gain)(k, (n_in, n)) for k, (n, gain) in zip(keys, heads, strict=True)]
    return Layer(parts[0] if len(parts) == 1 else jnp.concatenate(parts, axis=1), jnp.zeros(sum(n for n, _ in heads)))


def mlp_init(key: Array, sizes: Sequence[int], heads: Heads) -> tuple[Layer, ...]:
    """Hidden layers with gain sqrt(2), then the heads.  ``sizes``: inputs and hidden widths"""
    keys = jax.random.split(key, len(sizes))
    layers: list[Heads] = [[(n, float(np.sqrt(2.0)))] for n in sizes[1:]] + [heads]
    return tuple(layer_init(k, n, out) for k, n, out in zip(keys, sizes, layers, strict=True))


def mlp(layers: tuple[Layer, ...], x: Array, steady: bool = False) -> Array:
    """tanh between layers, linear at the end; ``steady`` as products over many rows are.  [B, in] -> [B, out]"""
    product = times if steady or len(x) > LONG_PRODUCT else jnp.matmul
    for w, b in layers[:-1]:
        x = jnp.tanh(product(x, w) + b)
    w, b = layers[-1]
    return product(x, w) + b


@jax.custom_vjp
def times(x: Array, w: Array) -> Array:
    """x w, whose derivatives are the same bytes on any number of cores.  [B, in], [in, out] -> [B, out]"""
    return x @ w


def _times_back(kept: tuple[Array, Array], slope: Array) -> tuple[Array, Array]:
    x, w = kept
    return slope @ w.T, upright(x) @ slope


times.defvjp(lambda x, w: (x @ w, (x, w)), _times_back)


def upright(x: Array) -> Array:
    """[B, n] -> [n, B], as a copy: how a product sums over the rows of its first factor depends on the cores."""
    copy: Array = jax.lax.optimization_barrier(x.T)
    return copy


def has_long_sums(params: Any, rows: int) -> bool:
    """Would XLA's libraries share sums of a gradient over so many rows between the cores?"""
    leaves = jax.tree.leaves(params)
    widest, size = max(x.shape[-1] for x in leaves), sum(x.size for x in leaves)
    return rows > LONG_PRODUCT or max(rows * widest, size) > LONG_SUM


def mlp_body(obs_size: int, hidden: Sequence[int]) -> Body:
    """A tanh network on a vector."""

    def apply(layers: tuple[Layer, ...], seen: Any) -> Array:
        return mlp(layers, seen.vector if isinstance(seen, Seen) else seen)

    return Body(lambda key, heads: mlp_init(key, [obs_size, *hidden], heads), apply)


def see_vector(rows: Array, shift: Array, factor: Array) -> Array:
    """Stored observations that are nothing but numbers, normalised."""
    return normalise(rows, shift, factor)


def see_parts(obs_size: int, mask_size: int) -> Callable[[Array, Array, Array], Seen]:
    """The function that takes stored observations apart: numbers, which it normalises, mask and pixels."""

    def see(rows: Array, shift: Array, factor: Array) -> Seen:
        packed = rows.dtype == jnp.uint8
        first = 4 * obs_size if packed else obs_size
        numbers, mask, pixels = jnp.split(rows, [first, first + mask_size], axis=-1)
        if packed:
            numbers = jax.lax.bitcast_convert_type(numbers.reshape(*rows.shape[:-1], obs_size, 4), jnp.float32)
        return Seen(normalise(numbers, shift, factor), mask > 0, pixels)

    return see


def make_net(
    body: Body, see: Any, size: int, choices: Sequence[int] = (), log_std: float = 0.0, shared: bool = False
) -> Net:
    """Policy and critic, each with a body of its own, or both on one if ``shared``.

    The policy is N(mean(s), std) over ``size`` dimensions or, with ``choices``, a softmax for each of them.
    """
    heads = [(size, 0.01), (1, 1.0)] if shared else [(size, 0.01)]

    def init(seed: int) -> Params:
        policy_key, value_key = jax.random.split(jax.random.key(seed))
        policy = body.init(policy_key, heads)
        policy = policy if choices else GaussianPolicy(policy, jnp.full(size, log_std, jnp.float32))
        return Params(policy, () if shared else body.init(value_key, [(1, 1.0)]))

    def joint(params: Any, seen: Any) -> tuple[Any, Array]:
        out = body.apply(params if choices else params.mean, seen)
        return distribution(params, out[:, :size], seen), out[:, -1]

    def distribution(params: Any, out: Array, seen: Any) -> Any:
        if not choices:
            return Gaussian(out, jnp.broadcast_to(jnp.maximum(params.log_std, LOG_STD_FLOOR), out.shape))
        masked = isinstance(seen, Seen) and seen.mask.shape[-1] > 0
        return Categorical(jnp.where(seen.mask, out, MASKED_LOGIT) if masked else out)

    def value(params: Any, seen: Any) -> Array:
        return joint(params, seen)[1] if shared else body.apply(params, seen)[:, 0]

    family = choices_family(choices) if len(choices) > 1 else CATEGORICAL if choices else GAUSSIAN
    return Net(
        init,
        see,
        lambda params, seen: joint(params, seen)[0],
        value,
        lambda params: params.policy if shared else params.value,
        joint if shared else None,
        family,
        body.images,
    )


def apply_in_chunks(apply: Callable[[Any, Any], Any], params: Any, seen: Any) -> Any:
    """``apply(params, seen)`` of a whole batch, where no gradient is taken: images go through it a few at a time.

    The patches of a thousand images are too many for any cache: parts take half the time, and give the same bytes.
    """
    size = seen.pixels.shape[-1] if isinstance(seen, Seen) else 0
    together = chunk_size(size, PART) if size else 0
    if not size or len(seen.pixels) <= together:
        return apply(params, seen)
    count = len(seen.pixels) // together
    whole = count * together
    parts = jax.tree.map(lambda x: x[:whole].reshape(count, together, *x.shape[1:]), seen)
    found = jax.lax.map(lambda part: apply(params, part), parts)
    found = jax.tree.map(lambda x: x.reshape(whole, *x.shape[2:]), found)
    if whole == len(seen.pixels):
        return found
    rest = apply(params, jax.tree.map(lambda x: x[whole:], seen))
    return jax.tree.map(lambda *xs: jnp.concatenate(xs), found, rest)


def chunk_size(size: int, limit: int) -> int:
    """The largest power of two of things of ``size`` bytes that keeps to a limit, at least 1."""
    return 1 << max(1, limit // size).bit_length() - 1


def gaussian_net(obs_size: int, action_size: int, hidden: Sequence[int], log_std: float) -> Net:
    """Policy N(mean(s), std) and critic on vectors, two separate tanh networks."""
    return make_net(mlp_body(obs_size, hidden), see_vector, action_size, (), log_std)


def categorical_net(obs_size: int, actions: int, hidden: Sequence[int]) -> Net:
    """Policy softmax(logits(s)) and critic on vectors, two separate tanh networks."""
    return make_net(mlp_body(obs_size, hidden), see_vector, actions, (actions,))


def acting_weights(policy: Any, actions: int | None = None) -> list[np.ndarray]:
    """What acting needs: the standard deviation (empty for logits), then weights and biases by layer.

    Of the last layer, only what gives the first ``actions`` outputs: a shared trunk has the critic's beside them.
    """
    if isinstance(policy, GaussianPolicy):
        std = np.exp(np.maximum(np.asarray(policy.log_std), np.float32(LOG_STD_FLOOR)))
        body = policy.mean
    else:
        std, body = np.zeros(0, np.float32), policy
    *others, w, b = (np.asarray(x) for x in jax.tree.leaves(body))
    return [std, *others, w[:, :actions], b[:actions]]


def jax_acting(net: Net, template: Any) -> Callable[..., Callable[[np.ndarray, np.ndarray], np.ndarray]]:
    """As ``mlp_actor``, for policies of any kind, ``template`` being one's parameters: all rows in one program."""
    gaussian = isinstance(template, GaussianPolicy)
    structure = jax.tree.structure(template.mean if gaussian else template)

    @jax.jit
    def act(std: Array, weights: list[Array], shift: Array, factor: Array, rows: Array, noise: Array) -> Array:
        body = jax.tree.unflatten(structure, weights)
        dist = net.policy(GaussianPolicy(body, jnp.log(std)) if gaussian else body, net.see(rows, shift, factor))
        return net.family.sample(dist, noise)

    def actor(
        shift: np.ndarray, factor: np.ndarray, weights: Sequence[np.ndarray], rows: int
    ) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        fixed = jax.tree.map(jnp.array, (weights[0], list(weights[1:]), shift, factor))
        return lambda obs, noise: np.asarray(act(*fixed, obs, noise))

    return actor
