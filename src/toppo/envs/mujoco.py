"""Gymnasium's MuJoCo tasks with less Python around the simulator: the same bytes in two thirds of the time.

Gymnasium's own step finds every array of the simulator by name, checks the action and fills a dictionary: 25 us
beside 35 us of physics.  Here each task's step works on arrays that were found once, and the control costs of a whole
batch can be subtracted from its rewards at once.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

MujocoEnv = Any  # one of Gymnasium's, or its model: the attributes differ from task to task
TaskStep = Callable[[np.ndarray], tuple[float, bool]]
"""An action in; the reward before the control cost, and terminated out."""


class FastStep(NamedTuple):
    """What a task's ``step`` does, with the observation left in a row and without the info."""

    step: TaskStep
    control_cost_weight: float = 0.0  # times the sum of an action's squares; 0 if the step subtracts the cost itself


RUNNERS = {  # and how many of their coordinates, from the first, are not observed
    "gymnasium.envs.mujoco.half_cheetah_v5.HalfCheetahEnv": 1,
    "gymnasium.envs.mujoco.swimmer_v5.SwimmerEnv": 2,
    "gymnasium.envs.mujoco.hopper_v5.HopperEnv": 1,
    "gymnasium.envs.mujoco.walker2d_v5.Walker2dEnv": 1,
}


def control_costs(actions: np.ndarray, weight: float) -> np.ndarray:
    """The cost of every action, in the actions' own precision as Gymnasium takes it.  [..., A] -> [...]"""
    costs: np.ndarray = weight * np.add.reduce(np.square(actions), -1)
    return costs


def fast_step(env: MujocoEnv, row: np.ndarray) -> FastStep | None:
    """The fast step of an environment whose observation is ``row``; None if it is not exactly one of these tasks."""
    name = class_of(env)
    if name not in RUNNERS | OTHER_TASKS or env.render_mode == "human":
        return None
    from mujoco import mjtDisableBit

    if env.model.ntree == 1:
        # The search for parts that do not touch takes 3 to 7% of a step, and one tree of joints is solved in the same
        # way without it.  Older versions have no search.
        env.model.opt.disableflags |= int(getattr(mjtDisableBit, "mjDSBL_ISLAND", 0))
    return OTHER_TASKS.get(name, run)(env, row)


def class_of(env: MujocoEnv) -> str:
    """The name of its class, with the module that it is in."""
    return f"{type(env).__module__}.{type(env).__name__}"


def can_fall(env: MujocoEnv) -> bool:
    """Has the runner a reward for standing, and is its episode over when it falls?"""
    return hasattr(env, "_healthy_reward")


def first_observed(env: MujocoEnv) -> int:
    """The number of a runner's first coordinate that is observed."""
    return RUNNERS[class_of(env)] if env._exclude_current_positions_from_observation else 0


def run(env: MujocoEnv, row: np.ndarray) -> FastStep:
    """HalfCheetah, Swimmer, Hopper, Walker2d: the reward is forward velocity, and health if they can fall."""
    qpos = env.data.qpos
    velocity = env.data.qvel
    x = qpos.item
    dt = env.dt
    weight = env._forward_reward_weight
    simulate = _simulate(env)
    position = qpos[first_observed(env) :]
    row_position = row[: len(position)]
    row_velocity = row[len(position) :]
    falls = can_fall(env)

    def step(action: np.ndarray) -> tuple[float, bool]:
        before = x(0)
        simulate(action)
        row_position[:] = position
        if not falls:
            row_velocity[:] = velocity
        return weight * ((x(0) - before) / dt), False

    if not falls:
        return FastStep(step, env._ctrl_cost_weight)
    max_velocity = np.full(len(velocity), 10.0)
    min_velocity = -max_velocity
    healthy_reward = env._healthy_reward
    ends = env._terminate_when_unhealthy
    low, high = getattr(env, "_healthy_state_range", (-np.inf, np.inf))
    min_z, max_z = env._healthy_z_range
    min_angle, max_angle = env._healthy_angle_range
    bounded = np.isfinite(high)

    def step_or_fall(action: np.ndarray) -> tuple[float, bool]:
        reward, _ = step(action)
        np.minimum(np.maximum(velocity, min_velocity), max_velocity, out=row_velocity)
        state = qpos.tolist()
        in_range = not bounded or all(low < value < high for value in state[2:] + velocity.tolist())
        stands = in_range and min_z < state[1] < max_z and min_angle < state[2] < max_angle
        return reward + stands * healthy_reward, ends and not stands

    return FastStep(step_or_fall, env._ctrl_cost_weight)


