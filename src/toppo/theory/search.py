"""Hill climbing that tries to violate a statement."""

from typing import NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from toppo.theory.mdp import Array, Case, solve_case
from toppo.theory.random_mdps import full_support, normalised, random_cases, sharp_example
from toppo.theory.statement import Statement, score, violated

SHAPES = ((2, 2), (2, 3))
CLIMBERS = 24
RESTART_EVERY = 80
REWARD_LIMIT = 3.0


class Worst(NamedTuple):
    """The worst case found (B = 1), its score, whether it violates the statement, the worst score by discount."""

    case: Case
    score: float
    violated: bool
    by_discount: dict[float, float]


def search(statement: Statement[Case], rng: np.random.Generator, steps: int) -> Worst:
    """Find the worst of two climbs: among processes with two actions, and with three."""
    found = [climb(statement, rng, steps, shape) for shape in SHAPES]
    worst = max(found, key=lambda one: one.score)
    by_discount = {gamma: max(one.by_discount[gamma] for one in found) for gamma in worst.by_discount}
    return worst._replace(violated=any(one.violated for one in found), by_discount=by_discount)


def climb(statement: Statement[Case], rng: np.random.Generator, steps: int, shape: tuple[int, int]) -> Worst:
    """Drive the statement's score up, from many starts at every second one of its discounts."""
    discounts = statement.discounts[::2]
    here = starts(rng, np.repeat(np.asarray(discounts), CLIMBERS), shape)
    height = finite_scores(statement, here)
    for step in range(1, steps + 1):
        there = mutate(rng, here)
        reached = finite_scores(statement, there)
        here = choose(reached > height, there, here)
        height = np.maximum(height, reached)
        if step % RESTART_EVERY == 0:
            parents = better_half(height.reshape(len(discounts), CLIMBERS))
            here = take(here, parents)
            height = height[parents]
    top = take(here, np.asarray([height.argmax()]))
    tops = height.reshape(len(discounts), CLIMBERS).max(1)
    return Worst(
        case=top,
        score=float(height.max()),
        violated=bool(violated(statement, statement.sides(top))[0]),
        by_discount=dict(zip(discounts, tops.tolist(), strict=True)),
    )


def starts(rng: np.random.Generator, gamma: Array, shape: tuple[int, int]) -> Case:
    """Draw random cases; one in ``CLIMBERS`` is the example that makes TRPO's bound tight, if the shape allows."""
    case = random_cases(rng, len(gamma), shape, gamma)
    if shape != (2, 3):
        return case
    return choose(np.arange(len(gamma)) % CLIMBERS == 0, sharp_example(gamma), case)


def finite_scores(statement: Statement[Case], case: Case) -> Array:
    """Compute scores, with -inf where a score is not finite.  [B]"""
    scores = score(statement, statement.sides(case))
    return np.where(np.isfinite(scores), scores, -np.inf)


def better_half(height: Array) -> NDArray[np.int64]:
    """Choose where climbers go on: the worse half of each row restarts from the better half.  [G, K] -> [G K]"""
    rows, climbers = height.shape
    order = np.argsort(-height, axis=1, kind="stable")
    order[:, climbers // 2 :] = order[:, : climbers - climbers // 2]
    return np.asarray((order + climbers * np.arange(rows)[:, None]).ravel())


def mutate(rng: np.random.Generator, old: Case) -> Case:
    """Change some of the parts of each case, by steps from tiny to large."""
    mdp = old.mdp
    moved = mdp.reward + step_sizes(rng, mdp.reward) * rng.normal(size=mdp.reward.shape)
    mu = full_support(tilt(rng, old.mu.policy))
    pi_k = pulled_to(rng, mu, full_support(tilt(rng, old.pi_k.policy)))
    pi = pulled_to(rng, mu, full_support(tilt(rng, old.pi.policy)))
    new = mdp._replace(
        transition=tilt(rng, mdp.transition),
        reward=np.clip(moved, -REWARD_LIMIT, REWARD_LIMIT),
        rho0=tilt(rng, mdp.rho0),
    )
    return solve_case(new, mu, pi_k, pi)


def step_sizes(rng: np.random.Generator, like: Array) -> Array:
    """Draw a step size per case: 0 for two in three, otherwise log-uniform in [0.01, 3]."""
    shape = (len(like),) + (1,) * (like.ndim - 1)
    return np.where(rng.random(shape) < 1.0 / 3.0, 10.0 ** rng.uniform(-2.0, 0.5, shape), 0.0)


def tilt(rng: np.random.Generator, rows: Array) -> Array:
    """Multiply probabilities by random factors and sometimes pull each row towards one of its corners."""
    size = step_sizes(rng, rows)
    tilted = normalised(rows * np.exp(size * rng.normal(size=rows.shape)) + 1e-300)
    corner = np.eye(rows.shape[-1])[rng.integers(rows.shape[-1], size=rows.shape[:-1])]
    pull = np.minimum(0.3 * step_sizes(rng, rows), 1.0)
    return np.where(rng.random(size.shape) < 0.5, tilted, (1.0 - pull) * tilted + pull * corner)


def pulled_to(rng: np.random.Generator, mu: Array, policy: Array) -> Array:
    """Sometimes move a policy towards mu, or onto it: many bounds are tight only for small or no distance."""
    chance = rng.random((len(mu), 1, 1))
    pull = np.where(chance < 0.1, rng.random(chance.shape), np.where(chance < 0.25, 1.0, 0.0))
    return policy + pull * (mu - policy)


def choose(accept: NDArray[np.bool_], new: Case, old: Case) -> Case:
    """Take the new case where it is accepted, the old one elsewhere."""
    return Case(*jax.tree.map(lambda a, b: np.where(accept.reshape(-1, *[1] * (a.ndim - 1)), a, b), new, old))


def take(case: Case, index: NDArray[np.int64]) -> Case:
    """Select the cases at ``index``."""
    return Case(*jax.tree.map(lambda part: part[index], case))
