"""How close mu must be to pi_k for a certificate of improvement: the radius of Theorem 3.1 at each discount."""

from typing import NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from toppo.theory.lemmas import lemma_3_1
from toppo.theory.mdp import Array, Case, max_tv, mean_kl, mean_tv, solve, with_mu_towards
from toppo.theory.random_mdps import random_mdps, random_policies
from toppo.theory.sharper_bounds import best_step_to_greedy, bisect, explicit_radius, second_order_bound, strengthened

DISCOUNTS = (0.5, 0.8, 0.9, 0.95, 0.99, 0.995)
DIRECTIONS = 4
SHAPE = (4, 3)
GRID = 10.0 ** np.linspace(-12.0, 0.0, 121)
ALPHA = 0.03
BOUNDS = {"paper": lemma_3_1, "strengthened": strengthened, "second_order": second_order_bound}


class Radii(NamedTuple):
    """The largest delta_max^{mu,pi_k} with a positive certificate by each bound, in the worst direction tried.  [B]

    "explicit" is the radius proved for every direction.  Where the mean KL is alpha, ``certified_at_alpha`` is the
    share of directions with a positive certificate and ``tv_at_alpha`` the median of the mean TV.
    """

    gamma: float
    by_bound: dict[str, Array]
    certified_at_alpha: float
    tv_at_alpha: float


def study(rng: np.random.Generator, processes: int) -> list[Radii]:
    """Compute the radii of ``processes`` random processes at each discount."""
    return [radii(rng, processes, gamma) for gamma in DISCOUNTS]


def radii(rng: np.random.Generator, processes: int, gamma: float) -> Radii:
    """Compute radii at one discount: pi is the best step to greedy, mu leaves pi_k in random directions."""
    mdp = random_mdps(rng, processes, SHAPE, np.full(processes, gamma))
    pi_k = solve(mdp, random_policies(rng, processes, *SHAPE))
    case = Case(mdp=mdp, mu=pi_k, pi_k=pi_k, pi=pi_k)
    case = case._replace(pi=solve(mdp, best_step_to_greedy(case)[0]))
    spread = Case(*jax.tree.map(lambda part: np.repeat(part, DIRECTIONS, 0), case))
    target = random_policies(rng, processes * DIRECTIONS, *SHAPE)
    distances = certified_distances(spread, target).reshape(len(BOUNDS), processes, DIRECTIONS).min(-1)
    at_alpha = with_mu_towards(spread, target, weight_at_alpha(spread, target))
    return Radii(
        gamma=gamma,
        by_bound=dict(zip(BOUNDS, distances, strict=True)) | {"explicit": explicit_radius(case)},
        certified_at_alpha=float((lemma_3_1.sides(at_alpha).smaller > 0.0).mean()),
        tv_at_alpha=float(np.median(mean_tv(at_alpha.mu, at_alpha.pi_k.policy))),
    )


def certified_distances(case: Case, target: Array) -> Array:
    """The largest delta_max^{mu,pi_k} on the way to ``target`` up to which each bound is positive.  [bounds, B]"""
    reach = max_tv(target, case.pi_k.policy)
    positive = np.ones((len(BOUNDS), len(reach)), bool)
    distances = np.zeros(positive.shape)
    for weight in GRID:
        moved = with_mu_towards(case, target, np.full(len(reach), weight))
        positive &= np.asarray([bound.sides(moved).smaller for bound in BOUNDS.values()]) > 0.0
        distances = np.where(positive, weight * reach, distances)
        if not positive.any():
            break
    return distances


def weight_at_alpha(case: Case, target: Array) -> Array:
    """The mixing weight at which E_{rho^mu} KL(mu, pi_k) reaches alpha; 1 where it never does.  [B]"""

    def within(weight: Array) -> NDArray[np.bool_]:
        return mean_kl(with_mu_towards(case, target, weight).mu, case.pi_k.policy) <= ALPHA

    return bisect(within, len(target), halvings=20)
