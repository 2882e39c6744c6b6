"""The statements of the paper on three policies mu, pi_k, pi: one function each, returning both sides."""

import numpy as np

from toppo.theory.mdp import Array, Case, Solved, kl, largest, solve, surrogate, tv, under, visitation_from
from toppo.theory.statement import Sides, at_most, identity, lower_bound


def performance_difference(case: Case) -> Sides:
    """eta(pi) - eta(pi_k) = 1/(1-gamma) E_{rho^pi, pi}[A^{pi_k}]"""
    right = under(case.pi.rho, under(case.pi.policy, case.pi_k.adv)) / (1.0 - case.mdp.gamma)
    return identity(case.pi.eta - case.pi_k.eta, right, largest(case.pi_k.v))


def corollary_a1_v(case: Case) -> Sides:
    """V^pi(s0) - V^{pi_k}(s0) = 1/(1-gamma) E_{rho^pi(.|s0), pi}[A^{pi_k}]  [B, S]"""
    visits = visitation_from(case.mdp, case.pi)
    gain = under(case.pi.policy, case.pi_k.adv)
    right = np.einsum("bst,bt->bs", visits, gain) / (1.0 - case.mdp.gamma)[:, None]
    return identity(case.pi.v - case.pi_k.v, right, largest(case.pi_k.v))


def corollary_a1_q(case: Case) -> Sides:
    """Q^pi - Q^{pi_k} = gamma/(1-gamma) E_{rho^pi(.|s0,a0), pi}[A^{pi_k}], visits from s' ~ P(.|s0,a0)  [B, S, A]"""
    gamma = case.mdp.gamma[:, None, None]
    visits = np.einsum("bsat,btu->bsau", case.mdp.transition, visitation_from(case.mdp, case.pi))
    gain = under(case.pi.policy, case.pi_k.adv)
    right = gamma / (1.0 - gamma) * np.einsum("bsat,bt->bsa", visits, gain)
    return identity(case.pi.q - case.pi_k.q, right, largest(case.pi_k.v))


def lemma_a2(case: Case) -> Sides:
    """||rho^pi - rho^mu||_1 <= gamma/(1-gamma) E_{rho^mu} ||pi - mu||_1"""
    gamma = case.mdp.gamma
    distance = 2.0 * mean_tv(case.mu, case.pi.policy)
    return at_most(np.abs(case.pi.rho - case.mu.rho).sum(-1), gamma / (1.0 - gamma) * distance)


def lemma_a3(case: Case) -> Sides:
    """max_s |E_{a~pi} A^mu(s, a)| <= max_s ||pi - mu||_1 max |A^mu|"""
    bound = 2.0 * max_tv(case.mu.policy, case.pi.policy) * largest(case.mu.adv)
    return at_most(largest(under(case.pi.policy, case.mu.adv)), bound)


def jensen_step(case: Case) -> Sides:
    """E_{rho^mu} TV(mu, pi) <= sqrt(E_{rho^mu} TV(mu, pi)^2)"""
    return at_most(mean_tv(case.mu, case.pi.policy), root_mean_square_tv(case))


def pinsker_step(case: Case) -> Sides:
    """sqrt(E_{rho^mu} TV^2) <= sqrt(E_{rho^mu} KL(mu, pi))"""
    return at_most(root_mean_square_tv(case), np.sqrt(mean_kl(case.mu, case.pi.policy)))


def pinsker_sharp(case: Case) -> Sides:
    """sqrt(E_{rho^mu} TV^2) <= sqrt(E_{rho^mu} KL(mu, pi) / 2)"""
    return at_most(root_mean_square_tv(case), np.sqrt(mean_kl(case.mu, case.pi.policy) / 2.0))


def lemma_2_1(case: Case) -> Sides:
    """eta(pi) - eta(pi_k) >= E_{rho^mu}[(pi/mu) A^{pi_k}]/(1-gamma) - C eps delta_max^{pi_k,pi} delta^{mu,pi}"""
    distances = max_tv(case.pi_k.policy, case.pi.policy) * mean_tv(case.mu, case.pi.policy)
    first = surrogate(case.mu, case.pi.policy, case.pi_k.adv) / (1.0 - case.mdp.gamma)
    return lower_bound(case.pi.eta - case.pi_k.eta, first, quadratic(case) * largest(case.pi_k.adv) * distances)


def lemma_3_1(case: Case) -> Sides:
    """eta(pi) - eta(pi_k) >= L_mu(pi) - 2(1+gamma) eps/(1-gamma)^2 delta_max^{mu,pi_k} - second_order(mu, pi)"""
    gamma = case.mdp.gamma
    return with_linear_term(case, 2.0 * (1.0 + gamma) / (1.0 - gamma) ** 2)


