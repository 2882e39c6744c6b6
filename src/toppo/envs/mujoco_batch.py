"""Several MuJoCo tasks of Gymnasium's in one call, with as little as possible between two calls of the simulator."""

from collections.abc import Callable, Sequence

import numpy as np

from toppo.envs.mujoco import RUNNERS, FastStep, MujocoEnv, can_fall, class_of, first_observed

TaskSteps = Callable[[np.ndarray], tuple[Sequence[float], Sequence[bool]]]
"""``TaskStep`` for several environments: actions [E, A] in; rewards and terminated out, each [E]."""


class EnvError(Exception):
    """One of several environments raised an error; the arguments are its number and the error."""


def fast_steps(envs: Sequence[MujocoEnv], fast: Sequence[FastStep], rows: np.ndarray) -> TaskSteps:
    """The fast steps of several environments, whose observations are ``rows`` [E, row], in one call.

    Between two calls of the simulator Python runs at a third of its speed, because the caches hold nothing of it.  So
    all of it comes before the first call and after the last, if the environments are runners of one kind.
    """
    if class_of(envs[0]) in RUNNERS and len({(type(env), env.data.qpos.shape) for env in envs}) == 1:
        return run_all(envs, rows)

    def step(actions: np.ndarray) -> tuple[list[float], list[bool]]:
        answers = []
        for j, (one, action) in enumerate(zip(fast, actions, strict=True)):
            try:
                answers.append(one.step(action))
            except Exception as error:
                raise EnvError(j, error) from error
        return [reward for reward, _ in answers], [terminated for _, terminated in answers]

    return step


def run_all(envs: Sequence[MujocoEnv], rows: np.ndarray) -> TaskSteps:
    """``mujoco.run`` for several environments of one kind."""
    from mujoco import mj_step

    size = len(envs[0].data.qpos)
    start = first_observed(envs[0])
    first = [env.data.qpos[:1] for env in envs]
    all_states = [x for env in envs for x in (env.data.qpos, env.data.qvel)]
    before = np.empty(len(envs))
    state = np.empty((len(envs), size + len(envs[0].data.qvel)))
    flat = state.reshape(-1)
    x = state[:, 0]
    observed = state[:, start:]
    weight = _each(envs, "_forward_reward_weight")
    dt = _each(envs, "dt")
    controls = [env.data.ctrl for env in envs]
    simulators = [(env.model, env.data, env.frame_skip) for env in envs]
    never = [False] * len(envs)

    def run(actions: np.ndarray) -> np.ndarray:
        np.concatenate(first, out=before)
        for control, action in zip(controls, actions, strict=True):
            control[:] = action
        for j, simulator in enumerate(simulators):
            try:
                mj_step(*simulator)
            except Exception as error:
                raise EnvError(j, error) from error
        np.concatenate(all_states, out=flat)
        rows[:] = observed
        reward: np.ndarray = weight * ((x - before) / dt)
        return reward

    if not can_fall(envs[0]):
        return lambda actions: (run(actions).tolist(), never)
    velocity = state[:, size:]
    row_velocity = rows[:, size - start :]
    z = state[:, 1]
    angle = state[:, 2]
    rest = state[:, 2:]
    healthy_reward = _each(envs, "_healthy_reward")
    ends = _each(envs, "_terminate_when_unhealthy")
    min_z, max_z = _each(envs, "_healthy_z_range").T
    min_angle, max_angle = _each(envs, "_healthy_angle_range").T
    bounded = hasattr(envs[0], "_healthy_state_range")
    low, high = _each(envs, "_healthy_state_range").T[..., None] if bounded else (-np.inf, np.inf)

    def run_or_fall(actions: np.ndarray) -> tuple[list[float], list[bool]]:
        reward = run(actions)
        np.minimum(np.maximum(velocity, -10.0), 10.0, out=row_velocity)
        stands = (min_z < z) & (z < max_z) & (min_angle < angle) & (angle < max_angle)
        if bounded:
            stands &= ((low < rest) & (rest < high)).all(1)
        return (reward + stands * healthy_reward).tolist(), (ends & ~stands).tolist()

    return run_or_fall


def _each(envs: Sequence[MujocoEnv], name: str) -> np.ndarray:
    return np.array([getattr(env, name) for env in envs])
