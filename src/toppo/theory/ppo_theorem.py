"""Section 4.1: the theorem on PPO, with the clipped objective maximised exactly.

On a set of states that share one action distribution p, L_k is a sum over actions of concave functions of p(a) with
kinks at (1 - eps) pi_k(a) and (1 + eps) pi_k(a): filling the steepest pieces first until p sums to 1 is its arg max.
"""

import numpy as np

from toppo.theory.mdp import Array, Case, Solved, clipped_surrogate, largest, solve, under
from toppo.theory.statement import Sides

CLIP_EPS = 0.2


def clipped_argmax(pi_k: Solved, groups: Array, clip_eps: float = CLIP_EPS) -> Array:
    """arg max of L_k over policies whose states in one group share a row, as in pi_k.  groups [S, G] of 0 and 1."""
    weighted = pi_k.rho[..., None] * pi_k.adv
    up = np.einsum("bsa,sg->bga", np.maximum(weighted, 0.0), groups)
    down = np.einsum("bsa,sg->bga", np.minimum(weighted, 0.0), groups)
    row = np.einsum("bsa,sg->bga", pi_k.policy, groups) / groups.sum(0)[:, None]
    slopes = np.concatenate([up, up + down, down], -1)
    rooms = np.concatenate([(1.0 - clip_eps) * row, 2.0 * clip_eps * row, np.full_like(row, 2.0)], -1)
    # Stable: among pieces of slope 0 the ones below the clip range come first, which stays nearest to pi_k.
    order = np.argsort(-slopes, axis=-1, kind="stable")
    room = np.take_along_axis(rooms, order, -1)
    filled = np.clip(1.0 - (np.cumsum(room, -1) - room), 0.0, room)
    pieces = np.zeros_like(filled)
    np.put_along_axis(pieces, order, filled, -1)
    best = pieces.reshape(*row.shape[:2], 3, row.shape[-1]).sum(-2)
    visited = np.einsum("bs,sg->bg", pi_k.rho, groups)[..., None] > 0.0
    return np.asarray(np.einsum("bga,sg->bsa", np.where(visited, best, row), groups))


def tabular(case: Case) -> tuple[Solved, Solved]:
    """pi_k and the exact arg max over all policies."""
    return case.pi_k, solve(case.mdp, clipped_argmax(case.pi_k, np.eye(case.pi_k.v.shape[-1])))


def aliased(case: Case) -> tuple[Solved, Solved]:
    """pi_k and the exact arg max when states share rows in pairs, which stands for function approximation."""
    states = case.pi_k.v.shape[-1]
    groups = np.eye((states + 1) // 2)[np.arange(states) // 2]
    pi_k = solve(case.mdp, case.pi_k.policy[:, np.arange(states) // 2 * 2])
    return pi_k, solve(case.mdp, clipped_argmax(pi_k, groups))


def within_clip_range(case: Case) -> tuple[Solved, Solved]:
    """pi_k and a policy of the clip range with L_k >= 0: L_k is linear there, so one side of pi_k qualifies."""
    direction = case.pi.policy - case.pi_k.policy
    # A difference of rounding errors is no direction: scaled up, its rows would no longer sum to 0.
    direction = np.where(largest(direction)[:, None, None] > 1e-9, direction, 0.0)
    reach = (CLIP_EPS / np.maximum(largest(direction / case.pi_k.policy), 1e-300))[:, None, None]
    forward = case.pi_k.policy + reach * direction
    backward = case.pi_k.policy - reach * direction
    better = clipped_surrogate(case.pi_k, case.pi_k.policy, forward, CLIP_EPS) >= 0.0
    return case.pi_k, solve(case.mdp, np.where(better[:, None, None], forward, backward))


def deterministic(case: Case) -> tuple[Solved, Solved]:
    """A deterministic pi_k and any policy at all: L_k is 0 everywhere, so every policy is an arg max."""
    actions = case.pi_k.policy.shape[-1]
    return solve(case.mdp, np.eye(actions)[case.pi_k.policy.argmax(-1)]), case.pi


def on_average(case: Case, pi_k: Solved, after: Solved) -> Sides:
    """0 <= E_{rho^{pi_k}}[V^{pi_{k+1}} - V^{pi_k}], out of what the same one-step changes could do with equal signs."""
    gain = under(after.policy, pi_k.adv)
    visits = np.einsum("bs,bst->bt", pi_k.rho, after.resolvent)
    change = under(pi_k.rho, after.v - pi_k.v)
    return Sides(np.zeros_like(change), change, under(visits, np.abs(gain)))


def pointwise(pi_k: Solved, after: Solved) -> Sides:
    """0 <= min_s [V^{pi_{k+1}}(s) - V^{pi_k}(s)], out of the largest change."""
    change = after.v - pi_k.v
    return Sides(np.zeros_like(change[:, 0]), change.min(-1), largest(change))


def theorem_aliased(case: Case) -> Sides:
    """The theorem of section 4.1 as stated: pi_{k+1} an exact arg max, of a class in which states share rows."""
    return on_average(case, *aliased(case))


def theorem_from_sign(case: Case) -> Sides:
    """The theorem of section 4.1 from what its proof uses: L_k(pi_{k+1}) >= 0 and no more."""
    return on_average(case, *within_clip_range(case))


def theorem_tabular(case: Case) -> Sides:
    """The theorem of section 4.1 for an exact arg max over all policies, pi_k of full support."""
    return on_average(case, *tabular(case))


def pointwise_tabular(case: Case) -> Sides:
    """V^{pi_{k+1}} >= V^{pi_k} in every state, for an exact arg max over all policies, pi_k of full support."""
    return pointwise(*tabular(case))


def pointwise_deterministic(case: Case) -> Sides:
    """V^{pi_{k+1}} >= V^{pi_k} in every state, for an exact arg max over all policies, pi_k deterministic."""
    return pointwise(*deterministic(case))


def returns_fall(case: Case) -> Array:
    """Where the aliased arg max lowers both E_{rho^{pi_k}} V and the return eta itself.  [B]"""
    pi_k, after = aliased(case)
    return np.asarray((under(pi_k.rho, after.v - pi_k.v) < -1e-9) & (after.eta < pi_k.eta - 1e-9))
