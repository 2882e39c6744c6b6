"""Where the time of one iteration goes.

    python -m benchmarks.profile_iteration [--env HalfCheetah-v5] [--algos ppo toppo] [--iterations 60]

A real run in a directory of its own, one environment in the process that learns, so that nothing hides behind the rest;
a checkpoint every 50,000 steps, as by default.  The parts of collecting are found by living through batches again: the
simulator alone with the same actions, then the package's step, then the network alone on the same observations; what
is left is storing and counting.  Medians.  The table goes to docs/results/profile.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np

from benchmarks.page import write_page
from toppo.collect.actor import mlp_actor_factory
from toppo.collect.plan import buffers_in, buffers_size
from toppo.collect.worker import Task, Worker
from toppo.envs import resolve
from toppo.learn.nets import actor_weights
from toppo.learn.setup import Setup, plan
from toppo.learn.state import State
from toppo.learn.xla import prepare
from toppo.maths.moments import mean_and_inv_std
from toppo.runs.presets import spec_for
from toppo.runs.run import RunOptions, setup_for, start
from toppo.runs.training import Training

COMPILING = 4  # iterations at the start that do not count


def seconds_of(body: Callable[[], object]) -> float:
    """How long it takes."""
    began = time.perf_counter()
    body()
    return time.perf_counter() - began


def parts_of_collecting(env_id: str, setup: Setup, state: State, batches: int = 9) -> dict[str, float]:
    """Seconds per batch: simulation, Python around it, acting, storing."""
    p = plan(setup)
    buffers = buffers_in(p, bytearray(buffers_size(p)))
    buffers.mean[:], buffers.inv_std[:] = mean_and_inv_std(state.obs_moments)
    for target, weight in zip(buffers.weights, actor_weights(state.learner.params.policy), strict=True):
        target[:] = weight
    worker = Worker(Task(plan=p, indices=[0], source=resolve(env_id), buffers=buffers))
    env = worker.envs[0]
    model = env.env.model
    data = env.env.data
    frames = env.env.frame_skip
    actor = mlp_actor_factory(p.spaces, p.activation)(buffers.mean, buffers.inv_std, buffers.weights, 1)
    noise = np.zeros((1, p.spaces.action_size), np.float32)

    def again(step: Callable[[np.ndarray], object]) -> Callable[[], None]:
        """Take the batch's actions from its first state on; a fall changes what follows, and costs no less."""

        def live() -> None:
            env.reset(0)
            for action, ended in zip(buffers.action[:, 0], buffers.ended[:, 0], strict=True):
                step(action)
                if ended:
                    env.reset(0)

        return live

    def simulate(action: np.ndarray) -> None:
        data.ctrl[:] = action
        mujoco.mj_step(model, data, frames)

    def act() -> None:
        for obs in buffers.obs:
            actor(obs, noise)

    found = []
    for _ in range(batches):
        whole = seconds_of(worker.finish)
        simulation = seconds_of(again(simulate))
        stepping = seconds_of(again(env.step_before_cost))
        acting = seconds_of(act)
        found.append((simulation, stepping - simulation, acting, whole - stepping - acting))
    names = ("simulation", "Python around the simulator", "acting", "storing and counting, by difference")
    return {name: statistics.median(values) for name, values in zip(names, zip(*found, strict=True), strict=True)}


def profile(env_id: str, algo: str, iterations: int) -> dict[str, float]:
    """Seconds per iteration of every part."""
    seen: list[tuple[float, dict[str, float]]] = []
    spec = spec_for(env_id, algo, 10**9, 0, "paper")
    spec = spec_for(env_id, algo, (iterations + COMPILING) * spec.config.n_steps, 0, "paper")
    with tempfile.TemporaryDirectory() as folder:

        def observe(training: Training) -> None:
            seen.append((time.perf_counter(), training.seconds))

        state = start(spec, env_id, Path(folder) / "run", RunOptions(workers=0), observe)
    laps = [seconds for _, seconds in seen[COMPILING:]]
    whole = [after - before for (before, _), (after, _) in zip(seen[COMPILING - 1 :], seen[COMPILING:], strict=False)]
    middle = {name: statistics.median(lap[name] for lap in laps) for name in laps[0]}
    parts = parts_of_collecting(env_id, setup_for(spec, env_id), state)
    collected = sum(parts.values())
    parts = {name: seconds * middle["collect"] / collected for name, seconds in parts.items()}
    return parts | {
        "advantages": middle["label"],
        "update of the policy": middle["update"],
        "update of the critic, after the policy's": middle["value"],
        "selection": middle["select"],
        "handing over the policy": middle["start"],
        "logs and checkpoints": statistics.fmean(whole) - statistics.fmean(sum(lap.values()) for lap in laps),
    }


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="HalfCheetah-v5")
    parser.add_argument("--algos", nargs="+", default=["ppo", "toppo"])
    parser.add_argument("--iterations", type=int, default=60)
    a = parser.parse_args()
    prepare()
    tables = {algo: profile(a.env, algo, a.iterations) for algo in a.algos}
    lines = [f"| {a.env}, one core at a time | " + " | ".join(f"{algo}, ms | share" for algo in tables) + " |"]
    lines.append("|---|" + "---:|---:|" * len(tables))
    for part in next(iter(tables.values())):
        cells = [f"{t[part] * 1e3:.1f} | {t[part] / sum(t.values()):.0%}" for t in tables.values()]
        lines.append(f"| {part} | " + " | ".join(cells) + " |")
    write_page("profile", "Where an iteration's time goes", lines, tables)


if __name__ == "__main__":
    main()
