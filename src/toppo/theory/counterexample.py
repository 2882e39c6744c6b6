"""Simplify what a search finds into a counterexample that a person can check by hand."""

from collections.abc import Iterator

import jax
import numpy as np

from toppo.theory.mdp import MDP, Array, Case, Solved, clipped_surrogate, expectation, solve_case
from toppo.theory.ppo_theorem import CLIP_EPS, clip_range_update, deterministic_update, shared_rows_update
from toppo.theory.statement import Statement, score, violated

MIN_SCORE = 1.05
SIMPLE_REWARDS = (-1.0, 1.0, 0.0)
UPDATES = {
    "ppo-theorem": shared_rows_update,
    "ppo-theorem-sign": clip_range_update,
    "pointwise-deterministic": deterministic_update,
}


def clearly_violated(statement: Statement[Case], case: Case) -> bool:
    """Tell whether the statement fails here by a clear margin."""
    with np.errstate(all="ignore"):
        sides = statement.sides(case)
        return bool(violated(statement, sides)[0] and score(statement, sides)[0] > MIN_SCORE)


def simplified(statement: Statement[Case], case: Case) -> Case:
    """Round to as few decimals as still violate the statement, then replace place by place with simpler values."""
    shorter = (rounded(case, decimals) for decimals in (1, 2, 3, 4))
    case = next((short for short in shorter if clearly_violated(statement, short)), case)
    mdp, *policies = jax.tree.map(np.array, (case.mdp, case.mu.policy, case.pi_k.policy, case.pi.policy))
    # Twice: a value that was needed at first may not be needed once others are simple.
    for values, place, simpler in 2 * list(simplifications(mdp, policies)):
        before = np.array(values[place])
        values[place] = simpler
        if not clearly_violated(statement, solve_case(mdp, *policies)):
            values[place] = before
    return solve_case(mdp, *policies)


def rounded(case: Case, decimals: int) -> Case:
    """Round all numbers; rows still sum to 1 and policies keep full support."""
    mdp = case.mdp._replace(
        transition=rounded_rows(case.mdp.transition, decimals),
        reward=np.round(case.mdp.reward, decimals),
        rho0=rounded_rows(case.mdp.rho0, decimals),
    )
    policies = [rounded_rows(solved.policy, decimals, 10.0**-decimals) for solved in (case.mu, case.pi_k, case.pi)]
    return solve_case(mdp, *policies)


def rounded_rows(p: Array, decimals: int, least: float = 0.0) -> Array:
    """Round probabilities to at least ``least``; the last of a row is what is left."""
    head = np.clip(np.round(p[..., :-1], decimals), least, 1.0 - least)
    return np.round(np.concatenate([head, 1.0 - head.sum(-1, keepdims=True)], -1), decimals)


def simplifications(mdp: MDP, policies: list[Array]) -> Iterator[tuple[Array, tuple[int, ...], Array | float]]:
    """Yield an array, a place and a value for every simplification: fewer decimals, then the simplest values."""
    states, actions = mdp.reward.shape[1:]
    pairs = [(0, *pair) for pair in np.ndindex(states, actions)]
    policy_rows = [(policy, (0, s)) for policy in policies for s in range(states)]
    for decimals in (2, 1):
        for pair in pairs:
            yield mdp.transition, pair, rounded_rows(mdp.transition[pair], decimals)
            yield mdp.reward, pair, np.round(mdp.reward[pair], decimals)
        for policy, row in policy_rows:
            yield policy, row, rounded_rows(policy[row], decimals, 10.0**-decimals)
    for policy, row in policy_rows:
        yield policy, row, np.full(actions, 1.0 / actions)
    for corner in (np.full(states, 1.0 / states), *np.eye(states)[::-1]):
        yield mdp.rho0, (0,), corner
        for pair in pairs:
            yield mdp.transition, pair, corner
    for reward in SIMPLE_REWARDS:
        for pair in pairs:
            yield mdp.reward, pair, reward


def describe(statement: Statement[Case], case: Case) -> list[str]:
    """Write down the process, its policies and the two sides of the statement."""
    mdp = case.mdp
    lines = [f"gamma = {mdp.gamma[0]:.4g}, start {vector(mdp.rho0[0])}"]
    for s, a in np.ndindex(mdp.reward.shape[1:]):
        lines.append(f"s{s}, a{a}: reward {mdp.reward[0, s, a]:g}, next state {vector(mdp.transition[0, s, a])}")
    if statement.key in UPDATES:
        return lines + describe_update(*UPDATES[statement.key](case))
    lines += [f"{name} = {rows(getattr(case, name).policy[0])}" for name in ("mu", "pi_k", "pi")]
    sides = statement.sides(case)
    return [*lines, f"claimed: {sides.larger[0]:.4f} >= {sides.smaller[0]:.4f}"]


def describe_update(pi_k: Solved, after: Solved) -> list[str]:
    """Write down pi_k, pi_{k+1}, L_k and the values before and after."""
    gain = clipped_surrogate(pi_k, pi_k.policy, after.policy, CLIP_EPS)[0]
    before = expectation(pi_k.rho, pi_k.v)[0]
    now = expectation(pi_k.rho, after.v)[0]
    return [
        f"pi_k = {rows(pi_k.policy[0])}, pi_k+1 = {rows(after.policy[0])}, clip range {CLIP_EPS:g}",
        f"L_k(pi_k+1) = {gain:.3g} >= 0 = L_k(pi_k)",
        f"E_rho^pi_k V: {before:.4f} -> {now:.4f}; eta: {pi_k.eta[0]:.4f} -> {after.eta[0]:.4f}",
        f"V by state: {vector(pi_k.v[0])} -> {vector(after.v[0])}",
    ]


def vector(x: Array) -> str:
    """Format a vector as (0.5, 1)."""
    return "(" + ", ".join(f"{value + 0.0:.4g}" for value in x) + ")"


def rows(policy: Array) -> str:
    """Format one row per state, or a single one if all are the same."""
    if np.array_equal(policy, np.broadcast_to(policy[0], policy.shape)):
        return f"{vector(policy[0])} in every state"
    return " | ".join(vector(row) for row in policy)
