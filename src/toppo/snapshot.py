"""A training state as named arrays and plain facts, and back."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from toppo.maths.moments import Moments
from toppo.rundir.checkpoint import CheckpointError
from toppo.setup import Setup, initial_learner, network
from toppo.types import Memory, OpenEpisode, Scale, Segment, State
from toppo.update import RawBatch, compile_programs


def state_to_arrays(state: State) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Everything in the state: arrays by name, and counters."""
    arrays = {f"learner/{name}": np.asarray(x) for name, x in named_leaves(state.learner).items()}
    for i, segment in enumerate(state.memory):
        arrays |= {f"memory/{i}/{name}": np.asarray(x) for name, x in named_leaves(segment).items()}
    for i, episode in enumerate(state.episodes):
        arrays |= {f"episode/{i}/{name}": getattr(episode, name) for name in ("actions", "rewards", "obs")}
    for name, moments in (("obs", state.obs_moments), ("return", state.return_moments)):
        arrays |= {f"moments/{name}/{part}": np.asarray(value) for part, value in moments._asdict().items()}
    facts = {
        "memory": len(state.memory),
        "started": [e.started for e in state.episodes],
        "batches": state.batches,
        "iteration": state.iteration,
        "steps": state.steps,
    }
    return arrays, facts


def state_from_arrays(setup: Setup, arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> State:
    """The state that ``state_to_arrays`` took apart; every shape must be the one that the spec implies."""
    expected = 0
    try:
        learner = fill(jax.eval_shape(lambda: initial_learner(setup)), arrays, "learner/")
        template = segment_template(setup)
        memory: Memory = tuple(fill(template, arrays, f"memory/{i}/") for i in range(int(facts["memory"])))
        episodes = tuple(_episode(setup, arrays, i, int(n)) for i, n in enumerate(facts["started"]))
        obs_moments = _moments(arrays, "obs", (setup.spaces.obs_size,))
        return_moments = _moments(arrays, "return", ())
        batches, iteration, steps = (int(facts[name]) for name in ("batches", "iteration", "steps"))
        expected = len(named_leaves(learner)) + len(memory) * len(named_leaves(template)) + 3 * len(episodes) + 6
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise CheckpointError(f"the checkpoint does not fit its spec: {error}") from error
    if len(episodes) != setup.common.envs or len(arrays) != expected:
        raise CheckpointError("the checkpoint does not fit its spec: it holds other arrays than the spec implies")
    return State(learner, obs_moments, return_moments, memory, episodes, batches, iteration, steps)


def segment_template(setup: Setup) -> Segment:
    """Shapes and types of a Segment of this run."""
    rows = (setup.config.n // setup.common.envs, setup.common.envs)
    size, spaces = setup.spaces.obs_size, setup.spaces

    def shape(dims: tuple[int, ...], dtype: Any = jnp.float32) -> Any:
        return jax.eval_shape(lambda: jnp.zeros(dims, dtype))

    action = shape(rows, jnp.int32) if spaces.discrete else shape((*rows, spaces.action_size))
    obs = shape((*rows, size))
    raw = RawBatch(obs, obs, action, shape(rows), shape(rows, jnp.bool_), shape(rows, jnp.bool_))
    scale = Scale(shape((size,)), shape((size,)), shape(()))
    net = network(setup.common, spaces)
    label = compile_programs(setup.algorithm, setup.config, setup.common, net).label
    params = jax.eval_shape(lambda: initial_learner(setup)).params
    segment: Segment = jax.eval_shape(label, params, raw, scale, shape((), jnp.int32))[0]
    return segment


def named_leaves(tree: Any) -> dict[str, Any]:
    """The leaves of a tree by their path."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="/"): leaf for path, leaf in leaves}


def fill(template: Any, arrays: Mapping[str, np.ndarray], prefix: str) -> Any:
    """``template`` with the arrays of that prefix in place of its leaves."""
    filled = []
    for name, leaf in named_leaves(template).items():
        array = arrays[prefix + name]
        if array.shape != leaf.shape or array.dtype != leaf.dtype:
            raise ValueError(f"{prefix}{name} is {array.dtype}{array.shape}, but must be {leaf.dtype}{leaf.shape}")
        if not np.isfinite(array).all():
            raise ValueError(f"{prefix}{name} holds a value that is not finite")
        filled.append(jnp.asarray(array))
    return jax.tree.unflatten(jax.tree.structure(template), filled)


def _moments(arrays: Mapping[str, np.ndarray], name: str, shape: tuple[int, ...]) -> Moments:
    n, mean, var = (arrays[f"moments/{name}/{part}"] for part in Moments._fields)
    if n.shape != () or mean.shape != shape or var.shape != shape:
        raise ValueError(f"moments/{name} has arrays of other shapes than the environment's")
    if not all(np.isfinite(x).all() for x in (n, mean, var)) or n < 0 or np.any(var < 0):
        raise ValueError(f"moments/{name} holds values that no data have")
    return Moments(float(n), mean, var)


def _episode(setup: Setup, arrays: Mapping[str, np.ndarray], i: int, started: int) -> OpenEpisode:
    actions, rewards, obs = (arrays[f"episode/{i}/{name}"] for name in ("actions", "rewards", "obs"))
    row = () if setup.spaces.discrete else (setup.spaces.action_size,)
    if actions.shape[1:] != row or rewards.shape != actions.shape[:1] or obs.shape != (setup.spaces.obs_size,):
        raise ValueError(f"episode/{i} has arrays of other shapes than the environment's")
    return OpenEpisode(started, actions, rewards, obs)
