"""How close to pi_k the data must be for a certificate of improvement: Theorem 3.1's radius against the discount."""

from typing import NamedTuple

import numpy as np

from toppo.theory.lemmas import certificate, max_tv, mean_kl, mean_tv, towards_greedy, with_mu, with_pi
from toppo.theory.mdp import MDP, Array, Case, Instance, Solved, solve_case
from toppo.theory.random_mdps import random_mdps, random_policies
from toppo.theory.sharper_bounds import explicit_radius, second_order_bound, step_of, strengthened

DISCOUNTS = (0.5, 0.8, 0.9, 0.95, 0.99, 0.995)
DIRECTIONS = 4
SHAPE = (4, 3)
GRID = 10.0 ** np.linspace(-12.0, 0.0, 121)
ALPHA = 0.03


class Radii(NamedTuple):
    """Largest delta_max^{mu,pi_k} with a positive certificate, worst of the directions tried; one entry per process.

    ``explicit`` is the radius proved for every direction; ``certified_at_alpha`` the share of directions whose
    certificate is positive where the mean KL is alpha, ``tv_at_alpha`` the median mean TV there.
    """

    gamma: float
    paper: Array
    strengthened: Array
    second_order: Array
    explicit: Array
    certified_at_alpha: float
    tv_at_alpha: float


def study(rng: np.random.Generator, processes: int) -> list[Radii]:
    """Radii of ``processes`` random processes at each discount."""
    return [radii(rng, processes, gamma) for gamma in DISCOUNTS]


def radii(rng: np.random.Generator, processes: int, gamma: float) -> Radii:
    """Radii at one discount: pi_{k+1} is the best mixture of pi_k with greedy, mu leaves pi_k in random directions."""
    mdp = random_mdps(rng, processes, SHAPE, np.full(processes, gamma))
    pi_k = random_policies(rng, processes, *SHAPE)
    case = solve_case(Instance(mdp, pi_k, pi_k, pi_k))
    case = with_pi(case, towards_greedy(case)[0])
    spread = repeat(case, DIRECTIONS)
    target = random_policies(rng, processes * DIRECTIONS, *SHAPE)
    reach = max_tv(target, spread.pi_k.policy)
    alive = np.ones((3, len(reach)), bool)
    last = np.zeros((3, len(reach)))
    for weight in GRID:
        moved = with_mu(spread, mix(spread.pi_k.policy, target, np.full(len(reach), weight)))
        bounds = (certificate(moved), strengthened(moved).smaller, second_order_bound(moved).smaller)
        alive &= np.asarray(bounds) > 0.0
        last = np.where(alive, weight * reach, last)
        if not alive.any():
            break
    paper, sharper, second = last.reshape(3, processes, DIRECTIONS).min(-1)
    at_alpha = with_mu(spread, mix(spread.pi_k.policy, target, weight_at_alpha(spread, target)))
    certified = float((certificate(at_alpha) > 0.0).mean())
    distance = float(np.median(mean_tv(at_alpha.mu, at_alpha.pi_k.policy)))
    return Radii(gamma, paper, sharper, second, explicit_radius(step_of(case)), certified, distance)


def weight_at_alpha(case: Case, target: Array) -> Array:
    """The mixing weight at which E_{rho^mu} KL(mu, pi_k) reaches alpha; 1 where it never does.  [B]"""
    low, high = np.zeros(len(target)), np.ones(len(target))
    for _ in range(20):
        middle = 0.5 * (low + high)
        moved = with_mu(case, mix(case.pi_k.policy, target, middle))
        within = mean_kl(moved.mu, case.pi_k.policy) <= ALPHA
        low, high = np.where(within, middle, low), np.where(within, high, middle)
    return low


def mix(policy: Array, target: Array, weight: Array) -> Array:
    """(1 - weight) policy + weight target  [B, S, A]"""
    return policy + weight[:, None, None] * (target - policy)


def repeat(case: Case, times: int) -> Case:
    """Each process ``times`` times in a row."""

    def solved(policy: Solved) -> Solved:
        return Solved(*(np.repeat(part, times, 0) for part in policy))

    mdp = MDP(*(np.repeat(part, times, 0) for part in case.mdp))
    return Case(mdp, solved(case.mu), solved(case.pi_k), solved(case.pi))
