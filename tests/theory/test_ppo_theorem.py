"""Section 4.1: the exact arg max against a linear program, and the counterexamples."""

import numpy as np
import pytest
from scipy.optimize import linprog

from toppo.theory.counterexample import clearly_violated, describe, simplified
from toppo.theory.mdp import MDP, Array, Case, Solved, clipped_surrogate, expectation, solve, solve_case
from toppo.theory.ppo_theorem import (
    CLIP_EPS,
    clip_range_update,
    clipped_argmax,
    deterministic_update,
    shared_rows_update,
    tabular_update,
    theorem_shared_rows,
)
from toppo.theory.random_mdps import random_batches, random_cases, random_policies
from toppo.theory.search import climb
from toppo.theory.statement import bound_violated


def cases(count: int, shape: tuple[int, int]) -> Case:
    return random_cases(np.random.default_rng(2), count, shape, np.full(count, 0.9))


def objective(pi_k: Solved, policy: Array) -> Array:
    return clipped_surrogate(pi_k, pi_k.policy, policy, CLIP_EPS)


def best_by_linear_program(pi_k: Solved, b: int) -> float:
    """max L_k over one row shared by all states: maximise sum of z(s, a), z below both lines of the minimum."""
    states, actions = pi_k.adv.shape[1:]
    weight = pi_k.rho[b][:, None] * pi_k.adv[b]
    row = pi_k.policy[b, 0]
    size = actions + states * actions
    rows = []
    limits = []
    for s in range(states):
        for a in range(actions):
            bound = (1.0 + np.sign(weight[s, a]) * CLIP_EPS) * row[a] * weight[s, a]
            line = np.zeros(size)
            line[actions + s * actions + a] = 1.0
            line[a] = -weight[s, a]
            flat = np.zeros(size)
            flat[actions + s * actions + a] = 1.0
            rows += [line, flat]
            limits += [0.0, bound]
    cost = np.append(np.zeros(actions), -np.ones(states * actions))
    total = np.append(np.ones(actions), np.zeros(states * actions))[None]
    limits_of = [(0.0, 1.0)] * actions + [(None, None)] * (states * actions)
    return float(-linprog(cost, np.asarray(rows), limits, total, [1.0], limits_of).fun)


@pytest.mark.parametrize("shape", [(2, 2), (4, 3)])
def test_shared_arg_max_against_a_linear_program(shape: tuple[int, int]) -> None:
    case = cases(20, shape)
    pi_k = solve(case.mdp, np.repeat(case.pi_k.policy[:, :1], shape[0], 1))
    best = clipped_argmax(pi_k, np.ones((shape[0], 1)))
    np.testing.assert_allclose(best.sum(-1), 1.0, atol=1e-12)
    assert (best >= 0.0).all()
    reached = objective(pi_k, best)
    np.testing.assert_allclose(reached, [best_by_linear_program(pi_k, b) for b in range(20)], atol=1e-9)


def test_tabular_arg_max_beats_every_other_policy() -> None:
    case = cases(200, (3, 3))
    pi_k, after = tabular_update(case)
    reached = objective(pi_k, after.policy)
    assert (reached >= 0.0).all()
    rng = np.random.default_rng(0)
    for _ in range(50):
        other = random_policies(rng, 200, 3, 3)
        near = 0.9 * after.policy + 0.1 * other
        assert (objective(pi_k, other) <= reached + 1e-12).all()
        assert (objective(pi_k, near) <= reached + 1e-12).all()


def test_tabular_arg_max_improves_every_state_it_visits() -> None:
    for batch in random_batches(np.random.default_rng(4), 2000, (0.5, 0.9, 0.99)):
        pi_k, after = tabular_update(batch)
        assert (expectation(after.policy, pi_k.adv) >= -1e-12).all()
        assert (after.v >= pi_k.v - 1e-9).all()


