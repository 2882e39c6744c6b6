"""The statements of the paper on three policies mu, pi_k, pi: one function each, which returns both sides.

In the docstrings r is pi/mu, gain is eta(pi) - eta(pi_k), eps is max |A^mu| (Lemma 2.1: max |A^{pi_k}|), and C is
4 gamma/(1-gamma)^2.  The distances are delta^{mu,pi} = ``mean_tv`` and delta_max^{p,q} = ``max_tv``.
"""

import numpy as np

from toppo.theory.mdp import Array, Case, expectation, max_abs, max_tv, mean_kl, mean_tv, surrogate, tv
from toppo.theory.statement import Sides, at_most, identity, lower_bound, statement


@statement(
    "performance-difference", "Performance difference", "eta(pi) - eta(pi_k) = E[A^pi_k] / (1-g)", kind="identity"
)
def performance_difference(case: Case) -> Sides:
    """Lemma A.1: eta(pi) - eta(pi_k) = 1/(1-gamma) E_{rho^pi, pi}[A^{pi_k}]"""
    right = expectation(case.pi.rho, expectation(case.pi.policy, case.pi_k.adv)) / (1.0 - case.mdp.gamma)
    return identity(case.pi.eta - case.pi_k.eta, right, max_abs(case.pi_k.v))


@statement("corollary-a1-v", "Corollary A.1 (V)", "the same from any state", kind="identity")
def corollary_a1_v(case: Case) -> Sides:
    """Corollary A.1: V^pi(s0) - V^{pi_k}(s0) = 1/(1-gamma) E_{rho^pi(.|s0), pi}[A^{pi_k}]  [B, S]"""
    gamma = case.mdp.gamma[:, None]
    visits = (1.0 - gamma[..., None]) * case.pi.resolvent
    right = np.einsum("bst,bt->bs", visits, expectation(case.pi.policy, case.pi_k.adv)) / (1.0 - gamma)
    return identity(case.pi.v - case.pi_k.v, right, max_abs(case.pi_k.v))


@statement("corollary-a1-q", "Corollary A.1 (Q)", "the same from any pair, visits from s'", kind="identity")
def corollary_a1_q(case: Case) -> Sides:
    """Corollary A.1: Q^pi - Q^{pi_k} = gamma/(1-gamma) E_{rho^pi(.|s'), pi}[A^{pi_k}], s' ~ P(.|s0,a0)  [B, S, A]"""
    gamma = case.mdp.gamma[:, None, None]
    visits = np.einsum("bsat,btu->bsau", case.mdp.transition, (1.0 - gamma) * case.pi.resolvent)
    gain = np.einsum("bsat,bt->bsa", visits, expectation(case.pi.policy, case.pi_k.adv))
    return identity(case.pi.q - case.pi_k.q, gamma / (1.0 - gamma) * gain, max_abs(case.pi_k.v))


@statement("lemma-a2", "Lemma A.2", "|rho^pi - rho^mu| <= g/(1-g) E|pi - mu|")
def lemma_a2(case: Case) -> Sides:
    """Lemma A.2: ||rho^pi - rho^mu||_1 <= gamma/(1-gamma) E_{rho^mu} ||pi - mu||_1"""
    gamma = case.mdp.gamma
    distance = 2.0 * mean_tv(case.mu, case.pi.policy)
    return at_most(np.abs(case.pi.rho - case.mu.rho).sum(-1), gamma / (1.0 - gamma) * distance)


@statement("lemma-a3", "Lemma A.3", "|E_pi A^mu| <= max|pi - mu| max|A^mu|")
def lemma_a3(case: Case) -> Sides:
    """Lemma A.3: max_s |E_{a~pi} A^mu(s, a)| <= max_s ||pi - mu||_1 max |A^mu|"""
    bound = 2.0 * max_tv(case.mu.policy, case.pi.policy) * max_abs(case.mu.adv)
    return at_most(max_abs(expectation(case.pi.policy, case.mu.adv)), bound)


@statement("jensen", "Pinsker chain, 1st step", "E TV <= sqrt(E TV^2)")
def jensen_step(case: Case) -> Sides:
    """E_{rho^mu} TV(mu, pi) <= sqrt(E_{rho^mu} TV(mu, pi)^2)"""
    return at_most(mean_tv(case.mu, case.pi.policy), root_mean_square_tv(case))


@statement("pinsker", "Pinsker chain, 2nd step", "sqrt(E TV^2) <= sqrt(E KL)")
def pinsker_step(case: Case) -> Sides:
    """sqrt(E_{rho^mu} TV(mu, pi)^2) <= sqrt(E_{rho^mu} KL(mu, pi))"""
    return at_most(root_mean_square_tv(case), np.sqrt(mean_kl(case.mu, case.pi.policy)))


