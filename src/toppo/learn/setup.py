"""A run's fixed parts, and the state that it starts from."""

from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from toppo.algos.contract import Algorithm, Config, Net
from toppo.algos.optimise import adam_init
from toppo.algos.schedules import Schedule, value_at
from toppo.algos.settings import Common
from toppo.collect.actor import ActorFactory
from toppo.collect.episodes import no_episode
from toppo.collect.plan import Plan
from toppo.envs import Spaces
from toppo.learn.nets import Body, Head, actor_critic, actor_weights, jax_actor_factory, mlp_body, split_rows
from toppo.learn.state import Learner, State
from toppo.learn.vision import vision_body
from toppo.maths.moments import no_data, normalise
from toppo.rng import Stream, seed_for


class Setup(NamedTuple):
    """A run's fixed parts; ``new_setup`` makes it."""

    algorithm: Algorithm
    config: Config
    common: Common
    spaces: Spaces
    net: Net
    total_timesteps: int
    seed: int


def new_setup(
    algorithm: Algorithm, config: Config, common: Common, spaces: Spaces, total_timesteps: int, seed: int
) -> Setup:
    """Check that the algorithm can serve these settings and actions, and make the network once for the whole run."""
    algorithm.check(config, common, spaces.discrete)
    return Setup(
        algorithm=algorithm,
        config=config,
        common=common,
        spaces=spaces,
        net=make_net(common, spaces),
        total_timesteps=total_timesteps,
        seed=seed,
    )


def make_net(common: Common, spaces: Spaces) -> Net:
    """Return a policy and a critic for the environment's spaces."""
    size = spaces.obs_size
    numbers_only = not spaces.images and not spaces.masked

    def body(hidden: tuple[int, ...]) -> Body:
        if spaces.images:
            return vision_body(spaces.images, size, hidden, common.activation)
        return mlp_body(size, hidden, common.activation)

    return actor_critic(
        body(common.hidden),
        None if common.shared_trunk else body(common.hidden_critic or common.hidden),
        normalise if numbers_only else split_rows(size, spaces.mask_size),
        Head(spaces.action_size, spaces.choices, common.log_std_init, common.last_layer_gain),
    )


def plan(setup: Setup) -> Plan:
    """Return what the workers must know."""
    params = jax.eval_shape(lambda: setup.net.init(0))
    policy = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), params.policy)
    return Plan(
        spaces=setup.spaces,
        seed=setup.seed,
        steps=setup.config.n_steps // setup.common.n_envs,
        n_envs=setup.common.n_envs,
        reset_each_batch=setup.common.reset_each_batch,
        activation=setup.common.activation,
        weight_shapes=tuple(w.shape for w in actor_weights(policy, setup.spaces.action_size)),
    )


@cache
def _compiled_actor_factory(net: Net) -> ActorFactory:
    """Return one compiled program, however often a policy is made to act."""
    return jax_actor_factory(net, jax.eval_shape(lambda: net.init(0)).policy)


def image_actor_factory(setup: Setup) -> ActorFactory | None:
    """Return how the policy acts if the workers' NumPy actor cannot read its observations: batched, in JAX."""
    return _compiled_actor_factory(setup.net) if setup.spaces.images else None


def initial_learner(setup: Setup) -> Learner:
    """Return parameters and optimisers before the first update."""
    params = setup.net.init(seed_for(setup.seed, Stream.NETWORK_INIT))
    return Learner(
        params=params,
        policy_opt=setup.algorithm.init_opt(setup.config, setup.common, params.policy),
        value_opt=adam_init(setup.common, params.value),
        lr_scale=jnp.ones(()),
    )


def initial_state(setup: Setup) -> State:
    """Return the state before the first step."""
    return State(
        learner=initial_learner(setup),
        obs_moments=no_data((setup.spaces.obs_size,)),
        return_moments=no_data(()),
        memory=(),
        episodes=(no_episode(plan(setup)),) * setup.common.n_envs,
        batches=0,
        iteration=0,
        steps=0,
    )


def progress(setup: Setup, steps: int) -> float:
    """Return the fraction of the run that is done after so many steps."""
    return steps / setup.total_timesteps


def learning_rate(setup: Setup, steps: int) -> np.float32:
    """Return the learning rate of an update after so many steps."""
    return np.float32(setup.algorithm.learning_rate(setup.config, setup.common, progress(setup, steps)))


def read_by_programs(setup: Setup) -> dict[str, Schedule]:
    """Return the settings that may be schedules and that the programs of an update read."""
    return {"ent_coef": setup.common.ent_coef, "clip_range": getattr(setup.config, "clip_range", 0.0)}


def constants(setup: Setup) -> dict[str, float]:
    """Return those of them that are constant: these are compiled in."""
    return {name: value for name, value in read_by_programs(setup).items() if not isinstance(value, tuple)}


def scheduled(setup: Setup, steps: int) -> dict[str, np.float32]:
    """Return the others as they are in an update after so many steps: these are arguments."""
    done = progress(setup, steps)
    schedules = {name: value for name, value in read_by_programs(setup).items() if isinstance(value, tuple)}
    return {name: np.float32(value_at(value, done)) for name, value in schedules.items()}
