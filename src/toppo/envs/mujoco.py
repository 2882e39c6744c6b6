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


class Runner(NamedTuple):
    """What sets HalfCheetah, Swimmer, Hopper and Walker2d apart."""

    hidden: int  # coordinates at the start that are not observed
    falls: bool  # is there a reward for standing, and the end of the episode when it falls?
    bounded: bool = False  # must its state stay in a range to count as standing?


RUNNERS = {
    "gymnasium.envs.mujoco.half_cheetah_v5.HalfCheetahEnv": Runner(hidden=1, falls=False),
    "gymnasium.envs.mujoco.swimmer_v5.SwimmerEnv": Runner(hidden=2, falls=False),
    "gymnasium.envs.mujoco.hopper_v5.HopperEnv": Runner(hidden=1, falls=True, bounded=True),
    "gymnasium.envs.mujoco.walker2d_v5.Walker2dEnv": Runner(hidden=1, falls=True),
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
    disable_island_search(env.model)
    return run(env, row, RUNNERS[name]) if name in RUNNERS else OTHER_TASKS[name](env, row)


def class_of(env: MujocoEnv) -> str:
    """The name of its class, with the module that it is in."""
    return f"{type(env).__module__}.{type(env).__name__}"


def disable_island_search(model: MujocoEnv) -> None:
    """Spare the simulator the search for parts that do not touch, if there is only one tree of joints.

    The search takes 3 to 7% of a step, and a single part is solved in the same way without it.
    """
    from mujoco import mjtDisableBit

    if model.ntree == 1:
        model.opt.disableflags |= int(getattr(mjtDisableBit, "mjDSBL_ISLAND", 0))  # older versions have no search


def run(env: MujocoEnv, row: np.ndarray, runner: Runner) -> FastStep:
    """HalfCheetah, Swimmer, Hopper, Walker2d: the reward is forward velocity, and health if they can fall."""
    qpos = env.data.qpos
    qvel = env.data.qvel
    x = qpos.item
    dt = env.dt
    weight = env._forward_reward_weight
    simulate = _simulate(env)
    observe = _observe(env, row, runner.hidden, clip=10.0 if runner.falls else np.inf)

    def step(action: np.ndarray) -> tuple[float, bool]:
        before = x(0)
        simulate(action)
        observe()
        return weight * ((x(0) - before) / dt), False

    if not runner.falls:
        return FastStep(step, env._ctrl_cost_weight)
    healthy_reward = env._healthy_reward
    ends = env._terminate_when_unhealthy
    low, high = env._healthy_state_range if runner.bounded else (-np.inf, np.inf)
    min_z, max_z = env._healthy_z_range
    min_angle, max_angle = env._healthy_angle_range
    bounded = np.isfinite(high)

    def step_or_fall(action: np.ndarray) -> tuple[float, bool]:
        reward, _ = step(action)
        state = qpos.tolist()
        in_range = not bounded or all(low < value < high for value in state[2:] + qvel.tolist())
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
    control = env.data.ctrl
    bodies = env.data.xipos
    mass = env.model.body_mass
    total = mass.sum()
    dt = env.dt
    forward_weight = env._forward_reward_weight
    control_weight = env._ctrl_cost_weight
    healthy_reward = env._healthy_reward
    ends = env._terminate_when_unhealthy
    min_z, max_z = env._healthy_z_range
    simulate = _simulate(env, forces=True)
    observe = _observe_body(env, row)
    contact_cost = _contact_cost(env, "contact")

    def centre() -> float:
        x: float = (np.einsum("b,bj->j", mass, bodies) / total)[0]
        return x

    def step(action: np.ndarray) -> tuple[float, bool]:
        before = centre()
        simulate(action)
        observe()
        stands = bool(min_z < qpos[2] < max_z)
        costs = control_weight * np.square(control).sum() + contact_cost()
        reward = forward_weight * ((centre() - before) / dt) + stands * healthy_reward - costs
        return float(reward), ends and not stands

    return FastStep(step)


def humanoid_standup(env: MujocoEnv, row: np.ndarray) -> FastStep:
    """HumanoidStandup: the height of the torso, less control and contacts."""
    qpos = env.data.qpos
    control = env.data.ctrl
    control_weight = env._ctrl_cost_weight
    timestep = env.model.opt.timestep
    simulate = _simulate(env, forces=True)
    observe = _observe_body(env, row)
    contact_cost = _contact_cost(env, "impact")

    def step(action: np.ndarray) -> tuple[float, bool]:
        simulate(action)
        observe()
        return float(qpos[2] / timestep - control_weight * np.square(control).sum() - contact_cost() + 1), False

    return FastStep(step)


OTHER_TASKS: dict[str, Callable[[MujocoEnv, np.ndarray], FastStep]] = {
    "gymnasium.envs.mujoco.reacher_v5.ReacherEnv": reacher,
    "gymnasium.envs.mujoco.humanoid_v5.HumanoidEnv": humanoid,
    "gymnasium.envs.mujoco.humanoidstandup_v5.HumanoidStandupEnv": humanoid_standup,
}


def _simulate(env: MujocoEnv, forces: bool = False) -> Callable[[np.ndarray], None]:
    """Apply an action for ``frame_skip`` steps of the simulator, and compute the contact forces if asked to."""
    from mujoco import mj_rnePostConstraint, mj_step

    model = env.model
    data = env.data
    control = data.ctrl
    frames = env.frame_skip

    def simulate(action: np.ndarray) -> None:
        control[:] = action
        mj_step(model, data, frames)
        if forces:
            mj_rnePostConstraint(model, data)

    return simulate


def _observe(env: MujocoEnv, row: np.ndarray, hidden: int, clip: float) -> Callable[[], None]:
    """Write positions, without the hidden ones, and clipped velocities into the row."""
    position = env.data.qpos[hidden if env._exclude_current_positions_from_observation else 0 :]
    velocity = env.data.qvel
    row_position = row[: len(position)]
    row_velocity = row[len(position) :]
    high = np.full(len(velocity), clip)
    low = -high
    limited = clip < np.inf

    def observe() -> None:
        row_position[:] = position
        if limited:
            np.minimum(np.maximum(velocity, low), high, out=row_velocity)
        else:
            row_velocity[:] = velocity

    return observe


def _observe_body(env: MujocoEnv, row: np.ndarray) -> Callable[[], np.ndarray]:
    """Write positions, velocities, and the wanted of inertia, velocity, actuation and contact of every body."""
    data = env.data
    start = 2 if env._exclude_current_positions_from_observation else 0
    wanted = (
        (env._include_cinert_in_observation, data.cinert[1:]),
        (env._include_cvel_in_observation, data.cvel[1:]),
        (env._include_qfrc_actuator_in_observation, data.qfrc_actuator[6:]),
        (env._include_cfrc_ext_in_observation, data.cfrc_ext[1:]),
    )
    parts = [data.qpos[start:], data.qvel, *(part.reshape(-1) for include, part in wanted if include)]
    return lambda: np.concatenate(parts, out=row)


def _contact_cost(env: MujocoEnv, name: str) -> Callable[[], float]:
    weight = getattr(env, f"_{name}_cost_weight")
    low, high = getattr(env, f"_{name}_cost_range")
    forces = env.data.cfrc_ext
    return lambda: np.minimum(np.maximum(weight * np.square(forces).sum(), low), high)
