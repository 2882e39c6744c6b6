"""Networks as pure functions on plain pytrees: a body that reads observations, and the heads on it."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from toppo.algos.contract import Net, Params, Tree
from toppo.collect.actor import Actor, ActorFactory
from toppo.maths.distributions import CATEGORICAL, GAUSSIAN, Categorical, Gaussian, choices_family
from toppo.maths.moments import normalise

LOG_STD_FLOOR = float(np.log(1e-3))
MASKED_LOGIT = -1e9  # the logit of an action that is not allowed: finite, so that 0 times it is 0
CHUNK_BYTES = 2**22  # of images that go through a network at once
# XLA's libraries share a sum over more numbers, and a product that sums over more rows, between the cores.
LONG_SUM = 2**15
LONG_PRODUCT = 128
Activation = Callable[[Array], Array]
ACTIVATIONS: dict[str, Activation] = {
    "tanh": jnp.tanh,
    "relu": jax.nn.relu,
    "elu": jax.nn.elu,
    "silu": jax.nn.silu,
    "gelu": jax.nn.gelu,  # approximated by tanh, so that NumPy alone can compute it
}
Heads = Sequence[tuple[int, float]]
"""Outputs of a network, and the gain of their initial weights."""


class Layer(NamedTuple):
    """x -> x w + b"""

    w: Array  # [in, out]
    b: Array  # [out]


class GaussianPolicy(NamedTuple):
    """Network of the mean, and a standard deviation that does not depend on the state."""

    mean: Tree
    log_std: Array


class Body(NamedTuple):
    """A network from its inputs to the outputs of its heads, side by side."""

    init: Callable[[Array, Heads], Tree]
    apply: Callable[[Tree, Tree], Array]  # [B, ...] -> [B, outputs]
    has_images: bool = False


class Inputs(NamedTuple):
    """An observation that is more than a vector, as the networks read it."""

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


def mlp(layers: tuple[Layer, ...], x: Array, activate: Activation, deterministic: bool = False) -> Array:
    """Apply the activation between layers, nothing after the last.  [B, in] -> [B, out]

    ``deterministic``, or more rows than XLA sums on one core: the bytes do not depend on the number of cores.
    """
    product = matmul if deterministic or len(x) > LONG_PRODUCT else jnp.matmul
    for w, b in layers[:-1]:
        x = activate(product(x, w) + b)
    w, b = layers[-1]
    return product(x, w) + b


@jax.custom_vjp
def matmul(x: Array, w: Array) -> Array:
    """x w, whose derivatives are the same bytes on any number of cores.  [B, in], [in, out] -> [B, out]"""
    return x @ w


def _matmul_backward(kept: tuple[Array, Array], slope: Array) -> tuple[Array, Array]:
    x, w = kept
    return slope @ w.T, materialised_transpose(x) @ slope


matmul.defvjp(lambda x, w: (x @ w, (x, w)), _matmul_backward)


def materialised_transpose(x: Array) -> Array:
    """Copy [B, n] to [n, B]: how a product sums over the rows of its first factor depends on the cores."""
    copy: Array = jax.lax.optimization_barrier(x.T)
    return copy


def has_long_sums(params: Tree, rows: int) -> bool:
    """Return whether XLA's libraries would share sums of a gradient over so many rows between the cores."""
    leaves = jax.tree.leaves(params)
    widest = max(x.shape[-1] for x in leaves)
    return rows > LONG_PRODUCT or max(rows * widest, sum(x.size for x in leaves)) > LONG_SUM


def mlp_body(obs_size: int, hidden: Sequence[int], activation: str = "tanh") -> Body:
    """Return a network on a vector."""

    def apply(layers: tuple[Layer, ...], inputs: Tree) -> Array:
        return mlp(layers, inputs.vector if isinstance(inputs, Inputs) else inputs, ACTIVATIONS[activation])

    return Body(lambda key, heads: mlp_init(key, [obs_size, *hidden], heads), apply)


def split_rows(obs_size: int, mask_size: int) -> Callable[[Array, Array, Array], Inputs]:
    """Return the function that splits stored observations into numbers, which it normalises, mask and pixels."""

    def preprocess(rows: Array, mean: Array, inv_std: Array) -> Inputs:
        packed = rows.dtype == jnp.uint8
        first = 4 * obs_size if packed else obs_size
        numbers, mask, pixels = jnp.split(rows, [first, first + mask_size], axis=-1)
        if packed:
            numbers = jax.lax.bitcast_convert_type(numbers.reshape(*rows.shape[:-1], obs_size, 4), jnp.float32)
        return Inputs(normalise(numbers, mean, inv_std), mask > 0, pixels)

    return preprocess


class Head(NamedTuple):
    """The policy's output: ``size`` numbers or, with ``choices``, logits for each of them; and how it starts."""

    size: int
    choices: Sequence[int] = ()
    log_std: float = 0.0
    gain: float = 0.01


