"""Several MuJoCo tasks of Gymnasium's in step, with nothing between two calls of the simulator where that can be."""

from collections.abc import Callable, Sequence

import numpy as np

from toppo.envs.mujoco import FastStep, MujocoEnv, class_of

TaskSteps = Callable[[np.ndarray], tuple[Sequence[float], Sequence[bool]]]
"""``Step`` for several environments: actions [E, A] in; rewards and terminated out, each [E]."""

# Hidden coordinates; can it fall, and has its state a bound of its own?
RUNNERS: dict[str, tuple[int, bool, bool]] = {
    "gymnasium.envs.mujoco.half_cheetah_v5.HalfCheetahEnv": (1, False, False),
    "gymnasium.envs.mujoco.swimmer_v5.SwimmerEnv": (2, False, False),
    "gymnasium.envs.mujoco.hopper_v5.HopperEnv": (1, True, True),
    "gymnasium.envs.mujoco.walker2d_v5.Walker2dEnv": (1, True, False),
}


class EnvError(Exception):
    """One of several environments raised an error."""

    def __init__(self, place: int, error: Exception) -> None:
        """Which one, and what it raised."""
        super().__init__(place, error)
        self.place, self.error = place, error


def fast_steps(envs: Sequence[MujocoEnv], fast: Sequence[FastStep], rows: np.ndarray) -> TaskSteps:
    """What the fast steps of several environments do, which show what they observe in ``rows`` [E, row].

    Between two calls of the simulator Python runs at a third of its speed, because nothing of it is left in the caches:
    where it can be done, it all comes before the first call and after the last.
    """
    runners = RUNNERS.get(class_of(envs[0]))
    if runners and len({(type(env), env.data.qpos.shape) for env in envs}) == 1:
        return run_all(envs, rows, *runners)

    def step(actions: np.ndarray) -> tuple[list[float], list[bool]]:
        rewards, terminated = [], []
        for j, (one, action) in enumerate(zip(fast, actions, strict=True)):
            try:
                reward, ended = one.step(action)
            except Exception as error:
                raise EnvError(j, error) from error
            rewards.append(reward)
            terminated.append(ended)
        return rewards, terminated

    return step


def run_all(envs: Sequence[MujocoEnv], rows: np.ndarray, hidden: int, falls: bool, bounded: bool) -> TaskSteps:
    """``forward`` or, if they can fall, ``upright`` for several environments."""
    datas, weight, dt = [env.data for env in envs], _each(envs, "_forward_reward_weight"), _each(envs, "dt")
    size = len(datas[0].qpos)
    start = hidden if envs[0]._exclude_current_positions_from_observation else 0
    first, everything = [data.qpos[:1] for data in datas], [x for data in datas for x in (data.qpos, data.qvel)]
    before, state = np.empty(len(envs)), np.empty((len(envs), size + len(datas[0].qvel)))
    flat, x, seen, simulate = state.reshape(-1), state[:, 0], state[:, start:], _simulate_all(envs)
    shown_velocity, velocity, never = rows[:, size - start :], state[:, size:], [False] * len(envs)

    def run(actions: np.ndarray) -> np.ndarray:
        np.concatenate(first, out=before)
        simulate(actions)
        np.concatenate(everything, out=flat)
        rows[:] = seen
        reward: np.ndarray = weight * ((x - before) / dt)
        return reward

    if not falls:
        return lambda actions: (run(actions).tolist(), never)
    reward_for_health, ends = _each(envs, "_healthy_reward"), _each(envs, "_terminate_when_unhealthy")
    (min_z, max_z), (min_angle, max_angle) = _each(envs, "_healthy_z_range").T, _each(envs, "_healthy_angle_range").T
    low, high = _each(envs, "_healthy_state_range").T[..., None] if bounded else (-np.inf, np.inf)

    def run_or_fall(actions: np.ndarray) -> tuple[list[float], list[bool]]:
        reward = run(actions)
        np.minimum(np.maximum(velocity, -10.0), 10.0, out=shown_velocity)
        z, angle, rest = state[:, 1], state[:, 2], state[:, 2:]
        stands = (min_z < z) & (z < max_z) & (min_angle < angle) & (angle < max_angle)
        if bounded:
            stands &= ((low < rest) & (rest < high)).all(1)
        return (reward + stands * reward_for_health).tolist(), (ends & ~stands).tolist()

    return run_or_fall


def _each(envs: Sequence[MujocoEnv], name: str) -> np.ndarray:
    return np.array([getattr(env, name) for env in envs])


def _simulate_all(envs: Sequence[MujocoEnv]) -> Callable[[np.ndarray], None]:
    """Apply an action to each for ``frame_skip`` steps of the simulator."""
    from mujoco import mj_step

    controls = [env.data.ctrl for env in envs]
    worlds = [(env.model, env.data, env.frame_skip) for env in envs]

    def simulate(actions: np.ndarray) -> None:
        for control, action in zip(controls, actions, strict=True):
            control[:] = action
        for j, world in enumerate(worlds):
            try:
                mj_step(*world)
            except Exception as error:
                raise EnvError(j, error) from error

    return simulate
