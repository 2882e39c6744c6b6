"""Every statement that ``toppo theory`` checks, in the order of the paper."""

import numpy as np

from toppo.theory import estimators, lemma_4_1, lemmas, ppo_theorem, sharper_bounds
from toppo.theory.mdp import Case
from toppo.theory.statement import Statement

STATEMENTS: tuple[Statement[Case], ...] = (
    lemmas.performance_difference,
    lemmas.corollary_a1_v,
    lemmas.corollary_a1_q,
    lemmas.lemma_a2,
    lemmas.lemma_a3,
    lemmas.jensen_step,
    lemmas.pinsker_step,
    lemmas.pinsker_sharp,
    lemmas.lemma_2_1,
    lemmas.lemma_3_1,
    lemmas.lemma_3_1_linear,
    lemmas.merged_form,
    sharper_bounds.merged_form_from_a_third,
    sharper_bounds.strengthened,
    sharper_bounds.averaged,
    sharper_bounds.second_order_bound,
    sharper_bounds.theorem_3_1,
    sharper_bounds.certificate_floor,
    lemmas.lemma_4_1_triangle,
    ppo_theorem.theorem_shared_rows,
    ppo_theorem.theorem_from_sign,
    ppo_theorem.theorem_tabular,
    ppo_theorem.pointwise_tabular,
    ppo_theorem.pointwise_deterministic,
)

EXHAUSTIVE: tuple[Statement[np.random.Generator], ...] = (
    lemma_4_1.mean_distance,
    lemma_4_1.equal_loss,
    lemma_4_1.equal_loss_second_order,
    lemma_4_1.definition_3_1,
    estimators.gae_identity,
    estimators.vtrace_identity,
)
