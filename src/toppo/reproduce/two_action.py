"""The paper's example of V-trace's bias (section 4.2): two actions, mu = (phi, 1 - phi), pi = (1 - phi, phi)."""

from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes

from toppo.plotting import COLOURS, add_legend, set_labels, set_title


class Values(NamedTuple):
    """Values of the one state, "left" paying 1 per step and "right" nothing, in units of 1 / (1 - gamma)."""

    pi: np.ndarray
    mu: np.ndarray
    vtrace: np.ndarray


def vtrace_fixed_point(
    pi: np.ndarray, mu: np.ndarray, reward: np.ndarray, gamma: float, rho_bar: float = 1.0
) -> np.ndarray:
    """Return the value that the expected V-trace update does not change, in an MDP of one state.  [..., A] -> [...]

    There the first term of the update, E_mu[rho (r + gamma V - V)], is zero, and so are all that follow.
    """
    rho = np.minimum(rho_bar, pi / mu)
    return np.asarray((mu * rho * reward).sum(-1) / ((1 - gamma) * (mu * rho).sum(-1)))


def two_action_values(phi: np.ndarray, gamma: float = 0.995) -> Values:
    """Return the three values for every phi.  [P] -> [P] each"""
    mu = np.stack([phi, 1 - phi], -1)
    pi = np.stack([1 - phi, phi], -1)
    reward = np.array([1.0, 0.0])
    fixed = vtrace_fixed_point(pi, mu, reward, gamma) * (1 - gamma)
    return Values((pi * reward).sum(-1), (mu * reward).sum(-1), fixed)


def draw_two_action(axis: Axes) -> None:
    """Draw the values of pi, of mu and of V-trace's fixed point against phi."""
    phi = np.linspace(0.001, 0.5, 200)
    values = two_action_values(phi)
    axis.plot(phi, values.pi, color="#333333", label="V of pi")
    axis.plot(phi, values.mu, color="#999999", label="V of mu")
    axis.plot(phi, values.vtrace, color=COLOURS["geppo"], label="V-trace's fixed point")
    set_title(axis, "two actions, mu = (φ, 1-φ), pi = (1-φ, φ)", fontsize=9)
    set_labels(axis, "φ", "value (1 - γ)")
    add_legend(axis)
