"""The V ratio (section 4.2): how far the estimated values are from Monte-Carlo returns of the policy they speak of.

GePPO's V-trace targets speak of pi_k, ToPPO's GAE targets of mu.  Both are compared with returns of that policy from
the same states of an old batch, in the critic's units: the batch's own normaliser, frozen, and its clip.
"""

from typing import Any, NamedTuple

import numpy as np

from toppo.algos.contract import Segment
from toppo.collect.actor import Actor, mlp_actor, noise_for
from toppo.collect.pool import open_pool
from toppo.envs import Environment, open_environment, resolve
from toppo.learn.loop import train
from toppo.learn.nets import acting_weights
from toppo.learn.setup import Setup, initial_state, plan
from toppo.rng import Stream, rng_for, seed_for
from toppo.runs.evaluate import rollout
from toppo.runs.presets import spec_for
from toppo.runs.run import setup_for

HORIZON = 1000  # gamma^1000 = 0.007 at 0.995
REWARD_CLIP = 10.0


class Measurement(NamedTuple):
    """One look at an old batch during training."""

    step: int
    age: int
    ratio: float  # sum |V - V_hat| / sum |V|
    median: float  # median of |V - V_hat| / |V|
    noise: float  # the ratio that perfect estimates would show, by the spread of the Monte-Carlo returns


class Restart(NamedTuple):
    """A state of the batch: the simulator's full state, and the observation there."""

    row: int
    simulator: np.ndarray
    obs: np.ndarray


def measure_during_training(
    algo: str, env: str, steps: int, every: int, states: int, rollouts: int, seed: int
) -> list[Measurement]:
    """Train, and look at the oldest batch in memory every ``every`` steps."""
    spec = spec_for(env, algo, steps, seed)
    setup = setup_for(spec, env)
    world = open_environment(resolve(env), 0)
    pool = open_pool(plan(setup), env, 0)
    state = initial_state(setup)
    policies: dict[int, Any] = {0: state.learner.params.policy}
    started: dict[int, int] = {}
    found, looked = [], 0
    for iteration in train(setup, state, pool):
        k, state = iteration.state.iteration - 1, iteration.state
        policies[k + 1] = state.learner.params.policy
        started[k] = state.episodes[0].started
        # A selection may leave no old batch for a while: then the look comes as soon as there is one.
        if state.steps // every > looked and len(state.memory) > 1:
            batch, looked = state.memory[0], state.steps // every
            mu = int(batch.iteration)
            speaks_of = policies[k] if setup.algorithm.traits(spec.config).relabels else policies[mu]
            first = started[mu] - episodes_in(batch)
            rng = rng_for(seed, Stream.EVALUATION, 7, k)
            restarts = replay(setup, world, batch, first, rng.choice(spec.config.n_steps, states, replace=False))
            returns = monte_carlo(setup, world, batch, speaks_of, restarts, rollouts, rng)
            estimates = np.asarray(batch.ret)[[r.row for r in restarts], 0]
            found.append(compare(state.steps, k - mu, estimates, returns))
        held = {int(b.iteration) for b in state.memory} | {k + 1}
        policies, started = ({i: x for i, x in kept.items() if i in held} for kept in (policies, started))
    pool.close()
    return found


def episodes_in(batch: Segment) -> int:
    """Resets that a batch took: one at its start, and one after every end but the last row's."""
    return 1 + int(np.asarray(batch.ended)[:-1, 0].sum())


def replay(setup: Setup, world: Environment, batch: Segment, first: int, rows: np.ndarray) -> list[Restart]:
    """Live through a batch again from its seeds and actions, and keep the simulator's state at the given rows."""
    actions, ended = np.asarray(batch.action)[:, 0], np.asarray(batch.ended)[:, 0]
    raw, wanted = np.asarray(batch.obs)[:, 0], set(rows.tolist())
    kept, episode = [], first
    for row in range(max(wanted) + 1):
        if row == 0 or ended[row - 1]:
            world.reset(seed_for(setup.seed, Stream.ENV_RESET, 0, episode))
            episode += 1
        if world.row.astype(np.float32).tobytes() != raw[row].tobytes():
            raise RuntimeError(f"the replay of a batch left its path at row {row}")
        if row in wanted:
            kept.append(Restart(row, simulator_state(world), world.row.copy()))
        world.step(actions[row])
    return kept


def simulator_state(world: Environment) -> np.ndarray:
    """All that the simulator's next step depends on: time, positions, velocities, and what its solver starts from."""
    import mujoco

    inner: Any = world.env.unwrapped
    state = np.empty(mujoco.mj_stateSize(inner.model, mujoco.mjtState.mjSTATE_INTEGRATION))
    mujoco.mj_getState(inner.model, inner.data, state, mujoco.mjtState.mjSTATE_INTEGRATION)
    return state


def put_back(world: Environment, restart: Restart) -> None:
    """Bring the simulator to exactly the state that was kept, and its clock to the start of an episode."""
    import mujoco

    inner: Any = world.env.unwrapped
    world.reset(0)
    mujoco.mj_setState(inner.model, inner.data, restart.simulator, mujoco.mjtState.mjSTATE_INTEGRATION)
    world.row[:] = restart.obs


def monte_carlo(
    setup: Setup,
    world: Environment,
    batch: Segment,
    policy: Any,
    restarts: list[Restart],
    rollouts: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Discounted normalised returns of the policy from every state.  [states, rollouts]"""
    scale = batch.normaliser
    actor = mlp_actor(np.asarray(scale.mean), np.asarray(scale.inv_std), acting_weights(policy))
    returns = np.empty((len(restarts), rollouts))
    for i, restart in enumerate(restarts):
        for j in range(rollouts):
            put_back(world, restart)
            noise = noise_for(rng, HORIZON, setup.spaces.action_size, setup.spaces.discrete)
            returns[i, j] = discounted_return(world, actor, noise, setup.common.gamma, float(scale.reward_scale))
    return returns


def discounted_return(world: Environment, actor: Actor, noise: np.ndarray, gamma: float, reward_factor: float) -> float:
    """The discounted sum of normalised, clipped rewards until the episode terminates or the noise runs out."""
    rewards: list[float] = []
    draws = iter(noise)
    rollout(world, lambda row: actor(row, next(draws))[0], len(noise), rewards.append, ignore_time_limit=True)
    total = 0.0
    discount = 1.0
    for reward in rewards:
        total += discount * min(max(reward * reward_factor, -REWARD_CLIP), REWARD_CLIP)
        discount *= gamma
    return total


def compare(step: int, age: int, estimates: np.ndarray, returns: np.ndarray) -> Measurement:
    """The V ratio of estimates [S] against returns [S, K]."""
    value = returns.mean(1)
    gap, size = np.abs(value - estimates), np.maximum(np.abs(value), 1e-8)
    # The mean of K returns is off by the standard error; a normal error of that size has mean size sqrt(2 / pi) of it.
    error = returns.std(1, ddof=1) / np.sqrt(returns.shape[1]) * np.sqrt(2 / np.pi)
    return Measurement(
        step, age, float(gap.sum() / size.sum()), float(np.median(gap / size)), float(error.sum() / size.sum())
    )
