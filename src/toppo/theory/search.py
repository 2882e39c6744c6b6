"""Hill climbing that tries to break a statement."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toppo.theory.mdp import MDP, Array, Instance, solve_case
from toppo.theory.random_mdps import full_support, normalised, random_instances, sharp_example
from toppo.theory.statement import Statement, score, violated

Indices = NDArray[np.int64]

SHAPES = ((2, 2), (2, 3))
CLIMBERS = 24
REWARD_LIMIT = 3.0


class Found(NamedTuple):
    """The worst instance reached (B = 1), its score, whether the statement was broken, the worst score by discount."""

    instance: Instance
    score: float
    broken: bool
    by_discount: dict[float, float]


def search(statement: Statement, rng: np.random.Generator, steps: int) -> Found:
    """The worst of two climbs: among processes with two actions, and with three."""
    found = [climb(statement, rng, steps, shape) for shape in SHAPES]
    worst = max(found, key=lambda one: one.score)
    by_discount = {gamma: max(one.by_discount[gamma] for one in found) for gamma in worst.by_discount}
    return worst._replace(broken=any(one.broken for one in found), by_discount=by_discount)


def climb(statement: Statement, rng: np.random.Generator, steps: int, shape: tuple[int, int]) -> Found:
    """Drive the statement's score up, from many starts at each of its discounts (every second one)."""
    among = statement.discounts[::2]
    gamma = np.repeat(np.asarray(among), CLIMBERS)
    here = starts(rng, gamma, shape)
    height = heights(statement, here)
    for step in range(1, steps + 1):
        there = mutate(rng, here)
        reached = heights(statement, there)
        here = choose(reached > height, there, here)
        height = np.maximum(height, reached)
        if step % 80 == 0:
            parents = survivors(height.reshape(len(among), CLIMBERS))
            here, height = take(here, parents), height[parents]
    best = int(height.argmax())
    top = take(here, np.asarray([best]))
    tops = height.reshape(len(among), CLIMBERS).max(1)
    broken = bool(violated(statement, statement.sides(solve_case(top)))[0])
    return Found(top, float(height[best]), broken, dict(zip(among, map(float, tops), strict=True)))


def starts(rng: np.random.Generator, gamma: Array, shape: tuple[int, int]) -> Instance:
    """Random instances; one in ``CLIMBERS`` is the example that makes TRPO's bound tight, where the shape allows."""
    instance = random_instances(rng, len(gamma), shape, gamma)
    if shape != (2, 3):
        return instance
    return choose(np.arange(len(gamma)) % CLIMBERS == 0, sharp_example(gamma), instance)


def heights(statement: Statement, instance: Instance) -> Array:
    """Scores, with -inf where a score means nothing.  [B]"""
    scores = score(statement, statement.sides(solve_case(instance)))
    return np.where(np.isfinite(scores), scores, -np.inf)


def survivors(height: Array) -> Indices:
    """Indices by which the worse half of each row's climbers restart from the better half.  [G, K] -> [G K]"""
    rows, climbers = height.shape
    order = np.argsort(-height, axis=1, kind="stable")
    order[:, climbers // 2 :] = order[:, : climbers - climbers // 2]
    return np.asarray((order + climbers * np.arange(rows)[:, None]).ravel())


def mutate(rng: np.random.Generator, old: Instance) -> Instance:
    """Change some of the parts of each instance, by steps from tiny to large."""
    mdp = old.mdp
    reward = np.clip(
        mdp.reward + sizes(rng, mdp.reward) * rng.normal(size=mdp.reward.shape), -REWARD_LIMIT, REWARD_LIMIT
    )
    mu = full_support(tilt(rng, old.mu))
    pi_k = closer(rng, full_support(tilt(rng, old.pi_k)), mu)
    pi = closer(rng, full_support(tilt(rng, old.pi)), mu)
    return Instance(MDP(tilt(rng, mdp.transition), reward, mdp.gamma, tilt(rng, mdp.rho0)), mu, pi_k, pi)


def sizes(rng: np.random.Generator, like: Array) -> Array:
    """A step size per instance: 0 for two in three, otherwise log-uniform in [0.01, 3]."""
    shape = (len(like),) + (1,) * (like.ndim - 1)
    return np.where(rng.random(shape) < 1.0 / 3.0, 10.0 ** rng.uniform(-2.0, 0.5, shape), 0.0)


def tilt(rng: np.random.Generator, rows: Array) -> Array:
    """Multiply probabilities by random factors and, now and then, pull each row towards one of its corners."""
    size = sizes(rng, rows)
    tilted = normalised(rows * np.exp(size * rng.normal(size=rows.shape)) + 1e-300)
    corner = np.eye(rows.shape[-1])[rng.integers(rows.shape[-1], size=rows.shape[:-1])]
    pull = np.minimum(0.3 * sizes(rng, rows), 1.0)
    return np.where(rng.random(size.shape) < 0.5, tilted, (1.0 - pull) * tilted + pull * corner)


def closer(rng: np.random.Generator, policy: Array, mu: Array) -> Array:
    """Now and then move a policy towards mu, or onto it: many bounds are tight only for small or no distance."""
    chance = rng.random((len(mu), 1, 1))
    pull = np.where(chance < 0.1, rng.random(chance.shape), np.where(chance < 0.25, 1.0, 0.0))
    return policy + pull * (mu - policy)


def choose(accept: NDArray[np.bool_], new: Instance, old: Instance) -> Instance:
    """Instance by instance, the new one where accepted."""

    def pick(a: Array, b: Array) -> Array:
        return np.where(accept.reshape((-1,) + (1,) * (a.ndim - 1)), a, b)

    mdp = MDP(*(pick(a, b) for a, b in zip(new.mdp, old.mdp, strict=True)))
    return Instance(mdp, pick(new.mu, old.mu), pick(new.pi_k, old.pi_k), pick(new.pi, old.pi))


def take(instance: Instance, index: Indices) -> Instance:
    """The instances at ``index``."""
    mdp = MDP(*(part[index] for part in instance.mdp))
    return Instance(mdp, instance.mu[index], instance.pi_k[index], instance.pi[index])