def reacher(env: MujocoEnv, row: np.ndarray) -> FastStep:
    """Reacher: the distance of the fingertip from the target, and control."""
    data = env.data
    fingertip = data.body("fingertip").xpos
    target = data.body("target").xpos
    weight = env._reward_dist_weight
    simulate = _simulate(env)
    angles = data.qpos[:2]
    goal = data.qpos[2:]
    speed = data.qvel[:2]
    cosines, sines, row_goal, row_speed, row_gap = np.split(row, [2, 4, 6, 8])

    def step(action: np.ndarray) -> tuple[float, bool]:
        simulate(action)
        gap = fingertip - target
        np.cos(angles, out=cosines)
        np.sin(angles, out=sines)
        row_goal[:] = goal
        row_speed[:] = speed
        row_gap[:] = gap[:2]
        return float(-np.linalg.norm(gap) * weight), False

    return FastStep(step, env._reward_control_weight)


def humanoid(env: MujocoEnv, row: np.ndarray) -> FastStep:
    """Humanoid: as ``run``, with the velocity of the centre of mass and a cost of contacts."""
    qpos = env.data.qpos
    bodies = env.data.xipos
    mass = env.model.body_mass
    total = mass.sum()
    dt = env.dt
    forward_weight = env._forward_reward_weight
    healthy_reward = env._healthy_reward
    ends = env._terminate_when_unhealthy
    min_z, max_z = env._healthy_z_range
    simulate = _simulate_bodies(env, row, "contact")

    def centre() -> float:
        x: float = (np.einsum("b,bj->j", mass, bodies) / total)[0]
        return x

    def step(action: np.ndarray) -> tuple[float, bool]:
        before = centre()
        control_cost, contact_cost = simulate(action)
        stands = bool(min_z < qpos[2] < max_z)
        reward = forward_weight * ((centre() - before) / dt) + stands * healthy_reward - (control_cost + contact_cost)
        return float(reward), ends and not stands

    return FastStep(step)


def humanoid_standup(env: MujocoEnv, row: np.ndarray) -> FastStep:
    """HumanoidStandup: the height of the torso, less control and contacts."""
    qpos = env.data.qpos
    timestep = env.model.opt.timestep
    simulate = _simulate_bodies(env, row, "impact")

    def step(action: np.ndarray) -> tuple[float, bool]:
        control_cost, contact_cost = simulate(action)
        return float(qpos[2] / timestep - control_cost - contact_cost + 1), False

    return FastStep(step)


OTHER_TASKS: dict[str, Callable[[MujocoEnv, np.ndarray], FastStep]] = {
    "gymnasium.envs.mujoco.reacher_v5.ReacherEnv": reacher,
    "gymnasium.envs.mujoco.humanoid_v5.HumanoidEnv": humanoid,
    "gymnasium.envs.mujoco.humanoidstandup_v5.HumanoidStandupEnv": humanoid_standup,
}


def _simulate(env: MujocoEnv) -> Callable[[np.ndarray], None]:
    """Apply an action for ``frame_skip`` steps of the simulator."""
    from mujoco import mj_step

    model = env.model
    data = env.data
    control = data.ctrl
    frames = env.frame_skip

    def simulate(action: np.ndarray) -> None:
        control[:] = action
        mj_step(model, data, frames)

    return simulate


def _simulate_bodies(env: MujocoEnv, row: np.ndarray, contact: str) -> Callable[[np.ndarray], tuple[float, float]]:
    """Apply an action, compute the contact forces and observe every body; the costs of control and of contacts."""
    from mujoco import mj_rnePostConstraint

    model = env.model
    data = env.data
    control = data.ctrl
    forces = data.cfrc_ext
    control_weight = env._ctrl_cost_weight
    contact_weight = getattr(env, f"_{contact}_cost_weight")
    low, high = getattr(env, f"_{contact}_cost_range")
    wanted = (
        (env._include_cinert_in_observation, data.cinert[1:]),
        (env._include_cvel_in_observation, data.cvel[1:]),
        (env._include_qfrc_actuator_in_observation, data.qfrc_actuator[6:]),
        (env._include_cfrc_ext_in_observation, forces[1:]),
    )
    position = data.qpos[2 if env._exclude_current_positions_from_observation else 0 :]
    parts = [position, data.qvel, *(part.reshape(-1) for include, part in wanted if include)]
    simulate = _simulate(env)

    def simulate_bodies(action: np.ndarray) -> tuple[float, float]:
        simulate(action)
        mj_rnePostConstraint(model, data)
        np.concatenate(parts, out=row)
        contact_cost = np.minimum(np.maximum(contact_weight * np.square(forces).sum(), low), high)
        return control_weight * np.square(control).sum(), contact_cost

    return simulate_bodies
