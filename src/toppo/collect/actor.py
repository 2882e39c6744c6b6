"""The NumPy twin of the policy network: a few observations in, their actions out, in microseconds."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy import add, expm1, maximum, minimum, multiply, subtract, tanh

from toppo.envs import Spaces

GELU = float(np.sqrt(2 / np.pi))

Actor = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""(observations [rows, O], noise [rows, A]) -> actions [rows, ...]"""

ActorFactory = Callable[[np.ndarray, np.ndarray, Sequence[np.ndarray], int], Actor]
"""(mean, inv_std, weights as in ``nets.actor_weights``, rows) -> Actor"""

# Sigmoids are written as tanh, whose exponentials cannot overflow; gelu is its approximation by tanh, as in nets.py.
ACTIVATIONS: dict[str, Callable[[np.ndarray], object]] = {
    "tanh": lambda x: tanh(x, x),
    "relu": lambda x: maximum(x, 0, out=x),
    "elu": lambda x: np.copyto(x, expm1(minimum(x, 0)), where=x < 0),
    "silu": lambda x: multiply(x, 0.5 + 0.5 * tanh(0.5 * x), x),
    "gelu": lambda x: multiply(x, 0.5 + 0.5 * tanh(GELU * (x + 0.044715 * x * x * x)), x),
}
"""The activations of ``nets.ACTIVATIONS``, in place."""


def mlp_actor_factory(spaces: Spaces, activation: str) -> ActorFactory:
    """Return the factory of NumPy actors for these spaces."""
    return partial(mlp_actor, choices=spaces.choices, masked=spaces.masked, activation=activation)


def mlp_actor(
    mean: np.ndarray,
    inv_std: np.ndarray,
    weights: Sequence[np.ndarray],
    rows: int = 1,
    choices: Sequence[int] = (),
    masked: bool = False,
    activation: str = "tanh",
) -> Actor:
    """Return the actor of an MLP policy; weights as in ``nets.actor_weights``.

    A Gaussian policy returns mean + std * noise with standard normal noise.  With ``choices`` (how many in each
    dimension of the action) it returns argmax(logits + noise) of each with Gumbel noise.  Zero noise gives the most
    likely action.  If ``masked``, the last entries of an observation say which choices are allowed.
    """
    std, *layers = weights
    activate = ACTIVATIONS[activation]
    # A product of vector and matrix per row, so that an action does not depend on how many rows there are.
    product = np.ndarray.dot if rows == 1 else np.matmul

    def spread(vector: np.ndarray) -> np.ndarray:
        # Operands of one shape: NumPy takes twice as long to match two.
        return np.tile(vector, (rows, 1))

    means = spread(mean.astype(float))
    inv_stds = spread(inv_std)
    stds = spread(std)
    x0 = np.empty((rows, len(mean)), np.float32)
    difference = np.empty_like(means)
    top = np.full_like(x0, 10.0)
    bottom = -top
    steps = []
    for w, b in zip(layers[::2], layers[1::2], strict=True):
        out = np.empty((rows, len(b)), np.float32)
        steps.append((w, spread(b), out, _for_product(out)))
    *hidden, (last_w, last_b, last, last_rows) = steps
    first = _for_product(x0)
    size = len(mean)

    def act(obs: np.ndarray, noise: np.ndarray) -> np.ndarray:
        # In double precision, and then rounded: one operation with operands of two kinds takes three times as long.
        subtract(obs[..., :size] if masked else obs, means, difference)
        x0[:] = difference
        multiply(x0, inv_stds, x0)
        minimum(x0, top, out=x0)
        maximum(x0, bottom, out=x0)
        x = first
        for w, b, out, out_rows in hidden:
            product(x, w, out_rows)
            add(out, b, out)
            activate(out)
            x = out_rows
        product(x, last_w, last_rows)
        add(last, last_b, last)
        if not choices:
            action: np.ndarray = last + stds * noise
            return action
        scores = last + noise
        return choose(np.where(obs[..., size:] > 0, scores, -np.inf) if masked else scores, choices)

    return act


def choose(scores: np.ndarray, choices: Sequence[int]) -> np.ndarray:
    """Return the best choice in each dimension.  [rows, A] -> [rows], or [rows, D] if there are several"""
    if len(choices) == 1:
        best: np.ndarray = scores.argmax(-1)
        return best
    parts = np.split(scores, np.cumsum(choices[:-1]), axis=-1)
    return np.stack([part.argmax(-1) for part in parts], axis=-1)


def _for_product(memory: np.ndarray) -> np.ndarray:
    """Return the same memory as the product needs it: a vector, or a stack of single rows."""
    return memory[0] if len(memory) == 1 else memory[:, None]


def noise_for(rng: np.random.Generator, steps: int, size: int, discrete: bool) -> np.ndarray:
    """Draw the noise of ``steps`` actions.  [steps, size]"""
    if discrete:
        return rng.gumbel(size=(steps, size)).astype(np.float32)
    return rng.standard_normal((steps, size), dtype=np.float32)
