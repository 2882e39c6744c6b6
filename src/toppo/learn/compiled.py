"""A whole batch as one program: steps in a ``scan``, environments in a ``vmap``, the policy inside.

Randomness comes from keys of (seed, environment, episode, step) and of (seed, environment, batch), so the bytes do
not depend on how many devices the environments are spread over, nor on where a run was interrupted.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from toppo.algos.contract import Tree
from toppo.collect.plan import RawBatch
from toppo.jaxenvs.protocol import JaxEnv
from toppo.learn.jax_episodes import Worlds
from toppo.learn.jax_rows import action_to_env, numbers_in_row, row_encoder
from toppo.learn.setup import Setup
from toppo.rng import Stream

RESET_PARTS = 16  # a sixteenth of the environments is reset at once


class Collected(NamedTuple):
    """What the program returns in addition to the environments."""

    raw: RawBatch[Array]  # with every next observation [T, E, row]
    finite: Array  # [T, E, 2] are the observations before and after the step finite?
    obs_mean: Array  # over the steps, [E, O]
    obs_squares: Array  # sum of squared distances from it, [E, O]


def stream_key(seed: int, stream: Stream) -> Array:
    """Return the key of (seed, stream)."""
    return jax.random.fold_in(jax.random.key(seed, impl="threefry2x32"), stream)


def zero_worlds(setup: Setup, env: JaxEnv) -> Worlds:
    """Return all environments before their first reset."""
    n = setup.common.n_envs
    state = jax.eval_shape(env.reset, jax.random.key(0))[0]
    shapes = [jax.eval_shape(key_to_data, leaf) for leaf in jax.tree.leaves(state)]
    return Worlds(
        index=jnp.arange(n),
        leaves=tuple(jnp.zeros((n, *x.shape), x.dtype) for x in shapes),
        row=jnp.zeros((n, setup.spaces.row_size), setup.spaces.row_dtype),
        started=jnp.zeros(n, jnp.int32),
        step=jnp.zeros(n, jnp.int32),
        due=jnp.ones(n, bool),
    )


def key_to_data(leaf: Array) -> Array:
    """Return a random key as plain numbers, and anything else as it is."""
    leaf = jnp.asarray(leaf)  # a state may hold numbers of Python
    return jax.random.key_data(leaf) if is_key(leaf) else leaf


def is_key(leaf: Array) -> bool:
    """Is this a random key, which is not an array of numbers?"""
    return bool(jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key))


class Stepper:
    """One environment's reset and step, between the rows and actions of the policy."""

    def __init__(self, setup: Setup, env: JaxEnv) -> None:
        self.env = env
        self.encode = row_encoder(setup.spaces)
        self.to_env = action_to_env(setup.spaces)
        self.key = stream_key(setup.seed, Stream.ENV_RESET)
        self.form = form_of_state(env)

    def episode_key(self, index: Array, episode: Array, step: Array) -> Array:
        """Return the key of a step; step 0 is the reset."""
        return jax.random.fold_in(jax.random.fold_in(jax.random.fold_in(self.key, index), episode), step)

    def reset(self, world: Worlds) -> Worlds:
        """Begin the next episode of an environment."""
        state, obs = self.env.reset(self.episode_key(world.index, world.started, jnp.int32(0)))
        after = world._replace(
            leaves=self.to_leaves(state),
            row=self.encode(obs),
            started=world.started + 1,
            step=jnp.zeros_like(world.step),
            due=jnp.zeros_like(world.due),
        )
        return with_types_of(world, after)

    def step(self, world: Worlds, action: Array) -> tuple[Worlds, Array, Array]:
        """Take a step in an environment: its new state, the reward, and whether it terminated."""
        key = self.episode_key(world.index, world.started - 1, world.step + 1)
        answer = self.env.step(key, self.to_state(world.leaves), self.to_env(action))
        state, obs, reward, terminated, truncated = answer
        after = world._replace(
            leaves=self.to_leaves(state), row=self.encode(obs), step=world.step + 1, due=terminated | truncated
        )
        return with_types_of(world, after), jnp.asarray(reward, jnp.float32), terminated

    def to_leaves(self, state: Tree) -> tuple[Array, ...]:
        """Return the leaves of a state as plain arrays."""
        return tuple(key_to_data(leaf) for leaf in jax.tree.leaves(state))

    def to_state(self, leaves: tuple[Array, ...]) -> Tree:
        """Return the state that has these leaves."""
        pairs = zip(leaves, self.form.generators, strict=True)
        found = [x if impl is None else jax.random.wrap_key_data(x, impl=impl) for x, impl in pairs]
        return jax.tree.unflatten(self.form.structure, found)


