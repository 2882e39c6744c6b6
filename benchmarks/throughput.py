"""Environment steps per second, updates included, against peers and against what limits them all, in one run.

    python -m benchmarks.throughput [--tasks HalfCheetah-v5 Hopper-v5 Humanoid-v5] [--repeats 3] [--peers sb3 sbx ...]
                                    [--page throughput]

Workload: batches of 2048 steps, 10 epochs x 32 minibatches, two 64x64 tanh networks, no early stop; observations and
rewards normalised.  Every row is measured in a process of its own; rows alternate, and medians are shown.  The table
and the figure go to docs/results/PAGE.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

from benchmarks.page import write_page

HERE = Path(__file__).resolve().parent
SIMULATOR = ["gymnasium==1.4.0", "mujoco==3.17.0", "imageio", "packaging"]
PEERS = {
    "sb3": ("Stable-Baselines3", "stable_baselines.py", ["stable-baselines3==2.9.2", "sb3-contrib==2.9.2"]),
    "sbx": ("SBX", "stable_baselines.py", ["sbx-rl==0.28.0"]),
    "tianshou": ("Tianshou", "tianshou_ppo.py", ["tianshou==2.0.1"]),
    "torchrl": ("TorchRL", "torchrl_ppo.py", ["torchrl==0.14.1"]),
}
OURS = {
    "toppo PPO, 1 env": ["toppo", "ppo", "1", "1"],
    "toppo ToPPO, 1 env": ["toppo", "toppo", "1", "1"],
    "toppo PPO, 8 envs, 2 workers": ["toppo", "ppo", "8", "2"],
    "toppo PPO, 32 envs, 2 workers": ["toppo", "ppo", "32", "2"],
    "toppo PPO, 64 envs, 2 workers": ["toppo", "ppo", "64", "2"],
    "toppo ToPPO, 2 envs, 2 workers": ["toppo", "toppo", "2", "2"],
    "toppo ToPPO, 16 envs, 2 workers": ["toppo", "toppo", "16", "2"],
}
LIMITS = {
    "MuJoCo alone, one core": ["simulator", "0"],
    "Gymnasium unwrapped, one core": ["simulator", "1"],
    "the update's matrix products alone": ["products"],
}


def rows(peers: list[str]) -> dict[str, list[str]]:
    """What is measured, by name."""
    table = dict(LIMITS)
    for peer in peers:
        title = PEERS[peer][0]
        for envs in ("1", "16", "64", "128"):
            table[f"{title}, {envs} env{'s' * (envs != '1')}"] = [peer, "--n-envs", envs]
        if peer == "sb3":
            table[f"{title}, 1 env, no normalisation"] = [peer, "--n-envs", "1", "--normalise", "0"]
            table[f"{title}, 8 envs in processes"] = [peer, "--n-envs", "8", "--processes", "1"]
    return table | OURS


def simulator(env_id: str, unwrapped: bool, steps: int = 20_000) -> float:
    """Steps per second of MuJoCo alone at the task's frame skip, or of Gymnasium's unwrapped task."""
    import gymnasium as gym
    import mujoco
    import numpy as np

    env = gym.make(env_id).unwrapped
    env.reset(seed=0)
    low = env.action_space.low
    high = env.action_space.high
    blocks = np.random.default_rng(0).uniform(low, high, (steps // 50, 50, len(low))).astype(np.float32)
    seconds = 0.0
    for i, actions in enumerate(blocks):
        env.reset(seed=i)  # a body that has fallen costs more contacts than one that a policy holds upright
        began = time.perf_counter()
        for action in actions:
            if unwrapped:
                env.step(action)
            else:
                env.data.ctrl[:] = action
                mujoco.mj_step(env.model, env.data, nstep=env.frame_skip)
        seconds += time.perf_counter() - began
    return steps / seconds


def products(env_id: str, updates: int = 20) -> float:
    """Steps per second if nothing but the matrix products of policy's and critic's minibatches took time."""
    import gymnasium as gym
    import jax
    import jax.numpy as jnp

    env = gym.make(env_id)
    seen = env.observation_space.shape[0]
    acted = env.action_space.shape[0]

    def forward_and_back(weights, x):
        activations = [x]
        for w in weights:
            activations.append(activations[-1] @ w)
        back = activations.pop()
        moved = []
        for w, x in zip(weights[::-1], activations[::-1], strict=True):
            moved.append(w - 1e-6 * (x.T @ back))  # so that no product can be left out
            back = back @ w.T
        return moved[::-1], ()

    @jax.jit
    def update(networks, batches):
        return [jax.lax.scan(forward_and_back, weights, batches)[0] for weights in networks]

    networks = [[jnp.full(shape, 0.01) for shape in ((seen, 64), (64, 64), (64, last))] for last in (acted, 1)]
    batches = jnp.ones((320, 64, seen))
    jax.block_until_ready(update(networks, batches))
    began = time.perf_counter()
    for _ in range(updates):
        jax.block_until_ready(update(networks, batches))
    return updates * 2048 / (time.perf_counter() - began)


def toppo(env_id: str, algo: str, workers: int, batches: int = 40, **settings) -> float:
    """Steps per second of this package from the fourth iteration on."""
    from benchmarks.training import iterations

    with closing(iterations(env_id, algo, workers=workers, **settings)) as training:
        first = [next(training) for _ in range(4)]
        began = time.perf_counter()
        last = [next(training) for _ in range(batches)]
        seconds = time.perf_counter() - began
    return (last[-1].state.steps - first[-1].state.steps) / seconds


def python_of(peer: str) -> Path:
    """The interpreter of a peer's own environment, which is built once."""
    home = HERE.parent / ".bench" / peer
    python = home / "bin" / "python"
    if not (home / ".ready").exists():
        print(f"building the environment of {PEERS[peer][0]} (some minutes)", flush=True)
        subprocess.run([sys.executable, "-m", "venv", home], check=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "torch==2.13.0"], check=True)
        subprocess.run([*pip, *PEERS[peer][2], *SIMULATOR], check=True)
        (home / ".ready").touch()
    return python


