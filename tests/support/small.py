"""Small runs for the tests of the algorithms; equal settings share their compiled programs."""

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support.probes import flip, walk
from toppo.algos import REGISTRY
from toppo.algos.contract import Net, PolicyProblem, Sample
from toppo.algos.settings import Common
from toppo.collect.pool import open_pool
from toppo.envs import describe, make
from toppo.learn import loop
from toppo.learn.loop import Iteration, train
from toppo.learn.nets import gaussian_net
from toppo.learn.programs import Programs, compile_programs
from toppo.learn.setup import Setup, initial_state, plan
from toppo.learn.state import State
from toppo.maths.distributions import Gaussian
from toppo.runs.presets import spec_for
from toppo.runs.spec import algorithm

SMALL: dict[str, Any] = {
    "n_steps": 64,
    "n_minibatches": 4,
    "n_epochs": 4,
    "hidden": (8,),
    "warmup_steps": 64,
    "gamma": 0.9,
    "learning_rate": 0.01,
}
ALGOS = tuple(REGISTRY)
CASES = [(a, e) for a in ALGOS for e in (walk, flip) if (a, e) != ("disc", flip)]
every_case = pytest.mark.parametrize(("algo", "source"), CASES, ids=[f"{a}-{e.__name__}" for a, e in CASES])

_programs: dict[Any, Programs] = {}


def shared_programs(algo: Any, config: Any, common: Common, net: Net) -> Programs:
    shapes = str(jax.eval_shape(lambda: net.init(0)))
    of_the_loop = {
        "learning_rate": 1.0,
        "anneal_lr": False,
        "log_std_init": 0.0,
        "n_envs": 1,
        "reset_each_batch": False,
        "warmup_steps": 0,
    }
    key = (algo.name, config, dataclasses.replace(common, **of_the_loop), shapes)
    if key not in _programs:
        _programs[key] = compile_programs(algo, config, common, net)
    return _programs[key]


def small_setup(
    algo: str, source: Callable[[], Any] = walk, iterations: int = 3, seed: int = 0, **settings: Any
) -> Setup:
    env = make(source)
    spec = spec_for("test", algo, 1, seed, **{**SMALL, **settings})
    return Setup(algorithm(algo), spec.config, spec.common, describe(env), spec.config.n_steps * iterations, seed)


def go(setup: Setup, source: Callable[[], Any] = walk, state: State | None = None) -> list[Iteration]:
    """All iterations; states on the host, because the next update may reuse their memory."""
    pool = open_pool(plan(setup), source, 0)
    if state is not None:
        assert pool.restore(state.episodes) == {}
    original, loop.compile_programs = loop.compile_programs, shared_programs
    try:
        turns = train(setup, state or initial_state(setup), pool)
        return [turn._replace(state=on_host(turn.state)) for turn in turns]
    finally:
        loop.compile_programs = original
        pool.close()


def run(
    algo: str, source: Callable[[], Any] = walk, iterations: int = 3, seed: int = 0, **settings: Any
) -> list[Iteration]:
    return go(small_setup(algo, source, iterations, seed, **settings), source)


def on_host(tree: Any) -> Any:
    return jax.tree.map(lambda x: np.array(x) if isinstance(x, jax.Array) else x, tree)


def learned(turns: list[Iteration]) -> bytes:
    """What the run has learnt: every bit of the learner and every metric."""
    bits = b"".join(np.asarray(x).tobytes() for x in jax.tree.leaves(turns[-1].state.learner))
    return bits + json.dumps([t.metrics for t in turns]).encode()


def parameters(turns: list[Iteration]) -> bytes:
    return b"".join(np.asarray(x).tobytes() for x in jax.tree.leaves(turns[-1].state.learner.params))


def random_problem(
    size: int, old: int = 0, dims: int = 2, seed: int = 0, dtype: Any = np.float32, **settings: Any
) -> PolicyProblem:
    """``size`` samples of pi_k, then ``old`` samples of an older policy, each with the actions that it took."""
    rng = np.random.default_rng(seed)
    common = Common(**{"n_epochs": 1, "n_minibatches": 1, "max_grad_norm": 0.0, **settings})
    net = gaussian_net(3, dims, (5,), 0.0)
    cast = lambda tree: jax.tree.map(lambda x: np.asarray(x, dtype), tree)  # noqa: E731
    policy = cast(jax.tree.map(lambda x: x + 0.3 * rng.normal(size=x.shape), net.init(seed).policy))
    former = cast(jax.tree.map(lambda x: x + 0.1 * rng.normal(size=x.shape), policy))
    obs = rng.normal(size=(size + old, 3)).astype(dtype)
    newest = np.concatenate([np.ones(size, dtype), np.zeros(old, dtype)])
    dist_k, dist_old = (on_host(net.policy(p, obs)) for p in (policy, former))
    dist_mu = Gaussian(*(np.where(newest[:, None] == 1, a, b) for a, b in zip(dist_k, dist_old, strict=True)))
    action = (dist_mu.mean + np.exp(dist_mu.log_std) * rng.normal(size=dist_mu.mean.shape)).astype(dtype)
    logp, logp_k = (np.asarray(net.family.log_prob(d, action)) for d in (dist_mu, dist_k))
    centre = np.where(newest == 1, dtype(1), np.exp(logp_k - logp))
    adv, ret = (rng.normal(size=size + old).astype(dtype) for _ in range(2))
    sample = Sample(obs, action, logp, centre, np.ones_like(adv), adv, ret, newest, dist_k, dist_mu)
    order = np.stack([rng.permutation(size + old) for _ in range(common.n_epochs)]).astype(np.int32)
    order = order.reshape(common.n_epochs, common.n_minibatches, -1)
    numbers = (dtype(3e-4), dtype(1), dtype(0.2))
    return PolicyProblem(common, net, *jax.tree.map(jnp.asarray, (policy, (), sample, order, *numbers)))