def with_types_of(before: Worlds, after: Worlds) -> Worlds:
    """Make all types those from before: a Python number in a state has none of its own, and would take another's."""
    same: Worlds = jax.tree.map(lambda old, new: jnp.asarray(new, old.dtype), before, after)
    return same


class StateForm(NamedTuple):
    """How an environment's state is made of its leaves."""

    structure: Any
    generators: list[Any]  # of the leaves that are random keys; None for all others


def form_of_state(env: JaxEnv) -> StateForm:
    """Follow a reset without computing it."""
    generators: list[Any] = []

    def reset(key: Array) -> Tree:
        state, _ = env.reset(key)
        leaves = map(jnp.asarray, jax.tree.leaves(state))
        generators.extend(jax.random.key_impl(leaf) if is_key(leaf) else None for leaf in leaves)
        return state

    state = jax.eval_shape(reset, jax.random.key(0))
    return StateForm(jax.tree.structure(state), generators)


def reset_due(stepper: Stepper, worlds: Worlds) -> Worlds:
    """Reset the environments that are due, and compute no other reset: a few at once, until none is left."""
    count = max(1, len(worlds.due) // RESET_PARTS)

    def reset_some(worlds: Worlds) -> Worlds:
        rank = jnp.cumsum(worlds.due.astype(jnp.int32))
        # The first of them; what is beyond the last environment is dropped.
        chosen = jnp.searchsorted(rank, jnp.arange(1, count + 1))
        one_each = jax.tree.map(lambda x: x[jnp.minimum(chosen, len(rank) - 1)], worlds)
        begun = jax.vmap(stepper.reset)(one_each)
        after: Worlds = jax.tree.map(lambda x, new: x.at[chosen].set(new, mode="drop"), worlds, begun)
        return after

    result: Worlds = jax.lax.while_loop(lambda worlds: worlds.due.any(), reset_some, worlds)
    return result


def batch_noise(setup: Setup, index: Array, batch: Array) -> Array:
    """Draw the noise of every action of a batch, each environment's from its own key.  [T, E, A]"""
    spaces = setup.spaces
    draw = jax.random.gumbel if spaces.discrete else jax.random.normal
    key = stream_key(setup.seed, Stream.ACTION_NOISE)
    shape = (setup.config.n_steps // setup.common.n_envs, spaces.action_size)

    def of_env(i: Array) -> Array:
        noise: Array = draw(jax.random.fold_in(jax.random.fold_in(key, i), batch), shape)
        return noise

    return jax.vmap(of_env, out_axes=1)(index)


def collect(
    setup: Setup, env: JaxEnv, policy: Tree, mean: Array, inv_std: Array, worlds: Worlds, batch: Array
) -> tuple[Worlds, Collected]:
    """Collect a batch with the policy and the normaliser of a state."""
    net = setup.net
    size = setup.spaces.obs_size if setup.common.normalise_obs else 0
    stepper = Stepper(setup, env)
    numbers = jax.vmap(partial(numbers_in_row, obs_size=setup.spaces.obs_size))

    def is_finite(rows: Array) -> Array:
        # 0 times anything else is not 0; ten times as fast as to ask every number.
        return (0 * numbers(rows)).sum(-1) == 0

    def step(
        carry: tuple[Worlds, Array, Array], given: tuple[Array, Array]
    ) -> tuple[tuple[Worlds, Array, Array], tuple[RawBatch[Array], Array]]:
        worlds, obs_mean, obs_squares = carry
        noise, t = given
        worlds = reset_due(stepper, worlds)
        rows = worlds.row
        action = net.family.sample(net.policy(policy, net.preprocess(rows, mean, inv_std)), noise)
        worlds, reward, terminated = jax.vmap(stepper.step)(worlds, action)
        raw = RawBatch(rows, worlds.row, action, reward, terminated, worlds.due)
        distance = numbers(rows)[:, :size] - obs_mean
        obs_mean += distance / (t + 1)
        obs_squares += distance * (numbers(rows)[:, :size] - obs_mean)
        finite = jnp.stack([is_finite(rows), is_finite(worlds.row)], axis=-1)
        return (worlds, obs_mean, obs_squares), (raw, finite)

    noise = batch_noise(setup, worlds.index, batch)
    worlds = worlds._replace(due=worlds.due | setup.common.reset_each_batch)
    zeros = jnp.zeros((len(worlds.index), size))
    (worlds, obs_mean, obs_squares), (raw, finite) = jax.lax.scan(
        step, (worlds, zeros, zeros), (noise, jnp.arange(len(noise)))
    )
    return worlds, Collected(raw=raw, finite=finite, obs_mean=obs_mean, obs_squares=obs_squares)
