"""Networks as pure functions on plain pytrees."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from toppo.maths.distributions import CATEGORICAL, GAUSSIAN, Categorical, Gaussian
from toppo.types import Net, Params

LOG_STD_FLOOR = float(np.log(1e-3))


class Layer(NamedTuple):
    """x -> x w + b"""

    w: Array  # [in, out]
    b: Array  # [out]


class GaussianPolicy(NamedTuple):
    """Network of the mean, and a standard deviation that does not depend on the state."""

    mean: tuple[Layer, ...]
    log_std: Array


def mlp_init(key: Array, sizes: Sequence[int], out_gain: float) -> tuple[Layer, ...]:
    """Orthogonal weights, gain sqrt(2) for hidden layers and ``out_gain`` for the last; biases 0."""
    keys = jax.random.split(key, len(sizes) - 1)
    gains = [np.sqrt(2.0)] * (len(sizes) - 2) + [out_gain]
    return tuple(
        Layer(jax.nn.initializers.orthogonal(gain)(k, (n_in, n_out)), jnp.zeros(n_out))
        for k, gain, n_in, n_out in zip(keys, gains, sizes[:-1], sizes[1:], strict=True)
    )


def mlp(layers: tuple[Layer, ...], x: Array) -> Array:
    """tanh between layers, linear at the end.  [B, in] -> [B, out]"""
    for w, b in layers[:-1]:
        x = jnp.tanh(x @ w + b)
    w, b = layers[-1]
    return x @ w + b


def value(layers: tuple[Layer, ...], obs: Array) -> Array:
    """V(s).  [B, in] -> [B]"""
    return mlp(layers, obs)[:, 0]


def gaussian_net(obs_size: int, action_size: int, hidden: Sequence[int], log_std: float) -> Net:
    """Policy N(mean(s), std) and critic, two separate tanh networks."""

    def init(seed: int) -> Params:
        policy_key, value_key = jax.random.split(jax.random.key(seed))
        mean = mlp_init(policy_key, [obs_size, *hidden, action_size], 0.01)
        return Params(
            GaussianPolicy(mean, jnp.full(action_size, log_std, jnp.float32)),
            mlp_init(value_key, [obs_size, *hidden, 1], 1.0),
        )

    def policy(params: GaussianPolicy, obs: Array) -> Gaussian:
        mean = mlp(params.mean, obs)
        return Gaussian(mean, jnp.broadcast_to(jnp.maximum(params.log_std, LOG_STD_FLOOR), mean.shape))

    return Net(init, policy, value, GAUSSIAN)


def categorical_net(obs_size: int, actions: int, hidden: Sequence[int]) -> Net:
    """Policy softmax(logits(s)) and critic, two separate tanh networks."""

    def init(seed: int) -> Params:
        policy_key, value_key = jax.random.split(jax.random.key(seed))
        return Params(
            mlp_init(policy_key, [obs_size, *hidden, actions], 0.01), mlp_init(value_key, [obs_size, *hidden, 1], 1.0)
        )

    def policy(params: tuple[Layer, ...], obs: Array) -> Categorical:
        return Categorical(mlp(params, obs))

    return Net(init, policy, value, CATEGORICAL)


def acting_weights(policy: Any) -> list[np.ndarray]:
    """What the NumPy twin needs: the standard deviation (empty for logits), then weights and biases by layer."""
    if isinstance(policy, GaussianPolicy):
        std = np.exp(np.maximum(np.asarray(policy.log_std), np.float32(LOG_STD_FLOOR)))
        layers = policy.mean
    else:
        std, layers = np.zeros(0, np.float32), policy
    return [std, *(np.asarray(x) for layer in layers for x in layer)]
