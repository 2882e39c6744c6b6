"""Section 4.1: the theorem on PPO, with the clipped objective maximised exactly.

On a set of states that share one action distribution p, L_k is a sum over actions of concave functions of p(a).  Each
has kinks at (1 - eps) pi_k(a) and (1 + eps) pi_k(a).  To find the arg max, fill the steepest pieces first until p sums
to 1.
"""

import numpy as np
from numpy.typing import NDArray

from toppo.theory.mdp import Array, Case, Solved, clipped_surrogate, expectation, max_abs, solve
from toppo.theory.statement import Sides, statement

CLIP_EPS = 0.2


def clipped_argmax(pi_k: Solved, groups: Array, clip_eps: float = CLIP_EPS) -> Array:
    """arg max of L_k over policies whose states in one group share a row; groups [S, G] of 0, 1.  [B, S, A]"""
    weighted = pi_k.rho[..., None] * pi_k.adv
    up = np.einsum("bsa,sg->bga", np.maximum(weighted, 0.0), groups)
    down = np.einsum("bsa,sg->bga", np.minimum(weighted, 0.0), groups)
    row = np.einsum("bsa,sg->bga", pi_k.policy, groups) / groups.sum(0)[:, None]
    slopes = np.concatenate([up, up + down, down], -1)
    rooms = np.concatenate([(1.0 - clip_eps) * row, 2.0 * clip_eps * row, np.full_like(row, 2.0)], -1)
    # Stable: among pieces of slope 0 those below the clip range come first, so the arg max stays nearest to pi_k.
    order = np.argsort(-slopes, axis=-1, kind="stable")
    room = np.take_along_axis(rooms, order, -1)
    filled = np.clip(1.0 - (np.cumsum(room, -1) - room), 0.0, room)
    pieces = np.zeros_like(filled)
    np.put_along_axis(pieces, order, filled, -1)
    best = pieces.reshape(*row.shape[:2], 3, row.shape[-1]).sum(-2)
    visited = np.einsum("bs,sg->bg", pi_k.rho, groups)[..., None] > 0.0
    return np.asarray(np.einsum("bga,sg->bsa", np.where(visited, best, row), groups))


def tabular_update(case: Case) -> tuple[Solved, Solved]:
    """pi_k and the exact arg max over all policies."""
    return case.pi_k, solve(case.mdp, clipped_argmax(case.pi_k, np.eye(case.pi_k.v.shape[-1])))


def shared_rows_update(case: Case) -> tuple[Solved, Solved]:
    """pi_k and the exact arg max when states share rows in pairs, which stands for function approximation."""
    states = np.arange(case.pi_k.v.shape[-1])
    groups = np.eye((len(states) + 1) // 2)[states // 2]
    pi_k = solve(case.mdp, case.pi_k.policy[:, states // 2 * 2])
    return pi_k, solve(case.mdp, clipped_argmax(pi_k, groups))


def clip_range_update(case: Case) -> tuple[Solved, Solved]:
    """pi_k and a policy in the clip range with L_k >= 0: L_k is linear there, so one side of pi_k qualifies."""
    direction = case.pi.policy - case.pi_k.policy
    # Scaled up, the rows of a difference of mere rounding errors would no longer sum to 0.
    direction = np.where(max_abs(direction)[:, None, None] > 1e-9, direction, 0.0)
    reach = (CLIP_EPS / np.maximum(max_abs(direction / case.pi_k.policy), 1e-300))[:, None, None]
    forward = case.pi_k.policy + reach * direction
    backward = case.pi_k.policy - reach * direction
    better = clipped_surrogate(case.pi_k, case.pi_k.policy, forward, CLIP_EPS) >= 0.0
    return case.pi_k, solve(case.mdp, np.where(better[:, None, None], forward, backward))


def deterministic_update(case: Case) -> tuple[Solved, Solved]:
    """A deterministic pi_k and any other policy: L_k is 0 everywhere, so every policy is an arg max."""
    return solve(case.mdp, np.eye(case.pi_k.policy.shape[-1])[case.pi_k.policy.argmax(-1)]), case.pi


def mean_value_rises(pi_k: Solved, after: Solved) -> Sides:
    """0 <= E_{rho^{pi_k}}[V^{pi_{k+1}} - V^{pi_k}]; the penalty is the change if all one-step gains were losses."""
    gain = expectation(after.policy, pi_k.adv)
    visits = np.einsum("bs,bst->bt", pi_k.rho, after.resolvent)
    change = expectation(pi_k.rho, after.v - pi_k.v)
    return Sides(np.zeros_like(change), change, expectation(visits, np.abs(gain)))


def every_value_rises(pi_k: Solved, after: Solved) -> Sides:
    """0 <= min_s [V^{pi_{k+1}}(s) - V^{pi_k}(s)]; the penalty is the largest change."""
    change = after.v - pi_k.v
    return Sides(np.zeros_like(change[:, 0]), change.min(-1), max_abs(change))


@statement("ppo-theorem", "PPO theorem, shared rows", "E V rises at the arg max of L_k")
def theorem_shared_rows(case: Case) -> Sides:
    """Section 4.1 as stated: pi_{k+1} is an exact arg max, here of a class in which states share rows."""
    return mean_value_rises(*shared_rows_update(case))


@statement("ppo-theorem-sign", "PPO theorem, L_k >= 0 only", "E V rises if L_k >= 0")
def theorem_from_sign(case: Case) -> Sides:
    """Section 4.1 from what its proof uses: L_k(pi_{k+1}) >= 0 and no more."""
    return mean_value_rises(*clip_range_update(case))


@statement("ppo-theorem-tabular", "PPO theorem, tabular", "arg max over all policies, full support", source="ours")
def theorem_tabular(case: Case) -> Sides:
    """Section 4.1 for an exact arg max over all policies, pi_k of full support."""
    return mean_value_rises(*tabular_update(case))


@statement("pointwise", "V everywhere, tabular", "rises in each state, full support")
def pointwise_tabular(case: Case) -> Sides:
    """V^{pi_{k+1}} >= V^{pi_k} in every state, for an exact arg max over all policies, pi_k of full support."""
    return every_value_rises(*tabular_update(case))


@statement("pointwise-deterministic", "V everywhere, deterministic", "the same, pi_k without full support")
def pointwise_deterministic(case: Case) -> Sides:
    """V^{pi_{k+1}} >= V^{pi_k} in every state, for an exact arg max over all policies, pi_k deterministic."""
    return every_value_rises(*deterministic_update(case))


def return_falls(case: Case) -> NDArray[np.bool_]:
    """Tell where the arg max with shared rows lowers both E_{rho^{pi_k}} V and the return eta itself.  [B]"""
    pi_k, after = shared_rows_update(case)
    return np.asarray((expectation(pi_k.rho, after.v - pi_k.v) < -1e-9) & (after.eta < pi_k.eta - 1e-9))
