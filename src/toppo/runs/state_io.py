"""A training state as named arrays and plain facts, and back."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from toppo.algos.contract import Memory, Normaliser, Segment
from toppo.collect.episodes import OpenEpisode
from toppo.collect.plan import RawBatch
from toppo.learn.programs import label
from toppo.learn.setup import Setup, initial_learner
from toppo.learn.state import State
from toppo.maths.moments import Moments
from toppo.rundir.checkpoint import CheckpointError


class Shaped(Protocol):
    """An array, or what a file says of one."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Its dimensions."""

    @property
    def dtype(self) -> "np.dtype[Any]":
        """The type of its entries."""


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


def check_arrays(setup: Setup, arrays: Mapping[str, Shaped], facts: Mapping[str, Any]) -> None:
    """Refuse arrays of other names, types or shapes than the spec implies; their contents are not looked at."""
    try:
        learner, spaces = jax.eval_shape(lambda: initial_learner(setup)), setup.spaces
        memory, started = facts["memory"], facts["started"]
        if len(started) != setup.common.n_envs or memory * len(Segment._fields) > len(arrays):
            raise ValueError("it holds other arrays than the spec implies")
        expected = {f"learner/{name}": (x.dtype, x.shape) for name, x in named_leaves(learner).items()}
        for i, template in enumerate(_templates(setup, arrays, memory)):
            segment = named_leaves(template)
            expected |= {f"memory/{i}/{name}": (x.dtype, x.shape) for name, x in segment.items()}
        for i in range(len(started)):
            length = arrays[f"episode/{i}/rewards"].shape
            actions = np.int32 if spaces.discrete else np.float32
            expected[f"episode/{i}/actions"] = (actions, (*length, *spaces.action_row))
            expected[f"episode/{i}/rewards"] = (np.float64, length[:1])
            expected[f"episode/{i}/obs"] = (np.dtype(spaces.row_dtype), (spaces.row_size,))
        for name, shape in (("obs", (spaces.obs_size,)), ("return", ())):
            expected |= {f"moments/{name}/{part}": (np.float64, shape) for part in ("mean", "var")}
            expected[f"moments/{name}/n"] = (np.float64, ())
        for name, (dtype, dims) in expected.items():
            array = arrays[name]
            if array.shape != dims or array.dtype != dtype:
                raise ValueError(f"{name} is {array.dtype}{array.shape}, but must be {np.dtype(dtype)}{dims}")
        if len(arrays) != len(expected):
            raise ValueError("it holds other arrays than the spec implies")
    except KeyError as error:
        raise CheckpointError(f"the checkpoint does not fit its spec: it lacks {error.args[0]}") from error
    except (TypeError, ValueError, IndexError, OverflowError) as error:
        raise CheckpointError(f"the checkpoint does not fit its spec: {error}") from error


def check_facts(setup: Setup, facts: Mapping[str, Any], arrays: Mapping[str, Shaped]) -> None:
    """``check_arrays`` as a reader of checkpoints calls it."""
    check_arrays(setup, arrays, facts.get("state", {}))


def state_from_arrays(setup: Setup, arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> State:
    """The state that ``state_to_arrays`` took apart; a stranger may have made the arrays."""
    check_arrays(setup, arrays, facts)
    try:
        learner = fill(jax.eval_shape(lambda: initial_learner(setup)), arrays, "learner/")
        templates = _templates(setup, arrays, facts["memory"])
        memory: Memory = tuple(fill(template, arrays, f"memory/{i}/") for i, template in enumerate(templates))
        episodes = tuple(_episode(arrays, i, n) for i, n in enumerate(facts["started"]))
        obs_moments, return_moments = _moments(arrays, "obs"), _moments(arrays, "return")
        batches, iteration, steps = (_count(facts[name]) for name in ("batches", "iteration", "steps"))
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"the checkpoint does not fit its spec: {error}") from error
    return State(learner, obs_moments, return_moments, memory, episodes, batches, iteration, steps)


def segment_template(setup: Setup, finals: int = 0) -> Segment:
    """Shapes and types of a Segment of this run; with images, of one with so many rows for truncated episodes."""
    rows = (setup.config.n_steps // setup.common.n_envs, setup.common.n_envs)
    spaces = setup.spaces

    def shape(dims: tuple[int, ...], dtype: Any = jnp.float32) -> Any:
        return jax.eval_shape(lambda: jnp.zeros(dims, dtype))

    action = shape((*rows, *spaces.action_row), jnp.int32 if spaces.discrete else jnp.float32)
    obs = shape((*rows, spaces.row_size), spaces.row_dtype)
    next_obs = shape((rows[1] + finals, spaces.row_size), spaces.row_dtype) if spaces.images else obs
    raw = RawBatch(
        obs=obs,
        next_obs=next_obs,
        action=action,
        reward=shape(rows),
        terminated=shape(rows, jnp.bool_),
        ended=shape(rows, jnp.bool_),
    )
    normaliser = Normaliser(shape((spaces.obs_size,)), shape((spaces.obs_size,)), shape(()))
    params = jax.eval_shape(lambda: initial_learner(setup)).params
    segment: Segment = jax.eval_shape(partial(label, setup), params, raw, normaliser, shape((), jnp.int32))[0]
    return segment


def _templates(setup: Setup, arrays: Mapping[str, Shaped], memory: int) -> list[Segment]:
    """The templates of stored Segments; with images, how many rows one has for truncated episodes is its own affair."""
    images, envs = setup.spaces.images, setup.common.n_envs
    finals = [arrays[f"memory/{i}/next_obs"].shape[0] - envs if images else 0 for i in range(memory)]
    if any(not 0 <= n <= 2 * setup.config.n_steps for n in finals):
        raise ValueError(f"the memory holds {finals} rows for truncated episodes")
    known = {n: segment_template(setup, n) for n in sorted(set(finals))}
    return [known[n] for n in finals]


def named_leaves(tree: Any) -> dict[str, Any]:
    """The leaves of a tree by their path."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="/"): leaf for path, leaf in leaves}


def fill(template: Any, arrays: Mapping[str, np.ndarray], prefix: str) -> Any:
    """``template`` with the arrays of that prefix in place of its leaves."""
    filled = []
    for name in named_leaves(template):
        array = arrays[prefix + name]
        if not np.isfinite(array).all():
            raise ValueError(f"{prefix}{name} holds a value that is not finite")
        filled.append(jnp.asarray(array))
    return jax.tree.unflatten(jax.tree.structure(template), filled)


def _moments(arrays: Mapping[str, np.ndarray], name: str) -> Moments:
    n, mean, var = (arrays[f"moments/{name}/{part}"] for part in Moments._fields)
    if not all(np.isfinite(x).all() for x in (n, mean, var)) or n < 0 or np.any(var < 0):
        raise ValueError(f"moments/{name} holds values that no data have")
    return Moments(float(n), mean, var)


def _episode(arrays: Mapping[str, np.ndarray], i: int, started: Any) -> OpenEpisode:
    actions, rewards, obs = (arrays[f"episode/{i}/{name}"] for name in ("actions", "rewards", "obs"))
    if not all(np.isfinite(x).all() for x in (actions, rewards, obs)):
        raise ValueError(f"episode/{i} holds a value that is not finite")
    return OpenEpisode(_count(started), actions, rewards, obs)


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is not a count")
    return value
