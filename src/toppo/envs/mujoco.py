"""Gymnasium's MuJoCo tasks with less Python around the simulator: the same bytes in two thirds of the time.

Gymnasium's own step finds every array of the simulator by name, checks the action and fills a dictionary: 25 us
beside 35 us of physics.  Here each task's step works on arrays that were found once, and what an action costs can be
taken off the rewards of a whole batch at once.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

MujocoEnv = Any  # one of Gymnasium's, or its model: the attributes differ from task to task
TaskStep = Callable[[np.ndarray], tuple[float, bool]]
"""An action in; reward, before the action's cost, and terminated out."""


class FastStep(NamedTuple):
    """What a task's ``step`` does, with the observation left in a row and without the info."""

    step: TaskStep
    control_cost_weight: float = 0.0  # times the sum of an action's squares; 0 if the step subtracts the cost itself


def control_costs(actions: np.ndarray, weight: float) -> np.ndarray:
    """The cost of every action, in the actions' own precision as Gymnasium takes it.  [..., A] -> [...]"""
    found: np.ndarray = weight * np.add.reduce(np.square(actions), -1)
    return found


def fast_step(env: MujocoEnv, row: np.ndarray) -> FastStep | None:
    """The fast step of an environment that shows what it observes in ``row``.

    None if the environment is not exactly one of Gymnasium's tasks.
    """
    task = TASKS.get(class_of(env))
    if task is None or env.render_mode == "human":
        return None
    disable_island_search(env.model)
    return task(env, row)


def class_of(env: MujocoEnv) -> str:
    """The name of its class, with the module that it is in."""
    return f"{type(env).__module__}.{type(env).__name__}"


def disable_island_search(model: MujocoEnv) -> None:
    """Spare the simulator the search for parts of a body that do not touch, where there is one tree of joints only.

    It takes 3 to 7% of a step, and what is one part is solved as it would be without it.
    """
    from mujoco import mjtDisableBit

    if model.ntree == 1:
        model.opt.disableflags |= int(getattr(mjtDisableBit, "mjDSBL_ISLAND", 0))  # older ones do not look for any


def forward(env: MujocoEnv, row: np.ndarray, hidden: int) -> FastStep:
    """HalfCheetah and Swimmer: forward velocity less control; the first ``hidden`` coordinates are not observed."""
    x, dt, weight = env.data.qpos.item, env.dt, env._forward_reward_weight
    simulate, observe = _simulate(env), _observe(env, row, hidden)

    def step(action: np.ndarray) -> tuple[float, bool]:
        before = x(0)
        simulate(action)
        observe()
        return weight * ((x(0) - before) / dt), False

    return FastStep(step, env._ctrl_cost_weight)


def upright(env: MujocoEnv, row: np.ndarray, state_range: tuple[float, float]) -> FastStep:
    """Hopper and Walker2d: as ``forward``, with a reward for standing, and the end when it falls."""
    qpos, qvel, dt, weight = env.data.qpos, env.data.qvel, env.dt, env._forward_reward_weight
    simulate, observe = _simulate(env), _observe(env, row, 1, clip=10.0)
    reward_for_health, ends = env._healthy_reward, env._terminate_when_unhealthy
    (low, high), (min_z, max_z), (min_angle, max_angle) = state_range, env._healthy_z_range, env._healthy_angle_range
    bounded = np.isfinite(high)

    def healthy(x: list[float]) -> bool:
        inside = not bounded or all(low < value < high for value in x[2:] + qvel.tolist())
        return inside and min_z < x[1] < max_z and min_angle < x[2] < max_angle

    def step(action: np.ndarray) -> tuple[float, bool]:
        before = qpos.item(0)
        simulate(action)
        observe()
        x = qpos.tolist()
        stands = healthy(x)
        return weight * ((x[0] - before) / dt) + stands * reward_for_health, ends and not stands

    return FastStep(step, env._ctrl_cost_weight)


def reacher(env: MujocoEnv, row: np.ndarray) -> FastStep:
    """Reacher: the distance of the fingertip from the target, and control."""
    qpos, qvel = env.data.qpos, env.data.qvel
    fingertip, target = env.data.body("fingertip").xpos, env.data.body("target").xpos
    simulate, near = _simulate(env), env._reward_dist_weight
    angles, aim, speed = qpos[:2], qpos[2:], qvel[:2]
    cosines, sines, shown_aim, shown_speed, shown_gap = row[:2], row[2:4], row[4:6], row[6:8], row[8:]

    def step(action: np.ndarray) -> tuple[float, bool]:
        simulate(action)
        gap = fingertip - target
        np.cos(angles, out=cosines)
        np.sin(angles, out=sines)
        shown_aim[:], shown_speed[:], shown_gap[:] = aim, speed, gap[:2]
        return float(-np.linalg.norm(gap) * near), False

    return FastStep(step, env._reward_control_weight)


