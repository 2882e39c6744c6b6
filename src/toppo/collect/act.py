"""The NumPy twin of the policy network: a few observations in, their actions out, in microseconds."""

from collections.abc import Callable, Sequence

import numpy as np

Actor = Callable[[np.ndarray, np.ndarray], np.ndarray]


def mlp_actor(shift: np.ndarray, factor: np.ndarray, weights: Sequence[np.ndarray], rows: int = 1) -> Actor:
    """(observations [rows, O], noise [rows, A]) -> actions [rows, A] or [rows], weights as in ``nets.acting_weights``.

    Gaussian policies return mean + std * noise with standard normal noise; logits return
    argmax(logits + noise) with Gumbel noise.  Zero noise gives the most likely action.
    """
    std, layers = weights[0], weights[1:]
    # A product of vector and matrix per row, so that an action does not depend on how many rows there are.
    product = np.dot if rows == 1 else np.matmul
    x0, x0_rows = _rows(rows, len(shift))
    hidden = [(w, b, *_rows(rows, len(b))) for w, b in zip(layers[:-2:2], layers[1:-2:2], strict=True)]
    last_w, last_b = layers[-2:]
    last, last_rows = _rows(rows, len(last_b))
    top, bottom = np.float32(10.0), np.float32(-10.0)
    discrete = len(std) == 0

    def act(obs: np.ndarray, noise: np.ndarray) -> np.ndarray:
        np.subtract(obs, shift, out=x0, casting="same_kind")
        np.multiply(x0, factor, out=x0)
        np.minimum(x0, top, out=x0)
        np.maximum(x0, bottom, out=x0)
        x = x0_rows
        for w, b, out, out_rows in hidden:
            product(x, w, out=out_rows)
            np.add(out, b, out=out)
            np.tanh(out, out=out)
            x = out_rows
        product(x, last_w, out=last_rows)
        np.add(last, last_b, out=last)
        action: np.ndarray = (last + noise).argmax(-1) if discrete else last + std * noise
        return action

    return act


def _rows(rows: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Memory for ``rows`` vectors, and the same memory as the product wants it: a vector, or a stack of single rows."""
    memory = np.empty((rows, size), np.float32)
    return memory, memory[0] if rows == 1 else memory[:, None]


def noise_for(rng: np.random.Generator, steps: int, size: int, discrete: bool) -> np.ndarray:
    """The noise of ``steps`` actions.  [steps, size]"""
    if discrete:
        return rng.gumbel(size=(steps, size)).astype(np.float32)
    return rng.standard_normal((steps, size), dtype=np.float32)