def test_unvisited_rows_stay() -> None:
    case = cases(1, (2, 2))
    stay = np.asarray([[[[1.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]]])
    mdp = case.mdp._replace(transition=stay, rho0=np.asarray([[1.0, 0.0]]))
    pi_k = solve(mdp, case.pi_k.policy)
    np.testing.assert_array_equal(clipped_argmax(pi_k, np.eye(2))[:, 1], pi_k.policy[:, 1])


def uniform_case(transition: Array, reward: Array, rho0: Array) -> Case:
    """Two states and two actions at gamma = 0.9; all three policies are uniform."""
    even = np.full((1, 2, 2), 0.5)
    mdp = MDP(transition=transition[None], reward=reward[None], gamma=np.asarray([0.9]), rho0=rho0[None])
    return solve_case(mdp, mu=even, pi_k=even, pi=even)


def test_known_counterexample_lowers_both_values() -> None:
    transition = np.asarray([[[0.4, 0.6], [0.7, 0.3]], [[0.0, 1.0], [0.3, 0.7]]])
    case = uniform_case(transition, np.asarray([[1.1, -0.9], [0.3, 2.1]]), np.asarray([1.0, 0.0]))
    pi_k, after = shared_rows_update(case)
    np.testing.assert_allclose(after.policy, [[[0.6, 0.4], [0.6, 0.4]]], atol=1e-12)
    assert objective(pi_k, after.policy)[0] == pytest.approx(0.00594, abs=1e-5)
    assert expectation(pi_k.rho, pi_k.v)[0] == pytest.approx(9.0486, abs=1e-4)
    assert expectation(pi_k.rho, after.v)[0] == pytest.approx(8.5719, abs=1e-4)
    assert (pi_k.eta[0], after.eta[0]) == (pytest.approx(7.961, abs=1e-3), pytest.approx(7.860, abs=1e-3))
    assert bound_violated(theorem_shared_rows.sides(case))[0]
    first = np.linspace(0.0, 1.0, 2001)
    grid = [objective(pi_k, np.asarray([[[p, 1.0 - p]] * 2]))[0] for p in first[::20]]
    assert max(grid) <= objective(pi_k, after.policy)[0] + 1e-12


def test_three_numbers_are_enough() -> None:
    """The counterexample of docs/theory.md: s1 leads to s0, which is never left, and both share a row."""
    transition = np.zeros((2, 2, 2))
    transition[..., 0] = 1.0
    case = uniform_case(transition, np.asarray([[0.0, -0.05], [0.0, 1.0]]), np.asarray([0.0, 1.0]))
    pi_k, after = shared_rows_update(case)
    np.testing.assert_allclose(after.policy[0], [[0.4, 0.6]] * 2, atol=1e-12)
    np.testing.assert_allclose(pi_k.v[0], [-0.25, 0.275], atol=1e-12)
    np.testing.assert_allclose(after.v[0], [-0.3, 0.33], atol=1e-12)
    assert objective(pi_k, after.policy)[0] == pytest.approx(0.0055)
    assert expectation(pi_k.rho, pi_k.v)[0] == pytest.approx(-0.1975)
    assert expectation(pi_k.rho, after.v)[0] == pytest.approx(-0.237)


def test_deterministic_policy_makes_every_policy_an_arg_max() -> None:
    case = cases(50, (3, 3))
    pi_k, anything = deterministic_update(case)
    np.testing.assert_allclose(objective(pi_k, anything.policy), 0.0, atol=1e-12)
    np.testing.assert_allclose(objective(pi_k, pi_k.policy), 0.0, atol=1e-12)


def test_policies_of_the_clip_range_have_the_sign_they_are_said_to_have() -> None:
    case = cases(500, (3, 2))
    pi_k, after = clip_range_update(case)
    ratio = after.policy / pi_k.policy
    assert (np.abs(ratio - 1.0) <= CLIP_EPS + 1e-9).all()
    np.testing.assert_allclose(after.policy.sum(-1), 1.0, atol=1e-9)
    assert (objective(pi_k, after.policy) >= -1e-12).all()


def test_shrinking_keeps_what_it_shrinks() -> None:
    found = climb(theorem_shared_rows._replace(discounts=(0.9,)), np.random.default_rng(0), 150, (2, 2))
    small = simplified(theorem_shared_rows, found.case)
    assert clearly_violated(theorem_shared_rows, small)
    assert (np.round(small.mdp.transition, 2) == small.mdp.transition).all()
    text = "\n".join(describe(theorem_shared_rows, small))
    assert "pi_k+1 = " in text
    assert "E_rho^pi_k V" in text
