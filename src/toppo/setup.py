"""A run's fixed parts, and the state that it starts from."""

from typing import Any, NamedTuple

import jax.numpy as jnp

from toppo.collect.episodes import no_episode
from toppo.collect.worker import Plan
from toppo.envs import Spaces
from toppo.maths.moments import no_data
from toppo.nets import acting_weights, categorical_net, gaussian_net
from toppo.optimise import adam_init
from toppo.streams import Purpose, seed_for
from toppo.types import Algorithm, Common, Learner, Net, State


class Setup(NamedTuple):
    """A run's fixed parts."""

    algorithm: Algorithm
    config: Any
    common: Common
    spaces: Spaces
    steps: int  # in all
    seed: int


def network(common: Common, spaces: Spaces) -> Net:
    """Policy and critic for the environment's spaces."""
    if spaces.discrete:
        return categorical_net(spaces.obs_size, spaces.action_size, common.hidden)
    return gaussian_net(spaces.obs_size, spaces.action_size, common.hidden, common.log_std)


def check(setup: Setup) -> None:
    """Refuse an algorithm with settings or actions that it cannot serve."""
    setup.algorithm.check(setup.config, setup.common, setup.spaces.discrete)


def plan(setup: Setup) -> Plan:
    """What the workers must know."""
    common, spaces = setup.common, setup.spaces
    params = network(common, spaces).init(0)
    shapes = tuple(w.shape for w in acting_weights(params.policy))
    return Plan(
        setup.seed,
        setup.config.n // common.envs,
        common.envs,
        spaces.obs_size,
        spaces.action_size,
        spaces.discrete,
        common.reset_each_batch,
        shapes,
    )


def initial_learner(setup: Setup) -> Learner:
    """Parameters and optimisers before the first update."""
    params = network(setup.common, setup.spaces).init(seed_for(setup.seed, Purpose.NETWORK))
    policy_opt = setup.algorithm.init_opt(setup.config, setup.common, params.policy)
    return Learner(params, policy_opt, adam_init(setup.common, params.value), jnp.ones(()))


def initial_state(setup: Setup) -> State:
    """Before the first step."""
    check(setup)
    size = setup.spaces.obs_size
    episodes = (no_episode(plan(setup)),) * setup.common.envs
    return State(initial_learner(setup), no_data((size,)), no_data(()), (), episodes, 0, 0, 0)