def humanoid(env: MujocoEnv, row: np.ndarray) -> FastStep:
    """Humanoid: as ``upright``, measured at the centre of mass, with a cost of contacts."""
    data, dt, weight, control_weight = env.data, env.dt, env._forward_reward_weight, env._ctrl_cost_weight
    simulate, observe, contact = _simulate(env, forces=True), _observe_body(env, row), _contact_cost(env, "contact")
    reward_for_health, ends = env._healthy_reward, env._terminate_when_unhealthy
    (min_z, max_z), z, control = env._healthy_z_range, data.qpos, data.ctrl
    mass, bodies = env.model.body_mass, data.xipos
    total = mass.sum()

    def centre() -> float:
        x: float = (np.einsum("b,bj->j", mass, bodies) / total)[0]
        return x

    def step(action: np.ndarray) -> tuple[float, bool]:
        before = centre()
        simulate(action)
        observe()
        stands = bool(min_z < z[2] < max_z)
        costs = control_weight * np.square(control).sum() + contact()
        reward = weight * ((centre() - before) / dt) + stands * reward_for_health - costs
        return float(reward), ends and not stands

    return FastStep(step)


def humanoid_standup(env: MujocoEnv, row: np.ndarray) -> FastStep:
    """HumanoidStandup: the height of the torso, less control and contacts."""
    simulate, observe, contact = _simulate(env, forces=True), _observe_body(env, row), _contact_cost(env, "impact")
    z, control, control_weight, timestep = env.data.qpos, env.data.ctrl, env._ctrl_cost_weight, env.model.opt.timestep

    def step(action: np.ndarray) -> tuple[float, bool]:
        simulate(action)
        observe()
        return float(z[2] / timestep - control_weight * np.square(control).sum() - contact() + 1), False

    return FastStep(step)


def _simulate(env: MujocoEnv, forces: bool = False) -> Callable[[np.ndarray], None]:
    """Apply an action for ``frame_skip`` steps of the simulator, and find the contact forces if they are asked for."""
    from mujoco import mj_rnePostConstraint, mj_step

    model, data, control, frames = env.model, env.data, env.data.ctrl, env.frame_skip

    def simulate(action: np.ndarray) -> None:
        control[:] = action
        mj_step(model, data, frames)
        if forces:
            mj_rnePostConstraint(model, data)

    return simulate


def _observe(env: MujocoEnv, row: np.ndarray, hidden: int, clip: float = np.inf) -> Callable[[], None]:
    """Positions, without the hidden ones, and velocities, clipped."""
    start = hidden if env._exclude_current_positions_from_observation else 0
    position, velocity = env.data.qpos[start:], env.data.qvel
    shown_position, shown_velocity = row[: len(position)], row[len(position) :]
    high = np.full(len(velocity), clip)
    low, limited = -high, clip < np.inf

    def observe() -> None:
        shown_position[:] = position
        if limited:
            np.minimum(np.maximum(velocity, low), high, out=shown_velocity)
        else:
            shown_velocity[:] = velocity

    return observe


def _observe_body(env: MujocoEnv, row: np.ndarray) -> Callable[[], np.ndarray]:
    """Positions, velocities, and what is asked for of inertia, velocity, actuation and contact of every body."""
    data, start = env.data, 2 if env._exclude_current_positions_from_observation else 0
    wanted = (
        (env._include_cinert_in_observation, data.cinert[1:]),
        (env._include_cvel_in_observation, data.cvel[1:]),
        (env._include_qfrc_actuator_in_observation, data.qfrc_actuator[6:]),
        (env._include_cfrc_ext_in_observation, data.cfrc_ext[1:]),
    )
    parts = [data.qpos[start:], data.qvel, *(part.reshape(-1) for include, part in wanted if include)]
    return lambda: np.concatenate(parts, out=row)


def _contact_cost(env: MujocoEnv, name: str) -> Callable[[], float]:
    weight, (low, high) = getattr(env, f"_{name}_cost_weight"), getattr(env, f"_{name}_cost_range")
    forces = env.data.cfrc_ext
    return lambda: np.minimum(np.maximum(weight * np.square(forces).sum(), low), high)


TASKS: dict[str, Callable[[MujocoEnv, np.ndarray], FastStep]] = {
    "gymnasium.envs.mujoco.half_cheetah_v5.HalfCheetahEnv": lambda env, row: forward(env, row, hidden=1),
    "gymnasium.envs.mujoco.swimmer_v5.SwimmerEnv": lambda env, row: forward(env, row, hidden=2),
    "gymnasium.envs.mujoco.hopper_v5.HopperEnv": lambda env, row: upright(env, row, env._healthy_state_range),
    "gymnasium.envs.mujoco.walker2d_v5.Walker2dEnv": lambda env, row: upright(env, row, (-np.inf, np.inf)),
    "gymnasium.envs.mujoco.reacher_v5.ReacherEnv": reacher,
    "gymnasium.envs.mujoco.humanoid_v5.HumanoidEnv": humanoid,
    "gymnasium.envs.mujoco.humanoidstandup_v5.HumanoidStandupEnv": humanoid_standup,
}
