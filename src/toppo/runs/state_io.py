"""A training state as named arrays and counters, and back."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax import ShapeDtypeStruct

from toppo.algos.contract import Normaliser, Segment, Tree
from toppo.collect.plan import RawBatch
from toppo.envs.spaces_json import spaces_to_json
from toppo.learn.programs import label
from toppo.learn.setup import Setup, initial_learner
from toppo.learn.state import State
from toppo.maths.moments import Moments
from toppo.rundir.checkpoint import CheckpointError, Declared, Facts, refuse_to_replace, write_checkpoint
from toppo.runs.episodes_io import STATES, count, episodes_from_tree, episodes_template, episodes_to_arrays
from toppo.runs.spec import Spec, to_json


def state_to_arrays(state: State) -> tuple[dict[str, np.ndarray], dict[str, object]]:
    """Everything in the state: arrays by name, and counters."""
    episodes, started = episodes_to_arrays(state.episodes)
    tree = {
        "learner": state.learner,
        "memory": state.memory,
        **episodes,
        "moments": {"obs": state.obs_moments, "return": state.return_moments},
    }
    counters = {
        "memory": len(state.memory),
        **started,
        "batches": state.batches,
        "iteration": state.iteration,
        "steps": state.steps,
    }
    return {name: np.asarray(leaf) for name, leaf in _named_leaves(tree).items()}, counters


def describe_agent(spec: Spec, setup: Setup, state: State) -> tuple[dict[str, np.ndarray], dict[str, object]]:
    """Everything that an agent is: arrays by name, and facts."""
    arrays, counters = state_to_arrays(state)
    return arrays, {"spec": to_json(spec), "spaces": spaces_to_json(setup.spaces), "state": counters}


def save_agent(target: Path, spec: Spec, setup: Setup, state: State) -> None:
    """Write an agent into a directory, for ``toppo.load``."""
    refuse_to_replace(target)
    arrays, facts = describe_agent(spec, setup, state)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_checkpoint(target, arrays, facts)


def check_arrays(setup: Setup, arrays: Mapping[str, Declared], counters: Facts) -> Tree:
    """Refuse arrays of other names, types or shapes than the spec implies; return these as a tree."""
    float64 = partial(ShapeDtypeStruct, dtype=np.float64)

    def moments(shape: tuple[int, ...]) -> Tree:
        return {"n": float64(()), "mean": float64(shape), "var": float64(shape)}

    with _refusing_misfits():
        if counters["memory"] * len(Segment._fields) > len(arrays):
            raise ValueError("it holds other arrays than the spec implies")
        tree = {
            "learner": jax.eval_shape(lambda: initial_learner(setup)),
            "memory": _segment_templates(setup, arrays, counters["memory"]),
            **episodes_template(setup, arrays, counters),
            "moments": {"obs": moments((setup.spaces.obs_size,)), "return": moments(())},
        }
        expected = {name: Declared(leaf.dtype, leaf.shape) for name, leaf in _named_leaves(tree).items()}
        for name, (dtype, shape) in expected.items():
            if arrays[name] != (dtype, shape):
                raise ValueError(f"{name} is {arrays[name].dtype}{arrays[name].shape}, but must be {dtype}{shape}")
        if len(arrays) != len(expected):
            raise ValueError("it holds other arrays than the spec implies")
    return tree


def state_from_arrays(setup: Setup, arrays: Mapping[str, np.ndarray], counters: Facts) -> State:
    """The state that ``state_to_arrays`` took apart; the arrays and the counters are untrusted."""
    declared = {name: Declared(array.dtype, array.shape) for name, array in arrays.items()}
    template = check_arrays(setup, declared, counters)
    with _refusing_misfits():
        for name, array in arrays.items():
            if not name.startswith(STATES) and not np.isfinite(array).all():
                raise ValueError(f"{name} holds a value that is not finite")
        tree = jax.tree.unflatten(jax.tree.structure(template), [arrays[name] for name in _named_leaves(template)])
        return State(
            learner=jax.tree.map(jnp.asarray, tree["learner"]),
            obs_moments=_moments(**tree["moments"]["obs"]),
            return_moments=_moments(**tree["moments"]["return"]),
            memory=tuple(jax.tree.map(jnp.asarray, tree["memory"])),
            episodes=episodes_from_tree(tree, counters),
            batches=count(counters["batches"]),
            iteration=count(counters["iteration"]),
            steps=count(counters["steps"]),
        )


@contextmanager
def _refusing_misfits() -> Iterator[None]:
    """Turn what untrusted data raise into a sentence."""
    try:
        yield
    except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
        why = f"it lacks {error.args[0]}" if isinstance(error, KeyError) else error
        raise CheckpointError(f"the checkpoint does not fit its spec: {why}") from error


def _segment_templates(setup: Setup, arrays: Mapping[str, Declared], memory: int) -> list[Segment]:
    """Shapes and types of stored Segments; with images, each has its own number of rows for truncated episodes."""
    images = setup.spaces.images
    finals = [arrays[f"memory/{i}/next_obs"].shape[0] - setup.common.n_envs if images else 0 for i in range(memory)]
    if any(not 0 <= n <= 2 * setup.config.n_steps for n in finals):
        raise ValueError(f"the memory holds {finals} rows for truncated episodes")
    known = {n: jax.eval_shape(partial(_zero_segment, setup, n)) for n in set(finals)}
    return [known[n] for n in finals]


def _zero_segment(setup: Setup, finals: int) -> Segment:
    spaces = setup.spaces
    rows = (setup.config.n_steps // setup.common.n_envs, setup.common.n_envs)
    obs = jnp.zeros((*rows, spaces.row_size), spaces.row_dtype)
    raw = RawBatch(
        obs=obs,
        next_obs=jnp.zeros((rows[1] + finals, spaces.row_size), spaces.row_dtype) if spaces.images else obs,
        action=jnp.zeros((*rows, *spaces.action_row), np.int32 if spaces.discrete else np.float32),
        reward=jnp.zeros(rows),
        terminated=jnp.zeros(rows, bool),
        ended=jnp.zeros(rows, bool),
    )
    normaliser = Normaliser(jnp.zeros(spaces.obs_size), jnp.zeros(spaces.obs_size), jnp.zeros(()))
    return label(setup, initial_learner(setup).params, raw, normaliser, jnp.int32(0))[0]


def _named_leaves(tree: Tree) -> dict[str, Tree]:
    """The leaves of a tree by their path."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="/"): leaf for path, leaf in leaves}


def _moments(n: np.ndarray, mean: np.ndarray, var: np.ndarray) -> Moments:
    if n < 0 or np.any(var < 0):
        raise ValueError("its moments have a negative count or variance")
    return Moments(float(n), mean, var)
