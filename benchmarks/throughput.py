"""Environment steps per second, updates included, against the bare simulator and against a peer, in one run.

    python benchmarks/throughput.py [--repeats 3]

Workload: HalfCheetah-v5, batches of 2048 steps, 10 epochs x 32 minibatches, two 64x64 tanh networks, no early stop.
Every row is measured in a process of its own; rows alternate, and the median of the repeats is shown.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
PEER = HERE.parent / ".bench" / "sb3"
ENV = "HalfCheetah-v5"


def simulator(unwrapped: bool, steps: int = 20_000) -> float:
    """Steps per second of MuJoCo alone at the task's frame skip, or of Gymnasium's unwrapped task."""
    import gymnasium as gym
    import mujoco
    import numpy as np

    env = gym.make(ENV).unwrapped
    env.reset(seed=0)
    actions = np.random.default_rng(0).uniform(-1, 1, (steps, *env.action_space.shape)).astype(np.float32)
    began = time.perf_counter()
    if unwrapped:
        for action in actions:
            env.step(action)
    else:
        for action in actions:
            env.data.ctrl[:] = action
            mujoco.mj_step(env.model, env.data, nstep=env.frame_skip)
    return steps / (time.perf_counter() - began)


def toppo(algo: str, envs: int, workers: int, batches: int = 24) -> float:
    """Steps per second of this package from the fourth iteration on."""
    from toppo.collect.pool import open_pool
    from toppo.device import prepare
    from toppo.presets import spec_for
    from toppo.runs import setup_for
    from toppo.setup import initial_state, plan
    from toppo.train import train

    prepare()
    spec = spec_for(ENV, algo, 10**9, 0, envs=envs, reset_each_batch=envs == 1)
    setup = setup_for(spec, ENV)
    pool = open_pool(plan(setup), ENV, workers)
    began = 0.0
    for i, _ in enumerate(train(setup, initial_state(setup), pool)):
        if i == 3:
            began = time.perf_counter()
        if i == 3 + batches:
            break
    seconds = time.perf_counter() - began
    pool.close()
    return batches * spec.config.n / seconds


ROWS: dict[str, list[str]] = {
    "MuJoCo alone, one core": ["simulator", "0"],
    "Gymnasium unwrapped, one core": ["simulator", "1"],
    "SB3 PPO, VecNormalize, 1 env": ["sb3", "--envs", "1"],
    "SB3 PPO, no VecNormalize, 1 env": ["sb3", "--envs", "1", "--normalise", "0"],
    "toppo PPO, 1 env": ["toppo", "ppo", "1", "1"],
    "toppo ToPPO, 1 env": ["toppo", "toppo", "1", "1"],
    "SB3 PPO, VecNormalize, 16 envs": ["sb3", "--envs", "16"],
    "SB3 PPO, VecNormalize, 32 envs": ["sb3", "--envs", "32"],
    "SB3 PPO, VecNormalize, 64 envs": ["sb3", "--envs", "64"],
    "SB3 PPO, VecNormalize, 8 envs in processes": ["sb3", "--envs", "8", "--processes", "1"],
    "toppo PPO, 2 envs, 2 workers": ["toppo", "ppo", "2", "2"],
    "toppo PPO, 8 envs, 2 workers": ["toppo", "ppo", "8", "2"],
    "toppo ToPPO, 2 envs, 2 workers": ["toppo", "toppo", "2", "2"],
}


def build_peer() -> Path:
    """Stable-Baselines3 in an environment of its own, made once."""
    python = PEER / "bin" / "python"
    if not (PEER / ".ready").exists():
        print("building the peer's environment (about a minute)", flush=True)
        subprocess.run([sys.executable, "-m", "venv", PEER], check=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "torch==2.13.0"], check=True)
        versions = ["stable-baselines3==2.9.2", "gymnasium==1.4.0", "mujoco==3.17.0", "imageio", "packaging"]
        subprocess.run([*pip, *versions], check=True)
        (PEER / ".ready").touch()
    return python


def measure(row: list[str]) -> float:
    """One row, in a process of its own."""
    if row[0] == "sb3":
        command = [str(build_peer()), str(HERE / "peers" / "sb3_ppo.py"), "--env", ENV, *row[1:]]
    else:
        command = [sys.executable, __file__, "one", *row]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(json.loads(done.stdout.strip().splitlines()[-1])["steps_per_second"])


def best(results: dict[str, list[float]], start: str) -> tuple[str, float]:
    """The fastest row whose name begins so."""
    return max(
        ((name, statistics.median(r)) for name, r in results.items() if name.startswith(start)), key=lambda x: x[1]
    )


def report(results: dict[str, list[float]]) -> str:
    """A Markdown table, and the ratios that matter."""
    peer = statistics.median(results["SB3 PPO, VecNormalize, 1 env"])
    peer_name, peer_best = best(results, "SB3 PPO, VecNormalize")
    lines = ["| | steps/s (median) | range | over SB3, 1 env | over SB3, best |", "|---|---:|---:|---:|---:|"]
    for name, values in results.items():
        middle = statistics.median(values)
        span = f"{min(values):,.0f} to {max(values):,.0f}"
        lines.append(f"| {name} | {middle:,.0f} | {span} | {middle / peer:.1f}x | {middle / peer_best:.1f}x |")
    ours, ours_best = best(results, "toppo PPO")
    lines += ["", f"all cores: {ours} over {peer_name}: {ours_best / peer_best:.1f}x"]
    return "\n".join(lines)


def main() -> None:
    """Measure all rows, or one."""
    if sys.argv[1:2] == ["one"]:
        kind, *rest = sys.argv[2:]
        speed = simulator(rest[0] == "1") if kind == "simulator" else toppo(rest[0], int(rest[1]), int(rest[2]))
        print(json.dumps({"steps_per_second": speed}))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    repeats = parser.parse_args().repeats
    build_peer()
    results: dict[str, list[float]] = {name: [] for name in ROWS}
    for _ in range(repeats):
        for name, row in ROWS.items():
            results[name].append(measure(row))
            print(f"{name:<45} {results[name][-1]:>9,.0f} steps/s", flush=True)
    print("\n" + report(results))


if __name__ == "__main__":
    main()
