"""The paper's example of V-trace's bias (section 4.2): two actions, mu = (phi, 1 - phi), pi = (1 - phi, phi)."""

from typing import NamedTuple

import numpy as np


class Values(NamedTuple):
    """Values of the one state, "left" paying 1 per step and "right" nothing, in units of 1 / (1 - gamma)."""

    pi: np.ndarray
    mu: np.ndarray
    vtrace: np.ndarray


def vtrace_policy(pi: np.ndarray, mu: np.ndarray, rho_bar: float = 1.0) -> np.ndarray:
    """pi_rhobar(a) = min(rho_bar mu(a), pi(a)) / sum_b min(rho_bar mu(b), pi(b)).  [..., A] -> [..., A]"""
    truncated: np.ndarray = np.minimum(rho_bar * mu, pi)
    return np.asarray(truncated / truncated.sum(-1, keepdims=True))


def vtrace_fixed_point(
    pi: np.ndarray, mu: np.ndarray, reward: np.ndarray, gamma: float, rho_bar: float = 1.0
) -> np.ndarray:
    """The value at which the expected V-trace update stands still, in a process of one state.  [..., A] -> [...]

    The first term of the update, E_mu[rho (r + gamma V - V)], is zero there, and with it all that follow.
    """
    rho = np.minimum(rho_bar, pi / mu)
    return np.asarray((mu * rho * reward).sum(-1) / ((1 - gamma) * (mu * rho).sum(-1)))


def two_action_values(phi: np.ndarray, gamma: float = 0.995) -> Values:
    """The three values for every phi."""
    mu, pi = np.stack([phi, 1 - phi], -1), np.stack([1 - phi, phi], -1)
    reward = np.array([1.0, 0.0])
    fixed = vtrace_fixed_point(pi, mu, reward, gamma) * (1 - gamma)
    return Values((pi * reward).sum(-1), (mu * reward).sum(-1), fixed)
