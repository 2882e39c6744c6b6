"""Agent steps per second on an Atari game, updates included: the emulator alone, toppo, Stable-Baselines3, and what the
bare convolutions of the update would allow, in one run.

    python -m benchmarks.throughput_atari [--env BreakoutNoFrameskip-v4] [--repeats 3]

Workload: 8 games x 128 steps, 4 epochs x 4 minibatches, the convolutions of Mnih et al. (2015).  A step is four frames.
Every row is measured in a process of its own; rows alternate, and medians are shown.  The table goes to
docs/results/throughput-atari.
"""

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

from benchmarks.page import write_page
from benchmarks.throughput import python_of, speed_of, toppo

HERE = Path(__file__).resolve().parent
GAMES = 8
STEPS = 128
EPOCHS = 4
MINIBATCHES = 4
ROWS = {
    "ale-py's vector environment alone": ["emulator"],
    "convolutions of PPO's update alone": ["convolutions"],
    "Stable-Baselines3 PPO": ["sb3"],
    "toppo PPO": ["toppo", "ppo"],
    "toppo ToPPO": ["toppo", "toppo"],
}


def emulator(env_id: str, steps: int = 500) -> float:
    """Games stepped with random actions and reset where they are over."""
    import numpy as np

    from toppo.envs import resolve
    from toppo.envs.atari import AtariGames
    from toppo.envs.vector import ResetSpec

    assert resolve(env_id).kind == "atari"
    games = AtariGames(env_id, GAMES)
    rng = np.random.default_rng(0)
    playing = {i: ResetSpec(i) for i in range(GAMES)}
    games.reset(playing)
    began = time.perf_counter()
    for _ in range(steps):
        moved = games.step(rng.integers(games.spaces.action_size, size=GAMES))
        over = {int(i): playing[int(i)] for i in np.flatnonzero(moved.over)}
        if over:
            games.reset(following := {i: start._replace(nth=start.nth + 1) for i, start in over.items()})
            playing |= following
    return steps * GAMES / (time.perf_counter() - began)


def convolutions(env_id: str, updates: int = 3) -> float:
    """Steps per second if nothing but the gradients of one update's minibatches took time."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    from toppo.learn.nets import Inputs
    from toppo.learn.vision import vision_body

    body = vision_body([(4, 84, 84)], 0, ())
    size = GAMES * STEPS // MINIBATCHES
    params = body.init(jax.random.key(0), [(5, 1.0)])
    pixels = np.random.default_rng(0).integers(256, size=(size, 4 * 84 * 84), dtype=np.uint8)
    inputs = Inputs(jnp.zeros((size, 0)), jnp.zeros((size, 0), bool), jnp.asarray(pixels))
    gradient = jax.jit(jax.grad(lambda params, inputs: jnp.square(body.apply(params, inputs)).mean()))
    jax.block_until_ready(gradient(params, inputs))
    began = time.perf_counter()
    for _ in range(updates * EPOCHS * MINIBATCHES):
        jax.block_until_ready(gradient(params, inputs))
    return updates * GAMES * STEPS / (time.perf_counter() - began)


def stored_bytes(env_id: str) -> tuple[int, int]:
    """Bytes per step of a batch in memory, and those of its observation alone."""
    import jax

    from toppo.algos.contract import Normaliser
    from toppo.collect.plan import RawBatch, buffer_layout
    from toppo.learn.programs import label
    from toppo.learn.setup import initial_learner, plan
    from toppo.runs.presets import spec_for
    from toppo.runs.run import setup_for

    spec = spec_for(env_id, "toppo", 1, 0, "paper")
    setup = setup_for(spec, env_id)
    layout = buffer_layout(plan(setup))
    raw = RawBatch(**{name: jax.ShapeDtypeStruct(*layout[name]) for name in RawBatch._fields})
    raw = raw._replace(reward=jax.ShapeDtypeStruct(raw.reward.shape, "float32"))
    numbers = jax.ShapeDtypeStruct((setup.spaces.obs_size,), "float32")
    normaliser = Normaliser(numbers, numbers, jax.ShapeDtypeStruct((), "float32"))
    params = jax.eval_shape(lambda: initial_learner(setup)).params
    iteration = jax.ShapeDtypeStruct((), "int32")
    segment, *_ = jax.eval_shape(partial(label, setup), params, raw, normaliser, iteration)
    every = sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(segment))
    return every // spec.config.n_steps, segment.obs.size // spec.config.n_steps


def measure(env_id: str, row: list[str], batches: str) -> float:
    """One row, in a process of its own."""
    if row == ["sb3"]:
        command = [str(python_of("sb3")), str(HERE / "peers" / "sb3_atari.py"), "--env", env_id, "--batches", batches]
    else:
        command = [sys.executable, "-m", "benchmarks.throughput_atari", "--one", env_id, *row, batches]
    return speed_of(command)


def write(results: dict[str, list[float]], env_id: str) -> None:
    """The record and its table."""
    middles = {name: statistics.median(values) for name, values in results.items()}
    peer = middles["Stable-Baselines3 PPO"]
    ideal = 1 / sum(1 / middles[name] for name in list(ROWS)[:2])
    every, frames = stored_bytes(env_id)
    text = [
        "| | steps/s, median | range | over Stable-Baselines3 |",
        "|---|---:|---:|---:|",
        *(
            f"| {name} | {middles[name]:,.0f} | {min(v):,.0f} to {max(v):,.0f} | {middles[name] / peer:.2f}x |"
            for name, v in results.items()
        ),
        "",
        f"Emulator and convolutions one after the other allow {ideal:,.0f} steps/s; toppo PPO reaches "
        f"{middles['toppo PPO'] / ideal:.0%} of it.",
        f"A stored step takes {every:,} bytes, {frames:,} of them its four frames.",
    ]
    record = {"machine": platform.processor() or platform.machine(), "rows": results}
    write_page("throughput-atari", f"Throughput on {env_id}", text, record)


def main() -> None:
    """Measure all rows, or one."""
    if sys.argv[1:2] == ["--one"]:
        env_id, kind, *rest = sys.argv[2:]
        alone = {"emulator": emulator, "convolutions": convolutions}
        one = toppo(env_id, rest[0], workers=0, batches=int(rest[1])) if kind == "toppo" else alone[kind](env_id)
        print(json.dumps({"steps_per_second": one}))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="BreakoutNoFrameskip-v4")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--batches", type=int, default=6, help="of 1,024 steps, per row")
    a = parser.parse_args()
    pip = [str(python_of("sb3")), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "ale-py==0.12.1", "opencv-python-headless"], check=True)
    results: dict[str, list[float]] = {name: [] for name in ROWS}
    for repeat in range(a.repeats):
        for name, row in ROWS.items():
            results[name].append(measure(a.env, row, str(a.batches)))
            print(f"{repeat + 1}/{a.repeats} {name:<40} {results[name][-1]:>9,.0f} steps/s", flush=True)
    write(results, a.env)


if __name__ == "__main__":
    main()
