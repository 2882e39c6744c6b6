"""A run's fixed parts, and the state that it starts from."""

from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from toppo.algos.contract import Algorithm, Net
from toppo.algos.optimise import adam_init
from toppo.algos.settings import Common
from toppo.collect.actor import ActorFactory
from toppo.collect.episodes import no_episode
from toppo.collect.plan import Plan
from toppo.envs import Spaces
from toppo.learn.nets import acting_weights, jax_acting, make_net, mlp_body, see_parts, see_vector
from toppo.learn.state import Learner, State
from toppo.learn.vision import vision_body
from toppo.maths.moments import no_data
from toppo.rng import Stream, seed_for


class Setup(NamedTuple):
    """A run's fixed parts."""

    algorithm: Algorithm
    config: Any
    common: Common
    spaces: Spaces
    total_timesteps: int  # in all
    seed: int


def network(common: Common, spaces: Spaces) -> Net:
    """Policy and critic for the environment's spaces."""
    size, hidden = spaces.obs_size, common.hidden
    body = vision_body(spaces.images, size, hidden) if spaces.images else mlp_body(size, hidden)
    plain = not spaces.images and not spaces.masked
    see = see_vector if plain else see_parts(size, spaces.mask_size)
    return make_net(body, see, spaces.action_size, spaces.choices, common.log_std_init, common.shared_trunk)


def check(setup: Setup) -> None:
    """Refuse an algorithm with settings or actions that it cannot serve."""
    setup.algorithm.check(setup.config, setup.common, setup.spaces.discrete)


def plan(setup: Setup) -> Plan:
    """What the workers must know."""
    common, spaces = setup.common, setup.spaces
    params = jax.eval_shape(lambda: network(common, spaces).init(0))
    policy = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), params.policy)
    return Plan(
        spaces=spaces,
        seed=setup.seed,
        steps=setup.config.n_steps // common.n_envs,
        n_envs=common.n_envs,
        reset_each_batch=common.reset_each_batch,
        weight_shapes=tuple(w.shape for w in acting_weights(policy, spaces.action_size)),
    )


def acting(setup: Setup) -> ActorFactory | None:
    """How the policy acts, if the NumPy actor of the workers cannot read its observations: batched, in JAX."""
    return _jax_acting(setup.common, setup.spaces) if setup.spaces.images else None


@cache
def _jax_acting(common: Common, spaces: Spaces) -> ActorFactory:
    """One compiled program, however often a policy is made to act."""
    net = network(common, spaces)
    return jax_acting(net, jax.eval_shape(lambda: net.init(0)).policy)


def initial_learner(setup: Setup) -> Learner:
    """Parameters and optimisers before the first update."""
    params = network(setup.common, setup.spaces).init(seed_for(setup.seed, Stream.NETWORK_INIT))
    policy_opt = setup.algorithm.init_opt(setup.config, setup.common, params.policy)
    return Learner(params, policy_opt, adam_init(setup.common, params.value), jnp.ones(()))


def initial_state(setup: Setup) -> State:
    """Before the first step."""
    check(setup)
    size = setup.spaces.obs_size
    episodes = (no_episode(plan(setup)),) * setup.common.n_envs
    return State(initial_learner(setup), no_data((size,)), no_data(()), (), episodes, 0, 0, 0)
