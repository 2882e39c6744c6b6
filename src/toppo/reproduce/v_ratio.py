"""The V ratio (section 4.2): how far estimated values are from Monte-Carlo returns of the policy that they estimate.

GePPO's V-trace targets estimate the values of pi_k, ToPPO's GAE targets those of mu.  Both are compared with returns of
that policy from the same states of an old batch, in the units of the critic: normalised and clipped as in the batch.
"""

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from toppo import plotting
from toppo.algos.contract import Segment, Tree
from toppo.collect.actor import mlp_actor_factory, noise_for
from toppo.envs import Environment, resolve
from toppo.envs.single import open_environment
from toppo.errors import BAD_DATA, ToppoError
from toppo.learn.nets import actor_weights
from toppo.learn.session import open_session
from toppo.learn.setup import Setup, initial_state
from toppo.report.text import counted
from toppo.reproduce.two_action import draw_two_action
from toppo.rng import Stream, rng_for, seed_for
from toppo.rundir.layout import read_json
from toppo.runs.evaluate import rollout
from toppo.runs.presets import spec_for
from toppo.runs.run import setup_for

HORIZON = 1000  # gamma^1000 = 0.007 at 0.995
REWARD_CLIP = 10.0
TASKS = ("HalfCheetah-v5", "Hopper-v5", "Swimmer-v5")
ALGOS = {"geppo": "GePPO: V-trace, pi_k", "toppo": "ToPPO: GAE, mu"}

Row = dict[str, Any]


class Measurement(NamedTuple):
    """One measurement of an old batch during training."""

    step: int
    age: int
    ratio: float  # sum |V - V_hat| / sum |V|
    median: float  # median of |V - V_hat| / |V|
    noise: float  # the ratio that perfect estimates would show, by the spread of the Monte-Carlo returns


class Restart(NamedTuple):
    """A state of the batch: the simulator's full state, and the observation there."""

    row: int
    state: np.ndarray
    obs: np.ndarray


class Scale(NamedTuple):
    """How much is measured."""

    steps: int
    every: int  # steps between two measurements
    states: int
    rollouts: int  # of every state
    seeds: int


SCALES = {
    "quick": Scale(steps=100_000, every=20_000, states=12, rollouts=4, seeds=1),
    "paper": Scale(steps=1_000_000, every=50_000, states=64, rollouts=8, seeds=10),
}


def measure_during_training(algo: str, env: str, scale: Scale, seed: int) -> list[Measurement]:
    """Train, and measure the V ratio of the oldest batch in memory every ``scale.every`` steps."""
    spec = spec_for(env, algo, scale.steps, seed, "paper")
    setup = setup_for(spec, env)
    simulator = open_environment(resolve(env), 0)
    state = initial_state(setup)
    policies: dict[int, Tree] = {0: state.learner.params.policy}  # by iteration
    started: dict[int, int] = {}  # episodes so far, by iteration
    found: list[Measurement] = []
    measured = 0
    with open_session(setup, env) as session:
        for iteration in session.train(state):
            state = iteration.state
            k = state.iteration - 1
            policies[k + 1] = state.learner.params.policy
            started[k] = state.episodes[0].started
            # The selection may keep no old batch for a while: then the measurement waits until there is one.
            if state.steps // scale.every > measured and len(state.memory) > 1:
                measured = state.steps // scale.every
                batch = state.memory[0]
                mu = int(batch.iteration)
                policy = policies[k] if setup.algorithm.traits(spec.config).relabels else policies[mu]
                rng = rng_for(seed, Stream.EVALUATION, 7, k)
                rows = rng.choice(spec.config.n_steps, scale.states, replace=False)
                restarts = replay(setup, simulator, batch, started[mu] - episodes_in(batch), rows)
                returns = monte_carlo(setup, simulator, batch, policy, restarts, scale.rollouts, rng)
                estimates = np.asarray(batch.ret)[[r.row for r in restarts], 0]
                found.append(compare(state.steps, k - mu, estimates, returns))
            held = {int(b.iteration) for b in state.memory} | {k + 1}
            policies = {i: policy for i, policy in policies.items() if i in held}
    return found


