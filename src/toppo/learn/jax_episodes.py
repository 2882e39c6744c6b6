"""Environments written in JAX between two batches, and the account of their episodes."""

from typing import Any, NamedTuple

import numpy as np

from toppo.maths.moments import Summary

Array = Any  # of NumPy or JAX


class Worlds(NamedTuple):
    """Environments between two steps: all that defines how they go on.  Each array is [E, ...]."""

    index: Array  # the number of the environment
    leaves: tuple[Array, ...]  # of the environment's own state
    row: Array  # the last observation
    started: Array  # episodes begun so far
    step: Array  # of the open episode
    due: Array  # for a reset


class EpisodeSums(NamedTuple):
    """Sums over the steps of every environment's open episode, [E] in double precision.

    With G_t = r_t + gamma r_{t+1} + ... up to now, and w_t = gamma^{now - t}:
    """

    length: np.ndarray
    total: np.ndarray  # of the rewards, not discounted
    w: np.ndarray  # sum of w_t
    w_squared: np.ndarray  # sum of w_t^2
    w_returns: np.ndarray  # sum of w_t G_t
    returns: np.ndarray  # sum of G_t
    squares: np.ndarray  # sum of G_t^2


class JaxEpisodes(NamedTuple):
    """What the compiled collector goes on from."""

    worlds: Worlds
    sums: EpisodeSums


class FinishedEpisodes(NamedTuple):
    """The episodes that ended in a batch, in the order of their last steps.  Each [F]"""

    t: np.ndarray  # row of its last step
    env: np.ndarray
    length: np.ndarray
    total: np.ndarray


def no_sums(n_envs: int) -> EpisodeSums:
    """Return the sums before the first step."""
    return EpisodeSums(*(np.zeros(n_envs) for _ in EpisodeSums._fields))


def advance_sums(
    sums: EpisodeSums, reward: np.ndarray, learnt: np.ndarray, ended: np.ndarray, gamma: float
) -> tuple[EpisodeSums, FinishedEpisodes, EpisodeSums]:
    """Return the sums of the open episodes after a batch, the finished episodes, and the sums at their ends [F].

    ``learnt``: the rewards that returns are made of.  All [T, E].
    """
    ends = []
    found = []
    now = np.array(sums)  # [7, E]; the names below are its rows, which change in place
    length, total, w, w_squared, w_returns, returns, squares = now
    for t, (r, x, over) in enumerate(zip(reward, learnt, ended, strict=True)):
        length += 1
        total += r
        w *= gamma
        w += 1
        w_squared *= gamma * gamma
        w_squared += 1
        # A new reward adds w_t r to every G_t of the episode.
        w_returns *= gamma
        added = x * w_squared
        returns += x * w
        squares += x * (2 * w_returns + added)
        w_returns += added
        if over.any():
            envs = np.flatnonzero(over)
            found.append((np.full(len(envs), t), envs))
            ends.append(now[:, envs])
            now[:, envs] = 0
    at_end = EpisodeSums(*np.concatenate([np.zeros((len(sums), 0)), *ends], axis=1))
    t, env = np.concatenate([np.zeros((2, 0), int), *map(np.array, found)], axis=1)
    return (
        EpisodeSums(*now),
        FinishedEpisodes(t=t, env=env, length=at_end.length.astype(int), total=at_end.total),
        at_end,
    )


def returns_summary(sums: EpisodeSums) -> Summary:
    """Sum up the returns from every step of these episodes on."""
    n = float(sums.length.sum())
    mean = sums.returns.sum() / max(1.0, n)
    return Summary(n, mean, np.maximum(0.0, sums.squares.sum() - n * mean * mean))


def rows_summary(mean: np.ndarray, squares: np.ndarray, steps: int) -> Summary:
    """Sum up observations of which every environment knows the mean and the squared distances.  [E, O]"""
    centre = mean.mean(0)
    return Summary(float(steps * len(mean)), centre, squares.sum(0) + steps * np.square(mean - centre).sum(0))