@statement("pinsker-sharp", "Pinsker with its 1/2", "sqrt(E TV^2) <= sqrt(E KL / 2)", source="ours")
def pinsker_sharp(case: Case) -> Sides:
    """sqrt(E_{rho^mu} TV(mu, pi)^2) <= sqrt(E_{rho^mu} KL(mu, pi) / 2)"""
    return at_most(root_mean_square_tv(case), np.sqrt(mean_kl(case.mu, case.pi.policy) / 2.0))


@statement("lemma-2-1", "Lemma 2.1", "lower bound with A^pi_k")
def lemma_2_1(case: Case) -> Sides:
    """Lemma 2.1: gain >= E_{rho^mu}[r A^{pi_k}]/(1-gamma) - C eps delta_max^{pi_k,pi} delta^{mu,pi}"""
    distances = max_tv(case.pi_k.policy, case.pi.policy) * mean_tv(case.mu, case.pi.policy)
    gain = surrogate(case.mu, case.pi.policy, case.pi_k.adv) / (1.0 - case.mdp.gamma)
    penalty = second_order_coefficient(case) * max_abs(case.pi_k.adv) * distances
    return lower_bound(case.pi.eta - case.pi_k.eta, gain, penalty)


@statement("lemma-3-1", "Lemma 3.1", "linear term 2(1+g)eps/(1-g)^2")
def lemma_3_1(case: Case) -> Sides:
    """Lemma 3.1: gain >= L_mu(pi) - 2(1+gamma)/(1-gamma)^2 eps delta_max^{mu,pi_k} - C eps (delta_max delta)^{mu,pi}"""
    gamma = case.mdp.gamma
    return with_linear_term(case, 2.0 * (1.0 + gamma) / (1.0 - gamma) ** 2, max_tv(case.mu.policy, case.pi_k.policy))


@statement("lemma-3-1-linear", "Lemma 3.1 at pi = mu", "its linear term alone")
def lemma_3_1_linear(case: Case) -> Sides:
    """Lemma 3.1 at pi = mu, where its linear term is all that is left."""
    return lemma_3_1.sides(case._replace(pi=case.mu))


@statement("merged", "Merged form, any g", "linear term 4g eps/(1-g)^2")
def merged_form(case: Case) -> Sides:
    """The "Derivation" paragraph: gain >= L_mu(pi) - C eps [delta_max^{mu,pi_k} + (delta_max delta)^{mu,pi}]"""
    return with_linear_term(case, second_order_coefficient(case), max_tv(case.mu.policy, case.pi_k.policy))


@statement("lemma-4-1-triangle", "Lemma 4.1, triangle step", "E TV(mu,pi) <= sum of steps")
def lemma_4_1_triangle(case: Case) -> Sides:
    """Lemma 4.1, first step: E_{rho^mu} TV(mu, pi) <= E_{rho^mu} TV(pi_k, pi) + E_{rho^mu} TV(mu, pi_k)"""
    steps = tv(case.pi_k.policy, case.pi.policy) + tv(case.mu.policy, case.pi_k.policy)
    return at_most(mean_tv(case.mu, case.pi.policy), expectation(case.mu.rho, steps))


def with_linear_term(case: Case, coefficient: Array, distance: Array) -> Sides:
    """gain >= L_mu(pi) - coefficient eps distance - C eps (delta_max delta)^{mu,pi}"""
    penalty = coefficient * max_abs(case.mu.adv) * distance + second_order_penalty(case, case.pi.policy)
    return lower_bound(case.pi.eta - case.pi_k.eta, surrogate_gain(case, case.pi.policy), penalty)


def surrogate_gain(case: Case, policy: Array) -> Array:
    """L_mu(pi) = 1/(1-gamma) E_{rho^mu}[(pi/mu) A^mu]  [B]"""
    return surrogate(case.mu, policy, case.mu.adv) / (1.0 - case.mdp.gamma)


def second_order_penalty(case: Case, policy: Array) -> Array:
    """C eps delta_max^{mu,pi} delta^{mu,pi}, with eps = max |A^mu|  [B]"""
    distances = max_tv(case.mu.policy, policy) * mean_tv(case.mu, policy)
    return second_order_coefficient(case) * max_abs(case.mu.adv) * distances


def second_order_coefficient(case: Case) -> Array:
    """C = 4 gamma / (1-gamma)^2  [B]"""
    return np.asarray(4.0 * case.mdp.gamma / (1.0 - case.mdp.gamma) ** 2)


def root_mean_square_tv(case: Case) -> Array:
    """sqrt(E_{s~rho^mu} TV(mu, pi)(s)^2)  [B]"""
    return np.sqrt(expectation(case.mu.rho, tv(case.mu.policy, case.pi.policy) ** 2))