def episodes_in(batch: Segment) -> int:
    """Count the resets of a batch: one at its start, and one after every end but the last row's."""
    return 1 + int(np.asarray(batch.ended)[:-1, 0].sum())


def replay(setup: Setup, simulator: Environment, batch: Segment, first: int, rows: np.ndarray) -> list[Restart]:
    """Replay a batch from its seeds and actions, and keep the simulator's state at the given rows."""
    ended = np.asarray(batch.ended)[:, 0]
    obs = np.asarray(batch.obs)[:, 0]
    kept = []
    episode = first
    for row in range(rows.max() + 1):
        if row == 0 or ended[row - 1]:
            simulator.reset(seed_for(setup.seed, Stream.ENV_RESET, 0, episode))
            episode += 1
        if simulator.row.astype(np.float32).tobytes() != obs[row].tobytes():
            raise RuntimeError(f"the replay of a batch left its path at row {row}")
        if row in rows:
            kept.append(Restart(row, simulator_state(simulator), simulator.row.copy()))
        simulator.step(np.asarray(batch.action)[row, 0])
    return kept


def simulator_state(simulator: Environment) -> np.ndarray:
    """Return all that the next step depends on: time, positions, velocities, and the start values of the solver."""
    import mujoco

    inner: Any = simulator.env.unwrapped
    state = np.empty(mujoco.mj_stateSize(inner.model, mujoco.mjtState.mjSTATE_INTEGRATION))
    mujoco.mj_getState(inner.model, inner.data, state, mujoco.mjtState.mjSTATE_INTEGRATION)
    return state


def restore(simulator: Environment, restart: Restart) -> None:
    """Bring the simulator to exactly the kept state, and the step count to the start of an episode."""
    import mujoco

    inner: Any = simulator.env.unwrapped
    simulator.reset(0)
    mujoco.mj_setState(inner.model, inner.data, restart.state, mujoco.mjtState.mjSTATE_INTEGRATION)
    simulator.row[:] = restart.obs


