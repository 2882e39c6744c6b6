"""What is true beyond the paper: sharper bounds, and Theorem 3.1 with an explicit radius; letters as in ``lemmas``."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from toppo.theory.lemmas import lemma_3_1, merged_form, second_order_penalty, surrogate_gain, with_linear_term
from toppo.theory.mdp import Array, Case, expectation, max_abs, max_tv, mean_tv, solve, tv, with_mu_towards
from toppo.theory.statement import Sides, lower_bound, statement

INSIDE = 0.999

merged_form_from_a_third = merged_form._replace(
    key="merged-from-a-third",
    title="Merged form, g >= 1/3",
    source="ours",
    discounts=(1.0 / 3.0, 0.5, 0.8, 0.9, 0.95, 0.99),
)


@statement("strengthened", "Strengthened linear", "linear term 2 eps/(1-g)", source="ours")
def strengthened(case: Case) -> Sides:
    """gain >= L_mu(pi) - 2/(1-gamma) eps delta_max^{mu,pi_k} - C eps (delta_max delta)^{mu,pi}"""
    return with_linear_term(case, 2.0 / (1.0 - case.mdp.gamma), max_tv(case.mu.policy, case.pi_k.policy))


@statement("averaged", "Averaged linear", "a mean over rho^pi_k, not a max", source="ours")
def averaged(case: Case) -> Sides:
    """``strengthened`` with E_{rho^{pi_k}} TV(mu, pi_k), a mean over the newest batch, instead of the maximum."""
    distance = expectation(case.pi_k.rho, tv(case.mu.policy, case.pi_k.policy))
    return with_linear_term(case, 2.0 / (1.0 - case.mdp.gamma), distance)


@statement("second-order", "Second-order bound", "L_mu(pi) - L_mu(pi_k), no linear term", source="ours")
def second_order_bound(case: Case) -> Sides:
    """gain >= L_mu(pi) - L_mu(pi_k) - C eps [(delta_max delta)^{mu,pi} + (delta_max delta)^{mu,pi_k}]"""
    gain = surrogate_gain(case, case.pi.policy) - surrogate_gain(case, case.pi_k.policy)
    penalty = second_order_penalty(case, case.pi.policy) + second_order_penalty(case, case.pi_k.policy)
    return lower_bound(case.pi.eta - case.pi_k.eta, gain, penalty)


@statement("certificate-floor", "Floor of the certificate", "certificate >= G(d)", source="ours")
def certificate_floor(case: Case) -> Sides:
    """Certificate of Lemma 3.1 >= G(d), d = delta_max^{mu,pi_k}; G(0) = F_{pi_k}(pi) is the bound of TRPO."""
    d = max_tv(case.mu.policy, case.pi_k.policy)
    floor = floor_of(case)
    return Sides(floor(d), lemma_3_1.sides(case).smaller, floor(np.zeros_like(d)) - floor(d))


@statement("theorem-3-1", "Theorem 3.1, alpha explicit", "certificate >= 0 for d(mu, pi_k) <= alpha", source="ours")
def theorem_3_1(case: Case) -> Sides:
    """Theorem 3.1: 0 <= certificate for every mu with delta_max^{mu,pi_k} <= alpha, the root of G."""
    pi, gain = best_step_to_greedy(case)
    case = case._replace(pi=solve(case.mdp, pi))
    d = max_tv(case.mu.policy, case.pi_k.policy)
    shrink = np.minimum(1.0, INSIDE * explicit_radius(case) / np.maximum(d, 1e-300))
    near = with_mu_towards(case, case.mu.policy, shrink)
    return Sides(np.zeros_like(gain), lemma_3_1.sides(near).smaller, gain)


def best_step_to_greedy(case: Case) -> tuple[Array, Array]:
    """The best mixture of pi_k with its greedy policy, and its F_{pi_k}, a parabola on that line.  [B, S, A], [B]"""
    own = case._replace(mu=case.pi_k)
    greedy = np.eye(case.pi_k.adv.shape[-1])[case.pi_k.adv.argmax(-1)]
    gain = surrogate_gain(own, greedy)
    penalty = second_order_penalty(own, greedy)
    step = np.minimum(1.0, gain / np.maximum(2.0 * penalty, 1e-300))
    policy = case.pi_k.policy + step[:, None, None] * (greedy - case.pi_k.policy)
    return policy, step * gain - step**2 * penalty


def floor_of(case: Case) -> Callable[[Array], Array]:
    """Return G of docs/theory.md: no mu within d of pi_k has a smaller certificate than G(d).  [B] -> [B]"""
    gamma = case.mdp.gamma
    gain = surrogate_gain(case._replace(mu=case.pi_k), case.pi.policy)
    eps = max_abs(case.pi_k.adv)
    max_step = max_tv(case.pi_k.policy, case.pi.policy)
    mean_step = mean_tv(case.pi_k, case.pi.policy)

    def floor(d: Array) -> Array:
        kappa_d = 2.0 * (1.0 + gamma) / (1.0 - gamma) * d
        nu_d = gamma / (1.0 - gamma) * d
        surrogate_loss = eps * (kappa_d + 4.0 * nu_d * max_step) / (1.0 - gamma)
        linear_term = eps * kappa_d * (1.0 + kappa_d) / (1.0 - gamma)
        distances = (max_step + d) * (mean_step + d + nu_d * max_step)
        second_order_term = 4.0 * gamma / (1.0 - gamma) ** 2 * eps * (1.0 + kappa_d) * distances
        return np.asarray(gain - surrogate_loss - linear_term - second_order_term)

    return floor


def explicit_radius(case: Case) -> Array:
    """alpha: the largest d with G(d) >= 0 (G decreases in d); 0 where F_{pi_k}(pi) <= 0.  [B]"""
    floor = floor_of(case)
    return bisect(lambda d: floor(d) >= 0.0, len(case.mdp.gamma), halvings=60)


def bisect(within: Callable[[Array], NDArray[np.bool_]], count: int, halvings: int) -> Array:
    """Find the largest numbers in [0, 1] that are still ``within``.  [count]"""
    low = np.zeros(count)
    high = np.ones(count)
    for _ in range(halvings):
        middle = 0.5 * (low + high)
        inside = within(middle)
        low = np.where(inside, middle, low)
        high = np.where(inside, high, middle)
    return low
