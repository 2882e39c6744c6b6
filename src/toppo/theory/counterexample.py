"""Simplify what a search finds into a counterexample that a person can check by hand."""

from collections.abc import Iterator

import numpy as np

from toppo.theory.mdp import MDP, Array, Case, Instance, Solved, clipped_surrogate, expectation, solve_case
from toppo.theory.ppo_theorem import CLIP_EPS, clip_range_update, deterministic_update, shared_rows_update
from toppo.theory.statement import Statement, score, violated

MIN_SCORE = 1.05
SIMPLE_REWARDS = (-1.0, 1.0, 0.0)
POLICIES = ("mu", "pi_k", "pi")
UPDATES = {
    "ppo-theorem": shared_rows_update,
    "ppo-theorem-sign": clip_range_update,
    "pointwise-deterministic": deterministic_update,
}


def clearly_violated(statement: Statement[Case], instance: Instance) -> bool:
    """Tell whether the statement fails here by a clear margin."""
    with np.errstate(all="ignore"):
        sides = statement.sides(solve_case(instance))
        return bool(violated(statement, sides)[0] and score(statement, sides)[0] > MIN_SCORE)


def simplified(statement: Statement[Case], instance: Instance) -> Instance:
    """Round to as few decimals as still violate the statement, then replace part by part with simpler values."""
    for decimals in (1, 2, 3, 4):
        short = rounded(instance, decimals)
        if clearly_violated(statement, short):
            instance = short
            break
    # Twice: a part that was needed at first may not be needed once others are simple.
    for simpler in [*simplifications(instance), *simplifications(instance)]:
        candidate = replaced(instance, *simpler)
        if clearly_violated(statement, candidate):
            instance = candidate
    return instance


def rounded(instance: Instance, decimals: int) -> Instance:
    """Round all numbers; rows still sum to 1 and policies keep full support."""
    mdp = instance.mdp._replace(
        transition=rounded_rows(instance.mdp.transition, decimals),
        reward=np.round(instance.mdp.reward, decimals),
        rho0=rounded_rows(instance.mdp.rho0, decimals),
    )
    policies = {name: rounded_rows(getattr(instance, name), decimals, 10.0**-decimals) for name in POLICIES}
    return Instance(mdp=mdp, **policies)


def rounded_rows(p: Array, decimals: int, least: float = 0.0) -> Array:
    """Round probabilities to at least ``least``; the last of a row is what is left."""
    head = np.clip(np.round(p[..., :-1], decimals), least, 1.0 - least)
    return np.round(np.concatenate([head, 1.0 - head.sum(-1, keepdims=True)], -1), decimals)


def replaced(instance: Instance, part: str, place: tuple[int, ...], value: Array | float) -> Instance:
    """Put ``value`` at one place of one part of an instance."""
    parts = {**instance.mdp._asdict(), "mu": instance.mu, "pi_k": instance.pi_k, "pi": instance.pi}
    parts[part] = np.array(parts[part])
    parts[part][place] = value
    mdp = MDP(**{name: parts.pop(name) for name in MDP._fields})
    return Instance(mdp=mdp, **parts)


def simplifications(instance: Instance) -> Iterator[tuple[str, tuple[int, ...], Array | float]]:
    """Yield every simplification worth a try: fewer decimals place by place, then the simplest values."""
    mdp = instance.mdp
    states, actions = mdp.reward.shape[1:]
    pairs = list(np.ndindex(states, actions))
    policies = [(name, s) for name in POLICIES for s in range(states)]
    for decimals in (2, 1):
        for pair in pairs:
            yield ("transition", (0, *pair), rounded_rows(mdp.transition[0][pair], decimals))
            yield ("reward", (0, *pair), np.round(mdp.reward[0][pair], decimals))
        for name, s in policies:
            yield (name, (0, s), rounded_rows(getattr(instance, name)[0, s], decimals, 10.0**-decimals))
    for name, s in policies:
        yield (name, (0, s), np.full(actions, 1.0 / actions))
    for corner in (np.full(states, 1.0 / states), *np.eye(states)[::-1]):
        yield ("rho0", (0,), corner)
        for pair in pairs:
            yield ("transition", (0, *pair), corner)
    for reward in SIMPLE_REWARDS:
        for pair in pairs:
            yield ("reward", (0, *pair), reward)


def describe(statement: Statement[Case], instance: Instance) -> list[str]:
    """Write down the process, its policies and the two sides of the statement."""
    mdp = instance.mdp
    case = solve_case(instance)
    lines = [f"gamma = {mdp.gamma[0]:.4g}, start {vector(mdp.rho0[0])}"]
    for s, a in np.ndindex(mdp.reward.shape[1:]):
        lines.append(f"s{s}, a{a}: reward {mdp.reward[0, s, a]:g}, next state {vector(mdp.transition[0, s, a])}")
    if statement.key in UPDATES:
        return lines + describe_update(*UPDATES[statement.key](case))
    lines += [f"{name} = {rows(getattr(instance, name)[0])}" for name in POLICIES]
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