def monte_carlo(
    setup: Setup,
    simulator: Environment,
    batch: Segment,
    policy: Tree,
    restarts: list[Restart],
    rollouts: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return the discounted normalised returns of the policy from every state.  [states, rollouts]"""
    scale = batch.normaliser
    factory = mlp_actor_factory(setup.spaces, setup.common.activation)
    actor = factory(np.asarray(scale.mean), np.asarray(scale.inv_std), actor_weights(policy), 1)
    reward_scale = float(scale.reward_scale)

    def discounted_return(restart: Restart) -> float:
        """sum_t gamma^t clip(r_t scale) until the episode terminates or the horizon is reached."""
        restore(simulator, restart)
        noise = iter(noise_for(rng, HORIZON, setup.spaces.action_size, setup.spaces.discrete))
        rewards: list[float] = []
        rollout(simulator, lambda row: actor(row, next(noise))[0], HORIZON, rewards.append, ignore_time_limit=True)
        total = 0.0
        discount = 1.0
        for reward in rewards:
            total += discount * min(max(reward * reward_scale, -REWARD_CLIP), REWARD_CLIP)
            discount *= setup.common.gamma
        return total

    return np.array([[discounted_return(restart) for _ in range(rollouts)] for restart in restarts])


def compare(step: int, age: int, estimates: np.ndarray, returns: np.ndarray) -> Measurement:
    """Return the V ratio of estimates [S] against returns [S, K]."""
    value = returns.mean(1)
    gap = np.abs(value - estimates)
    size = np.maximum(np.abs(value), 1e-8)
    # The mean of K returns is off by the standard error; a normal error has the mean size sqrt(2 / pi) of that.
    error = returns.std(1, ddof=1) / np.sqrt(returns.shape[1]) * np.sqrt(2 / np.pi)
    return Measurement(
        step=step,
        age=age,
        ratio=float(gap.sum() / size.sum()),
        median=float(np.median(gap / size)),
        noise=float(error.sum() / size.sum()),
    )


def make_figure(scale_name: str, out: Path, echo: Callable[[str], None]) -> None:
    """Measure V ratios, continuing where the last call stopped, and draw them beside the two-action example."""
    scale = SCALES[scale_name]
    rows = measured_before(out / "v-ratio.json", scale_name)
    done = {(r["env"], r["algo"], r["seed"]) for r in rows}
    for env, algo, seed in product(TASKS, ALGOS, range(scale.seeds)):
        if (env, algo, seed) in done:
            continue
        found = measure_during_training(algo, env, scale, seed)
        rows += [{"env": env, "algo": algo, "seed": seed, **m._asdict()} for m in found]
        data = json.dumps({"scale": scale_name, "rows": rows}, indent=1)
        plotting.write_output(out / "v-ratio.json", data.encode() + b"\n")
        ratio = np.median([m.ratio for m in found])
        noise = np.median([m.noise for m in found])
        echo(f"{env}, {algo}, seed {seed}: median V ratio {ratio:.3f}; sampling noise alone gives {noise:.3f}")
    paper = SCALES["paper"]
    smaller = f"{scale.steps:,} steps instead of {paper.steps:,}, {scale.seeds} of {paper.seeds} seeds"
    plotting.save_png_and_pdf(draw(rows, scale.seeds), out, "v-ratio", smaller if scale_name == "quick" else "")


def measured_before(path: Path, scale: str) -> list[Row]:
    """Return the rows of the runs that were finished before the last call was stopped."""
    if not path.exists():
        return []
    data = read_json(path)
    kinds: dict[str, type] = {"env": str, "algo": str, "seed": int} | Measurement.__annotations__
    try:
        rows = data["rows"] if data["scale"] == scale else []
        return [{name: kind(row[name]) for name, kind in kinds.items()} for row in rows]
    except (KeyError, TypeError, ValueError) as error:
        raise ToppoError(
            f"{path} does not hold the data of this figure: move it, or choose another --out", BAD_DATA
        ) from error


def draw(rows: list[Row], seeds: int) -> Figure:
    """Draw the V ratio over training on every task, and the two-action example."""
    figure, axes = plotting.subplots(1, len(TASKS) + 1, width=3.6)
    for axis, env in zip(axes[0], TASKS, strict=False):
        for algo, name in ALGOS.items():
            mine = [r for r in rows if r["env"] == env and r["algo"] == algo]
            if not mine:  # the run never kept an old batch
                continue
            axis.plot(*over_seeds(mine, "ratio"), "-", color=plotting.COLOURS[algo], label=name, linewidth=1.6)
            axis.plot(*over_seeds(mine, "noise"), ":", color=plotting.COLOURS[algo], linewidth=1.6)
        plotting.set_title(axis, f"{env} ({counted('run', seeds)})")
        plotting.set_labels(axis, "environment steps")
        axis.set_yscale("log")
    plotting.set_labels(axes[0, 0], "environment steps", "sum |V - V_hat| / sum |V|\n(dotted: sampling noise)")
    plotting.add_legend(axes[0, 0])
    draw_two_action(axes[0, -1])
    return figure


def over_seeds(rows: list[Row], name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return steps and the mean of a measurement over all seeds there, interpolated between measurements."""
    seeds = [[r for r in rows if r["seed"] == seed] for seed in sorted({r["seed"] for r in rows})]
    steps = [np.array([r["step"] for r in mine]) for mine in seeds]
    grid = np.unique(np.concatenate(steps))
    grid = grid[(grid >= max(s[0] for s in steps)) & (grid <= min(s[-1] for s in steps))]  # where all seeds have data
    lines = [np.interp(grid, s, [r[name] for r in mine]) for s, mine in zip(steps, seeds, strict=True)]
    return grid, np.asarray(np.mean(lines, axis=0))
