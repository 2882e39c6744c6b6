"""An environment written in JAX behind Gymnasium's interface: for the check before training and for single episodes."""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec

from toppo.envs.spaces import EnvAction, Info, Obs, shortened
from toppo.errors import EnvironmentFault, as_environment_fault
from toppo.jaxenvs.protocol import JaxEnv, Tree


class JaxEnvInGymnasium(gym.Env[Obs, EnvAction]):
    """Steps one environment, with the compiled ``reset`` and ``step``."""

    def __init__(self, env: JaxEnv) -> None:
        """Trace both functions once, and refuse those that cannot be steps of one loop."""
        import jax

        self.observation_space = env.observation_space
        self.action_space = env.action_space
        self.spec = EnvSpec("JaxEnv-v0", max_episode_steps=env.episode_limit)
        refuse_unsteady(env)
        self._reset = jax.jit(env.reset)
        self._step = jax.jit(env.step)
        self._next_key: Callable[[], Any]
        self._state: Tree = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Obs, Info]:
        """Begin an episode that follows from the seed."""
        import jax

        super().reset(seed=seed)
        key = jax.random.key(int(self.np_random.integers(2**31)), impl="threefry2x32")
        keys = (jax.random.fold_in(key, i) for i in range(2**31))
        self._next_key = keys.__next__
        self._state, obs = self._reset(self._next_key())
        return jax.tree.map(np.asarray, obs), {}

    def step(self, action: EnvAction) -> tuple[Obs, float, bool, bool, Info]:
        """Take a step."""
        import jax

        answer = self._step(self._next_key(), self._state, np.asarray(action))
        self._state, obs, reward, terminated, truncated = answer
        return jax.tree.map(np.asarray, obs), float(reward), bool(terminated), bool(truncated), {}


def refuse_unsteady(env: JaxEnv) -> None:
    """Refuse functions whose answers have not the form, or change their shapes and types from step to step.

    Nothing is computed: JAX follows shapes and types through the functions.
    """
    import jax
    import jax.numpy as jnp

    key = jax.eval_shape(lambda: jax.random.key(0))
    begun = traced("reset(key)", lambda: jax.eval_shape(env.reset, key), "(state, observation)", 2)
    space = env.action_space
    action = jax.eval_shape(lambda: jnp.zeros(space.shape or (), jax.dtypes.canonicalize_dtype(space.dtype or int)))
    form = "(state, observation, reward, terminated, truncated)"
    stepped = traced("step(key, state, action)", lambda: jax.eval_shape(env.step, key, begun[0], action), form, 5)
    for what, before, after in zip(("state", "observation"), begun, stepped[:2], strict=True):
        refuse_change(what, before, after)
    for name, kinds, value in zip(("reward", "terminated", "truncated"), ("iuf", "b", "b"), stepped[2:], strict=True):
        if value.shape != () or value.dtype.kind not in kinds:
            rule = "one boolean" if kinds == "b" else "one number"
            raise EnvironmentFault(
                f"step(key, state, action) gives {name} as {value.dtype}{list(value.shape)}, but it must be {rule}"
            )


def traced(call: str, follow: Callable[[], Any], form: str, count: int) -> Any:
    """The shapes and types of what a function returns, if it has the right form."""
    with as_environment_fault(call):
        answer = follow()
    if not isinstance(answer, tuple) or len(answer) != count:
        raise EnvironmentFault(f"{call} returned {shortened(answer)}, but must return {form}")
    return answer


def refuse_change(what: str, before: Tree, after: Tree) -> None:
    """Refuse a state or an observation that is another pytree after a step than after a reset."""
    import jax

    old: object = jax.tree.structure(before)
    new: object = jax.tree.structure(after)
    if old != new:  # not their texts: those of two equal pytrees may differ
        raise EnvironmentFault(
            f"the {what} is {old!s:.100} after reset and {new!s:.100} after step: make them the same pytree"
        )
    for (path, a), b in zip(jax.tree_util.tree_leaves_with_path(before), jax.tree.leaves(after), strict=True):
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            raise EnvironmentFault(
                f"the {what}{jax.tree_util.keystr(path)} is {a.dtype}{list(a.shape)} after reset and "
                f"{b.dtype}{list(b.shape)} after step: give it one type and shape"
            )
