"""From the wreck a search finds to a counterexample one can check by hand."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from toppo.theory.mdp import MDP, Array, Instance, Solved, clipped_surrogate, solve_case, under
from toppo.theory.ppo_theorem import CLIP_EPS, aliased, deterministic, within_clip_range
from toppo.theory.statement import Statement, score, violated

MARGIN = 1.05
SIMPLE_REWARDS = (0.0, 1.0, -1.0)
UPDATES = {
    "ppo-theorem": aliased,
    "ppo-theorem-sign": within_clip_range,
    "pointwise-deterministic": deterministic,
}


def breaks(statement: Statement, instance: Instance) -> bool:
    """Whether the statement fails here, and clearly."""
    with np.errstate(all="ignore"):
        sides = statement.sides(solve_case(instance))
        return bool(violated(statement, sides)[0] and score(statement, sides)[0] > MARGIN)


def minimal(statement: Statement, instance: Instance) -> Instance:
    """Round to as few decimals as still break the statement, then replace part by part with something simpler."""
    for decimals in (1, 2, 3, 4):
        short = rounded(instance, decimals)
        if breaks(statement, short):
            instance = short
            break
    # Twice: a part that was needed at first may not be once others are simple.
    for simpler in [*simplifications(instance), *simplifications(instance)]:
        candidate = simpler(instance)
        if breaks(statement, candidate):
            instance = candidate
    return instance


def rounded(instance: Instance, decimals: int) -> Instance:
    """The instance with all numbers rounded, rows still summing to 1 and policies of full support."""
    mdp, least = instance.mdp, 10.0**-decimals
    reward = np.round(mdp.reward, decimals)
    plain = MDP(rounded_rows(mdp.transition, decimals), reward, mdp.gamma, rounded_rows(mdp.rho0, decimals))
    policies = (rounded_rows(policy, decimals, least) for policy in (instance.mu, instance.pi_k, instance.pi))
    return Instance(plain, *policies)


def rounded_rows(p: Array, decimals: int, least: float = 0.0) -> Array:
    """Probabilities rounded, none below ``least``; the last of a row is what is left."""
    head = np.clip(np.round(p[..., :-1], decimals), least, 1.0 - least)
    return np.round(np.concatenate([head, 1.0 - head.sum(-1, keepdims=True)], -1), decimals)


class Replace(NamedTuple):
    """Put ``value`` at one place of one part of an instance."""

    part: str
    where: tuple[int, ...]
    value: Array | float

    def __call__(self, instance: Instance) -> Instance:
        """The changed copy."""
        parts = {**instance.mdp._asdict(), "mu": instance.mu, "pi_k": instance.pi_k, "pi": instance.pi}
        parts[self.part] = np.array(parts[self.part])
        parts[self.part][self.where] = self.value
        mdp = MDP(*(parts[name] for name in MDP._fields))
        return Instance(mdp, parts["mu"], parts["pi_k"], parts["pi"])


def simplifications(instance: Instance) -> Iterator[Replace]:
    """Every simplification worth a try: fewer decimals place by place, then the simplest values."""
    mdp = instance.mdp
    states, actions = mdp.reward.shape[1:]
    pairs = [(s, a) for s in range(states) for a in range(actions)]
    policies = [(name, s) for name in ("mu", "pi_k", "pi") for s in range(states)]
    for decimals in (2, 1):
        for pair in pairs:
            yield Replace("transition", (0, *pair), rounded_rows(mdp.transition[0][pair], decimals))
            yield Replace("reward", (0, *pair), np.round(mdp.reward[0][pair], decimals))
        for name, s in policies:
            yield Replace(name, (0, s), rounded_rows(getattr(instance, name)[0, s], decimals, 10.0**-decimals))
    for name, s in policies:
        yield Replace(name, (0, s), np.full(actions, 1.0 / actions))
    for corner in (np.full(states, 1.0 / states), *np.eye(states)[::-1]):
        yield Replace("rho0", (0,), corner)
        for pair in pairs:
            yield Replace("transition", (0, *pair), corner)
    for reward in SIMPLE_REWARDS[::-1]:
        for pair in pairs:
            yield Replace("reward", (0, *pair), reward)


def describe(statement: Statement, instance: Instance) -> list[str]:
    """The process, the policies the statement speaks of, and what becomes of its two sides."""
    mdp, case = instance.mdp, solve_case(instance)
    lines = [f"gamma = {mdp.gamma[0]:.4g}, start {vector(mdp.rho0[0])}"]
    for s in range(mdp.reward.shape[1]):
        for a in range(mdp.reward.shape[2]):
            lines.append(f"s{s}, a{a}: reward {mdp.reward[0, s, a]:g}, next state {vector(mdp.transition[0, s, a])}")
    if statement.key in UPDATES:
        return lines + describe_update(*UPDATES[statement.key](case))
    for name in statement.policies:
        lines.append(f"{name} = {rows(getattr(instance, name)[0])}")
    sides = statement.sides(case)
    return [*lines, f"claimed: {sides.larger[0]:.4f} >= {sides.smaller[0]:.4f}"]


def describe_update(pi_k: Solved, after: Solved) -> list[str]:
    """pi_k, pi_{k+1}, L_k and what happens to the values."""
    gain = clipped_surrogate(pi_k, pi_k.policy, after.policy, CLIP_EPS)[0]
    before, now = under(pi_k.rho, pi_k.v)[0], under(pi_k.rho, after.v)[0]
    return [
        f"pi_k = {rows(pi_k.policy[0])}, pi_k+1 = {rows(after.policy[0])}, clip range {CLIP_EPS:g}",
        f"L_k(pi_k+1) = {gain:.3g} >= 0 = L_k(pi_k)",
        f"E_rho^pi_k V: {before:.4f} -> {now:.4f}; eta: {pi_k.eta[0]:.4f} -> {after.eta[0]:.4f}",
        f"V by state: {vector(pi_k.v[0])} -> {vector(after.v[0])}",
    ]


def vector(x: Array) -> str:
    """(0.5, 1)"""
    return "(" + ", ".join(f"{value + 0.0:.4g}" for value in x) + ")"


def rows(policy: Array) -> str:
    """One row per state; one in all if they are the same."""
    if np.array_equal(policy, np.broadcast_to(policy[0], policy.shape)):
        return f"{vector(policy[0])} in every state"
    return " | ".join(vector(row) for row in policy)
