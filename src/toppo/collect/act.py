"""The NumPy twin of the policy network: one observation in, one action out, in microseconds."""

from collections.abc import Callable, Sequence

import numpy as np

Actor = Callable[[np.ndarray, np.ndarray], np.ndarray]


def mlp_actor(shift: np.ndarray, factor: np.ndarray, weights: Sequence[np.ndarray]) -> Actor:
    """(observation, noise) -> action, for weights in the order of ``nets.acting_weights``.

    Gaussian policies return mean + std * noise with standard normal noise; logits return
    argmax(logits + noise) with Gumbel noise.  Zero noise gives the most likely action.
    """
    std, layers = weights[0], weights[1:]
    hidden = [(w, b, np.empty(len(b), np.float32)) for w, b in zip(layers[:-2:2], layers[1:-2:2], strict=True)]
    last_w, last_b = layers[-2:]
    x0 = np.empty(len(shift), np.float32)
    discrete = len(std) == 0

    def act(obs: np.ndarray, noise: np.ndarray) -> np.ndarray:
        x = x0
        np.subtract(obs, shift, out=x, casting="same_kind")
        np.multiply(x, factor, out=x)
        np.minimum(x, 10.0, out=x)
        np.maximum(x, -10.0, out=x)
        for w, b, out in hidden:
            np.dot(x, w, out=out)
            np.add(out, b, out=out)
            np.tanh(out, out=out)
            x = out
        out = np.dot(x, last_w)
        out += last_b
        if discrete:
            return np.asarray((out + noise).argmax())
        action: np.ndarray = out + std * noise
        return action

    return act


def noise_for(rng: np.random.Generator, steps: int, size: int, discrete: bool) -> np.ndarray:
    """The noise of ``steps`` actions.  [steps, size]"""
    if discrete:
        return rng.gumbel(size=(steps, size)).astype(np.float32)
    return rng.standard_normal((steps, size), dtype=np.float32)
