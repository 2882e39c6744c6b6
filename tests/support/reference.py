"""The papers' sums, written as plainly as possible: NumPy, float64, loops."""

import numpy as np


def discounted_traces(delta: np.ndarray, ended: np.ndarray, decay: float, h: np.ndarray) -> np.ndarray:
    """A_t = sum_{j >= t} decay^{j-t} (prod_{i=t+1..j} h_i) delta_j, the sum ending with the episode.  [T]"""
    out = np.zeros(len(delta))
    for t in range(len(delta)):
        for j in range(t, len(delta)):
            out[t] += decay ** (j - t) * np.prod(h[t + 1 : j + 1]) * delta[j]
            if ended[j]:
                break
    return out


def td_errors(reward, value, next_value, terminated, gamma):
    return np.array(
        [
            r + (0.0 if d else gamma * v1) - v0
            for r, v0, v1, d in zip(reward, value, next_value, terminated, strict=True)
        ]
    )


def vtrace(reward, value, next_value, terminated, ended, ratio, gamma, lam):
    """Advantages and critic targets of one trajectory of batches.  [T, E]"""
    adv = np.zeros(reward.shape)
    ret = np.zeros(reward.shape)
    for e in range(reward.shape[1]):
        h = np.minimum(1.0, ratio[:, e])
        delta = td_errors(reward[:, e], value[:, e], next_value[:, e], terminated[:, e], gamma)
        adv[:, e] = discounted_traces(delta, ended[:, e], gamma * lam, h)
        ret[:, e] = value[:, e] + h * adv[:, e]
    return adv, ret


def random_batch(seed: int, steps: int, envs: int) -> dict[str, np.ndarray]:
    """Random numbers and random endings: deaths, time limits, batches that are cut, episodes of one step."""
    rng = np.random.default_rng(seed)
    rate = rng.choice([0.0, 0.1, 0.5, 1.0])
    ended = rng.random((steps, envs)) < rate
    return {
        "reward": rng.normal(size=(steps, envs)),
        "value": rng.normal(size=(steps, envs)),
        "next_value": rng.normal(size=(steps, envs)),
        "terminated": ended & (rng.random((steps, envs)) < 0.5),
        "ended": ended,
    }