def measure(env_id: str, row: list[str]) -> float:
    """One row, in a process of its own."""
    kind, *rest = row
    if kind in PEERS:
        script = str(HERE / "peers" / PEERS[kind][1])
        command = [str(python_of(kind)), script, "--library", kind, "--env", env_id, *rest]
    else:
        command = [sys.executable, "-m", "benchmarks.throughput", "--one", env_id, *row]
    return speed_of(command)


def speed_of(command: list[str]) -> float:
    """What a process that measures one row printed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return float(json.loads(done.stdout.strip().splitlines()[-1])["steps_per_second"])


def ratios(ours: list[float], theirs: list[float]) -> str:
    """Median of ours over median of theirs, and the range over the repeats, each against its neighbour in time."""
    pairs = [a / b for a, b in zip(ours, theirs, strict=True)]
    return f"{statistics.median(ours) / statistics.median(theirs):.1f}x ({min(pairs):.1f} to {max(pairs):.1f})"


def fastest(results: dict[str, list[float]], names: list[str]) -> str:
    """The name of the fastest row."""
    return max(names, key=lambda name: statistics.median(results[name]))


def report(task: str, results: dict[str, list[float]]) -> list[str]:
    """A Markdown table of one task, and the ratios that matter."""
    peers = [name for name in results if name not in OURS and name not in LIMITS and "no norm" not in name]
    single = fastest(results, [name for name in peers if name.endswith(", 1 env")])
    best = fastest(results, peers)
    physics = results["MuJoCo alone, one core"]
    lines = [f"## {task}", "", "| | steps/s, median | range | part of the bare simulator |", "|---|---:|---:|---:|"]
    for name, values in results.items():
        share = statistics.median(values) / statistics.median(physics)
        lines.append(
            f"| {name} | {statistics.median(values):,.0f} | {min(values):,.0f} to {max(values):,.0f} | {share:.0%} |"
        )
    ours = fastest(results, [name for name in OURS if "toppo PPO" in name])
    products = results["the update's matrix products alone"]
    # Collecting and updating follow each other: the simulator on every core, then the products.
    limits = [1 / (1 / (os.cpu_count() * a) + 1 / b) for a, b in zip(physics, products, strict=True)]
    limit = statistics.median(limits)
    reached = statistics.median(results[ours])
    lines += [
        "",
        f"- one environment, PPO over {single}: {ratios(results['toppo PPO, 1 env'], results[single])}",
        f"- one environment, ToPPO over {single}: {ratios(results['toppo ToPPO, 1 env'], results[single])}",
        f"- all cores, {ours} over {best}: {ratios(results[ours], results[best])}",
        f"- the simulator on all cores, followed by the matrix products, and nothing else: {limit:,.0f} steps/s, "
        f"{ratios(limits, results[best])} {best}; {ours} reaches {reached / limit:.0%} of it",
        "",
    ]
    return lines


def write(page: str, record: dict) -> None:
    """The record, its tables and its figure."""
    from toppo.plotting import save, subplots

    tasks = record["tasks"]
    text = [f"{record['machine']}, {record['cores']} cores.", ""]
    for task, results in tasks.items():
        text += report(task, results)
    folder = write_page(page, "Throughput", [*text, "![steps per second](throughput.png)"], record)
    sheet, axes = subplots(1, len(tasks), width=5.2, height=4.2)
    for axis, (task, results) in zip(axes[0], tasks.items(), strict=True):
        names = list(results)[::-1]
        middles = [statistics.median(results[name]) for name in names]
        colours = ["#1f6fb4" if name in OURS else "#8a8a8a" if name in LIMITS else "#d98032" for name in names]
        axis.barh(names, middles, color=colours)
        for i, middle in enumerate(middles):
            axis.text(middle, i, f" {middle:,.0f}", va="center", fontsize=7)
        axis.set_title(task, fontsize=10)
        axis.set_xlabel("environment steps per second, updates included", fontsize=8)
        axis.tick_params(labelsize=7)
        axis.xaxis.set_major_formatter("{x:,.0f}")
        axis.margins(x=0.15)
    save(sheet, folder / "throughput.png")


def main() -> None:
    """Measure all rows, or one."""
    if sys.argv[1:2] == ["--one"]:
        env_id, kind, *rest = sys.argv[2:]
        if kind == "simulator":
            one = simulator(env_id, rest[0] == "1")
        elif kind == "products":
            one = products(env_id)
        else:
            algo = rest[0]
            envs = int(rest[1])
            workers = int(rest[2])
            one = toppo(env_id, algo, workers, n_envs=envs, reset_each_batch=envs == 1)
        print(json.dumps({"steps_per_second": one}))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=["HalfCheetah-v5"])
    parser.add_argument("--peers", nargs="+", default=list(PEERS), choices=list(PEERS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--page", default="throughput")
    a = parser.parse_args()
    table = rows(a.peers)
    for peer in a.peers:
        python_of(peer)
    tasks: dict[str, dict[str, list[float]]] = {task: {name: [] for name in table} for task in a.tasks}
    for repeat in range(a.repeats):
        for task, results in tasks.items():
            for name, row in table.items():
                results[name].append(measure(task, row))
                print(f"{repeat + 1}/{a.repeats} {task:<16} {name:<42} {results[name][-1]:>9,.0f} steps/s", flush=True)
        write(a.page, {"machine": platform.processor() or platform.machine(), "cores": os.cpu_count(), "tasks": tasks})


if __name__ == "__main__":
    main()
