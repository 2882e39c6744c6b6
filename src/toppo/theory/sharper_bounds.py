"""What is true beyond the paper: sharper bounds, and Theorem 3.1 with its radius written down."""

from typing import NamedTuple

import numpy as np

from toppo.theory.lemmas import (
    certificate,
    max_tv,
    mean_tv,
    second_order,
    surrogate_gain,
    towards_greedy,
    with_linear_term,
    with_mu,
    with_pi,
)
from toppo.theory.mdp import Array, Case, largest, tv, under
from toppo.theory.statement import Sides, lower_bound

INSIDE = 0.999


def strengthened(case: Case) -> Sides:
    """eta(pi) - eta(pi_k) >= L_mu(pi) - 2 eps/(1-gamma) delta_max^{mu,pi_k} - C eps (delta_max delta)^{mu,pi}"""
    return with_linear_term(case, 2.0 / (1.0 - case.mdp.gamma))


def averaged(case: Case) -> Sides:
    """As ``strengthened`` with E_{rho^{pi_k}} TV(mu, pi_k), a mean over the newest batch, in place of the maximum."""
    distance = under(case.pi_k.rho, tv(case.mu.policy, case.pi_k.policy))
    linear_term = 2.0 * largest(case.mu.adv) / (1.0 - case.mdp.gamma) * distance
    gain = case.pi.eta - case.pi_k.eta
    return lower_bound(gain, surrogate_gain(case, case.pi.policy), linear_term + second_order(case, case.pi.policy))


def second_order_bound(case: Case) -> Sides:
    """eta(pi) - eta(pi_k) >= L_mu(pi) - L_mu(pi_k) - C eps [(delta_max delta)^{mu,pi} + (delta_max delta)^{mu,pi_k}]"""
    first = surrogate_gain(case, case.pi.policy) - surrogate_gain(case, case.pi_k.policy)
    penalty = second_order(case, case.pi.policy) + second_order(case, case.pi_k.policy)
    return lower_bound(case.pi.eta - case.pi_k.eta, first, penalty)


class Step(NamedTuple):
    """What the floor needs to know of the step from pi_k to pi: L_{pi_k}(pi), max |A^{pi_k}|, delta_max, delta.  [B]"""

    gamma: Array
    gain: Array
    eps: Array
    furthest: Array
    mean: Array


def certificate_floor(case: Case) -> Sides:
    """Certificate of Lemma 3.1 >= G(d), d = delta_max^{mu,pi_k}, where G(0) = F_{pi_k}(pi) is TRPO's own bound."""
    d = max_tv(case.mu.policy, case.pi_k.policy)
    step = step_of(case)
    floor = floor_at(step, d)
    return Sides(floor, certificate(case), floor_at(step, np.zeros_like(d)) - floor)


def theorem_3_1(case: Case) -> Sides:
    """0 <= certificate for every mu with delta_max^{mu,pi_k} <= alpha, alpha the root of G; pi = towards_greedy."""
    pi, gain = towards_greedy(case)
    case = with_pi(case, pi)
    d = max_tv(case.mu.policy, case.pi_k.policy)
    shrink = np.minimum(1.0, INSIDE * explicit_radius(step_of(case)) / np.maximum(d, 1e-300))
    mu = case.pi_k.policy + shrink[:, None, None] * (case.mu.policy - case.pi_k.policy)
    return Sides(np.zeros_like(gain), certificate(with_mu(case, mu)), gain)


def step_of(case: Case) -> Step:
    """Measure the step from pi_k to pi."""
    gain = surrogate_gain(case._replace(mu=case.pi_k), case.pi.policy)
    furthest, mean = max_tv(case.pi_k.policy, case.pi.policy), mean_tv(case.pi_k, case.pi.policy)
    return Step(case.mdp.gamma, gain, largest(case.pi_k.adv), furthest, mean)


def floor_at(step: Step, d: Array) -> Array:
    """G(d) of docs/theory.md: no mu within d of pi_k has a smaller certificate.  [B]"""
    gamma = step.gamma
    drift = 2.0 * (1.0 + gamma) / (1.0 - gamma) * d
    visits = gamma / (1.0 - gamma) * d
    surrogate_loss = step.eps * (drift + 4.0 * visits * step.furthest) / (1.0 - gamma)
    linear_term = step.eps * drift * (1.0 + drift) / (1.0 - gamma)
    distances = (step.furthest + d) * (step.mean + d + visits * step.furthest)
    square_term = 4.0 * gamma / (1.0 - gamma) ** 2 * step.eps * (1.0 + drift) * distances
    return np.asarray(step.gain - surrogate_loss - linear_term - square_term)


def explicit_radius(step: Step) -> Array:
    """alpha: the largest d with G(d) >= 0, by bisection (G decreases in d); 0 where F_{pi_k}(pi) <= 0.  [B]"""
    low, high = np.zeros_like(step.gamma), np.ones_like(step.gamma)
    for _ in range(60):
        middle = 0.5 * (low + high)
        positive = floor_at(step, middle) >= 0.0
        low, high = np.where(positive, middle, low), np.where(positive, high, middle)
    return low