def lemma_3_1_linear(case: Case) -> Sides:
    """Lemma 3.1 at pi = mu, where only its linear term is left: how much of that term is ever needed."""
    return lemma_3_1(case._replace(pi=case.mu))


def merged_form(case: Case) -> Sides:
    """The "Derivation" paragraph: the linear term of Lemma 3.1 with the coefficient 4 gamma eps/(1-gamma)^2."""
    return with_linear_term(case, quadratic(case))


def lemma_4_1_triangle(case: Case) -> Sides:
    """E_{rho^mu} TV(mu, pi) <= E_{rho^mu} TV(pi_k, pi) + E_{rho^mu} TV(mu, pi_k)"""
    steps = tv(case.pi_k.policy, case.pi.policy) + tv(case.mu.policy, case.pi_k.policy)
    return at_most(mean_tv(case.mu, case.pi.policy), under(case.mu.rho, steps))


def surrogate_gain(case: Case, policy: Array) -> Array:
    """L_mu(pi) = 1/(1-gamma) E_{rho^mu}[(pi/mu) A^mu]  [B]"""
    return surrogate(case.mu, policy, case.mu.adv) / (1.0 - case.mdp.gamma)


def with_linear_term(case: Case, coefficient: Array) -> Sides:
    """eta(pi) - eta(pi_k) >= L_mu(pi) - coefficient eps delta_max^{mu,pi_k} - C eps (delta_max delta)^{mu,pi}"""
    eps = largest(case.mu.adv)
    penalty = coefficient * eps * max_tv(case.mu.policy, case.pi_k.policy) + second_order(case, case.pi.policy)
    return lower_bound(case.pi.eta - case.pi_k.eta, surrogate_gain(case, case.pi.policy), penalty)


def second_order(case: Case, policy: Array) -> Array:
    """4 gamma eps/(1-gamma)^2 delta_max^{mu,pi} delta^{mu,pi}, with eps = max |A^mu|  [B]"""
    distances = max_tv(case.mu.policy, policy) * mean_tv(case.mu, policy)
    return quadratic(case) * largest(case.mu.adv) * distances


def quadratic(case: Case) -> Array:
    """C = 4 gamma / (1-gamma)^2  [B]"""
    return np.asarray(4.0 * case.mdp.gamma / (1.0 - case.mdp.gamma) ** 2)


def max_tv(p: Array, q: Array) -> Array:
    """delta_max^{p,q} = max_s TV(p, q)(s)  [B]"""
    return np.asarray(tv(p, q).max(-1))


def mean_tv(mu: Solved, policy: Array) -> Array:
    """delta^{mu,pi} = E_{s~rho^mu} TV(mu, pi)(s)  [B]"""
    return under(mu.rho, tv(mu.policy, policy))


def mean_kl(mu: Solved, policy: Array) -> Array:
    """E_{s~rho^mu} KL(mu, pi)(s): what the filter of ToPPO compares with alpha  [B]"""
    return under(mu.rho, kl(mu.policy, policy))


def root_mean_square_tv(case: Case) -> Array:
    """sqrt(E_{s~rho^mu} TV(mu, pi)(s)^2)  [B]"""
    return np.sqrt(under(case.mu.rho, tv(case.mu.policy, case.pi.policy) ** 2))


def towards_greedy(case: Case) -> tuple[Array, Array]:
    """The best mixture of pi_k with its greedy policy, and its F_{pi_k}, a parabola on that line.  [B, S, A], [B]"""
    own = case._replace(mu=case.pi_k)
    greedy = np.eye(case.pi_k.adv.shape[-1])[case.pi_k.adv.argmax(-1)]
    gain, penalty = surrogate_gain(own, greedy), second_order(own, greedy)
    step = np.minimum(1.0, gain / np.maximum(2.0 * penalty, 1e-300))
    policy = case.pi_k.policy + step[:, None, None] * (greedy - case.pi_k.policy)
    return policy, step * gain - step**2 * penalty


def certificate(case: Case) -> Array:
    """The right-hand side of Lemma 3.1: where it is positive, pi is certified better than pi_k.  [B]"""
    return lemma_3_1(case).smaller


def with_mu(case: Case, mu: Array) -> Case:
    """The same process with other data."""
    return case._replace(mu=solve(case.mdp, mu))


def with_pi(case: Case, pi: Array) -> Case:
    """The same process with another candidate."""
    return case._replace(pi=solve(case.mdp, pi))