def actor_critic(body: Body, critic: Body | None, preprocess: Callable[[Array, Array, Array], Tree], head: Head) -> Net:
    """Return a policy and a critic, each with a body of its own, or both on one body if ``critic`` is None.

    The policy is N(mean(s), std) over the dimensions of its head or a softmax for each of its choices.
    """
    size = head.size
    choices = head.choices
    heads = [(size, head.gain)] if critic else [(size, head.gain), (1, 1.0)]

    def init(seed: int) -> Params:
        policy_key, value_key = jax.random.split(jax.random.key(seed))
        policy = body.init(policy_key, heads)
        policy = policy if choices else GaussianPolicy(policy, jnp.full(size, head.log_std, jnp.float32))
        return Params(policy, critic.init(value_key, [(1, 1.0)]) if critic else ())

    def joint(params: Tree, inputs: Tree) -> tuple[Tree, Array]:
        out = body.apply(params if choices else params.mean, inputs)
        return distribution(params, out[:, :size], inputs), out[:, -1]

    def distribution(params: Tree, out: Array, inputs: Tree) -> Tree:
        if not choices:
            return Gaussian(out, jnp.broadcast_to(jnp.maximum(params.log_std, LOG_STD_FLOOR), out.shape))
        masked = isinstance(inputs, Inputs) and inputs.mask.shape[-1] > 0
        return Categorical(jnp.where(inputs.mask, out, MASKED_LOGIT) if masked else out)

    def value(params: Tree, inputs: Tree) -> Array:
        return critic.apply(params, inputs)[:, 0] if critic else joint(params, inputs)[1]

    return Net(
        init=init,
        preprocess=preprocess,
        policy=lambda params, inputs: joint(params, inputs)[0],
        value=value,
        critic=lambda params: params.value if critic else params.policy,
        joint=None if critic else joint,
        in_chunks=apply_in_chunks,
        family=choices_family(choices) if len(choices) > 1 else CATEGORICAL if choices else GAUSSIAN,
        has_images=body.has_images,
    )


def apply_in_chunks(apply: Callable[[Tree, Tree], Tree], params: Tree, inputs: Tree) -> Tree:
    """Return ``apply(params, inputs)`` of a whole batch without a gradient, a few images at a time.

    The patches of a thousand images are too many for any cache: chunks take half the time, and give the same bytes.
    """
    size = inputs.pixels.shape[-1] if isinstance(inputs, Inputs) else 0
    rows = chunk_size(size, CHUNK_BYTES) if size else 0
    if not size or len(inputs.pixels) <= rows:
        return apply(params, inputs)
    count = len(inputs.pixels) // rows
    covered = count * rows
    chunks = jax.tree.map(lambda x: x[:covered].reshape(count, rows, *x.shape[1:]), inputs)
    found = jax.lax.map(lambda chunk: apply(params, chunk), chunks)
    found = jax.tree.map(lambda x: x.reshape(covered, *x.shape[2:]), found)
    if covered == len(inputs.pixels):
        return found
    rest = apply(params, jax.tree.map(lambda x: x[covered:], inputs))
    return jax.tree.map(lambda *xs: jnp.concatenate(xs), found, rest)


def chunk_size(size: int, limit: int) -> int:
    """Return the largest power of two of things of ``size`` bytes that keeps to a limit, at least 1."""
    return 1 << max(1, limit // size).bit_length() - 1


def actor_weights(policy: Tree, actions: int | None = None) -> list[np.ndarray]:
    """Return what an actor needs: the standard deviation (empty for logits), then weights and biases by layer.

    Of the last layer, only what gives the first ``actions`` outputs: a shared trunk has the critic's beside them.
    """
    if isinstance(policy, GaussianPolicy):
        std = np.exp(np.maximum(np.asarray(policy.log_std), np.float32(LOG_STD_FLOOR)))
        body = policy.mean
    else:
        std = np.zeros(0, np.float32)
        body = policy
    *others, w, b = (np.asarray(x) for x in jax.tree.leaves(body))
    return [std, *others, w[:, :actions], b[:actions]]


def jax_actor_factory(net: Net, template: Tree) -> ActorFactory:
    """Return what ``mlp_actor`` is for policies of any kind, ``template`` being one's parameters: one program acts.

    (mean, inv_std, weights, rows) -> (observations [rows, row], noise [rows, A]) -> actions [rows, ...]
    """
    gaussian = isinstance(template, GaussianPolicy)
    structure = jax.tree.structure(template.mean if gaussian else template)

    @jax.jit
    def act(std: Array, weights: list[Array], mean: Array, inv_std: Array, rows: Array, noise: Array) -> Array:
        body = jax.tree.unflatten(structure, weights)
        dist = net.policy(GaussianPolicy(body, jnp.log(std)) if gaussian else body, net.preprocess(rows, mean, inv_std))
        return net.family.sample(dist, noise)

    def factory(mean: np.ndarray, inv_std: np.ndarray, weights: Sequence[np.ndarray], rows: int) -> Actor:
        fixed = jax.tree.map(jnp.array, (weights[0], list(weights[1:]), mean, inv_std))
        return lambda obs, noise: np.asarray(act(*fixed, obs, noise))

    return factory
