"""Every statement that is evaluated on finite processes, in the order of the paper."""

from toppo.theory import lemmas, ppo_theorem, sharper_bounds
from toppo.theory.statement import Statement

FROM_A_THIRD = (1.0 / 3.0, 0.5, 0.8, 0.9, 0.95, 0.99)
PAIR = ("pi_k", "pi")
DATA = ("mu", "pi")

STATEMENTS = (
    Statement(
        "performance-difference",
        "Performance difference",
        "eta(pi) - eta(pi_k) = E[A^pi_k] / (1-g)",
        "paper",
        "identity",
        lemmas.performance_difference,
        PAIR,
    ),
    Statement(
        "corollary-a1-v",
        "Corollary A.1 (V)",
        "the same from any state",
        "paper",
        "identity",
        lemmas.corollary_a1_v,
        PAIR,
    ),
    Statement(
        "corollary-a1-q",
        "Corollary A.1 (Q)",
        "the same from any pair, visits from s'",
        "paper",
        "identity",
        lemmas.corollary_a1_q,
        PAIR,
    ),
    Statement(
        "lemma-a2",
        "Lemma A.2",
        "|rho^pi - rho^mu| <= g/(1-g) E|pi - mu|",
        "paper",
        "bound",
        lemmas.lemma_a2,
        DATA,
    ),
    Statement(
        "lemma-a3", "Lemma A.3", "|E_pi A^mu| <= max|pi - mu| max|A^mu|", "paper", "bound", lemmas.lemma_a3, DATA
    ),
    Statement("jensen", "Pinsker chain, 1st step", "E TV <= sqrt(E TV^2)", "paper", "bound", lemmas.jensen_step, DATA),
    Statement(
        "pinsker", "Pinsker chain, 2nd step", "sqrt(E TV^2) <= sqrt(E KL)", "paper", "bound", lemmas.pinsker_step, DATA
    ),
    Statement(
        "pinsker-sharp",
        "Pinsker with its 1/2",
        "sqrt(E TV^2) <= sqrt(E KL / 2)",
        "ours",
        "bound",
        lemmas.pinsker_sharp,
        DATA,
    ),
    Statement("lemma-2-1", "Lemma 2.1", "lower bound with A^pi_k", "paper", "bound", lemmas.lemma_2_1),
    Statement("lemma-3-1", "Lemma 3.1", "linear term 2(1+g)eps/(1-g)^2", "paper", "bound", lemmas.lemma_3_1),
    Statement(
        "lemma-3-1-linear",
        "Lemma 3.1 at pi = mu",
        "its linear term alone",
        "paper",
        "bound",
        lemmas.lemma_3_1_linear,
        ("mu", "pi_k"),
    ),
    Statement("merged", "Merged form, any g", "linear term 4g eps/(1-g)^2", "paper", "bound", lemmas.merged_form),
    Statement(
        "merged-from-a-third",
        "Merged form, g >= 1/3",
        "linear term 4g eps/(1-g)^2",
        "ours",
        "bound",
        lemmas.merged_form,
        discounts=FROM_A_THIRD,
    ),
    Statement(
        "strengthened", "Strengthened linear", "linear term 2 eps/(1-g)", "ours", "bound", sharper_bounds.strengthened
    ),
    Statement("averaged", "Averaged linear", "its max a mean over rho^pi_k", "ours", "bound", sharper_bounds.averaged),
    Statement(
        "second-order",
        "Second-order bound",
        "L_mu(pi) - L_mu(pi_k), no linear term",
        "ours",
        "bound",
        sharper_bounds.second_order_bound,
    ),
    Statement(
        "theorem-3-1",
        "Theorem 3.1, alpha explicit",
        "certificate >= 0 for d(mu, pi_k) <= alpha",
        "ours",
        "bound",
        sharper_bounds.theorem_3_1,
        ("mu", "pi_k"),
    ),
    Statement(
        "certificate-floor", "Floor behind it", "certificate >= G(d)", "ours", "bound", sharper_bounds.certificate_floor
    ),
    Statement(
        "lemma-4-1-triangle",
        "Lemma 4.1, triangle step",
        "E TV(mu,pi) <= sum of steps",
        "paper",
        "bound",
        lemmas.lemma_4_1_triangle,
    ),
    Statement(
        "ppo-theorem",
        "PPO theorem, shared rows",
        "E V rises at the arg max of L_k",
        "paper",
        "bound",
        ppo_theorem.theorem_aliased,
        ("pi_k",),
    ),
    Statement(
        "ppo-theorem-sign",
        "PPO theorem, L_k >= 0 only",
        "E V rises if L_k >= 0",
        "paper",
        "bound",
        ppo_theorem.theorem_from_sign,
        PAIR,
    ),
    Statement(
        "ppo-theorem-tabular",
        "PPO theorem, tabular",
        "arg max over all policies, full support",
        "ours",
        "bound",
        ppo_theorem.theorem_tabular,
        ("pi_k",),
    ),
    Statement(
        "pointwise",
        "V everywhere, tabular",
        "rises in each state, full support",
        "paper",
        "bound",
        ppo_theorem.pointwise_tabular,
        ("pi_k",),
    ),
    Statement(
        "pointwise-deterministic",
        "V everywhere, deterministic",
        "the same, pi_k without full support",
        "paper",
        "bound",
        ppo_theorem.pointwise_deterministic,
        PAIR,
    ),
)
