"""Our TRPO against sb3-contrib's on one task, with the same settings as far as both have them.

    python -m benchmarks.trpo_peer [--env Hopper-v5] [--steps 200000] [--seeds 3]

Writes docs/results/trpo-peer after every pair of runs: the curves as JSON, a table, and a picture.
"""

import argparse
import json
import subprocess
import sys

from benchmarks.throughput import HERE, python_of

RESULTS = HERE.parent / "docs" / "results" / "trpo-peer"
PARTS = 10  # of the run, for the curves; the final return is that of the last two

# Where defaults differ, one side takes the other's.  sb3-contrib continues its episodes over batches and wants the KL
# below its target, without slack.  Our warm-up stays: their statistics are in use from the first step on.
OURS = {"reset_each_batch": False, "slack": 1.0, "adam_eps": 1e-5}
THEIRS = {
    "n_steps": 1024,
    "batch_size": 32,
    "n_critic_updates": 10,
    "learning_rate": 3e-4,
    "gamma": 0.995,
    "gae_lambda": 0.97,
    "cg_max_steps": 20,
    "line_search_shrinking_factor": 0.5**0.5,
    "line_search_max_iter": 10,
}
NAMES = {"toppo": "toppo's TRPO", "sb3": "sb3-contrib's TRPO"}


def theirs(env: str) -> dict:
    """Their KL is a mean over the action's dimensions where ours is the sum, so bound and damping are divided by D."""
    import gymnasium as gym

    dims = gym.make(env).action_space.shape[0]
    return THEIRS | {"target_kl": 0.01 / dims, "cg_damping": 0.01 / dims}


def ours(env: str, steps: int, seed: int) -> tuple[list[int], list[float]]:
    """All training episodes of one run of ours: steps until the end, return."""
    from benchmarks.training import iterations

    episodes = [e for turn in iterations(env, "trpo", steps, seed, workers=1, **OURS) for e in turn.episodes]
    return [e.step for e in episodes], [e.episode_return for e in episodes]


def run(who: str, env: str, steps: int, seed: int) -> list[float]:
    """The curve of one run, in a process of its own."""
    given = ["--env", env, "--steps", str(steps), "--seed", str(seed)]
    command = [sys.executable, "-m", "benchmarks.trpo_peer", "--one", *given]
    if who == "sb3":
        program = str(HERE / "peers" / "sb3_trpo.py")
        command = [str(python_of("sb3")), program, *given, "--settings", json.dumps(theirs(env))]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return curve(*json.loads(done.stdout.strip().splitlines()[-1]), steps)


def curve(ends: list[int], returns: list[float], steps: int) -> list[float]:
    """Mean return of the episodes that ended in each part of the run."""
    import numpy as np

    part = np.minimum((np.array(ends) - 1) * PARTS // steps, PARTS - 1)
    return [round(float(np.array(returns)[part == i].mean()), 1) for i in range(PARTS)]


def report(env: str, steps: int, runs: dict[str, list[list[float]]]) -> str:
    """Write the data, the table and the figure."""
    import numpy as np

    from toppo.plotting import save, subplots

    RESULTS.mkdir(parents=True, exist_ok=True)
    data = {"env": env, "steps": steps, "ours": OURS, "theirs": theirs(env), "curves": runs}
    (RESULTS / "curves.json").write_text(json.dumps(data) + "\n")
    command = f"python -m benchmarks.trpo_peer --env {env} --steps {steps} --seeds {len(runs['sb3'])}"
    lines = ["# TRPO beside sb3-contrib's", "", f"    {command}", ""]
    lines += [
        f"{env}, {steps:,} steps, batches of 1024, the same radius, conjugate gradient, line search, critic, networks "
        "and discount. sb3-contrib's KL of a Gaussian is a mean over the action's dimensions where ours is the sum, "
        "as in the papers; its bound and damping are divided by their number here, or its region would be that many "
        "times larger. Left different: the normaliser's statistics, which move with every step there and every batch "
        "here, and the streams of random numbers. Final: mean return of the training episodes that ended in the last "
        "fifth. Area: mean of the ten parts of the run. Few runs: enough to see whether both learn alike, no ranking.",
        "",
        "| | runs | final, mean | final, each | area, mean | area, each |",
        "|---|---:|---:|---|---:|---|",
    ]
    sheet, axes = subplots(1, 1, width=5.5, height=3.4)
    grid = (np.arange(PARTS) + 0.5) * steps / PARTS
    for who, colour in (("toppo", "#0b6e99"), ("sb3", "#d1603d")):
        curves = np.array(runs[who])
        final = curves[:, -2:].mean(1)
        area = curves.mean(1)
        each = [", ".join(f"{x:.0f}" for x in values) for values in (final, area)]
        lines.append(
            f"| {NAMES[who]} | {len(curves)} | {final.mean():.0f} | {each[0]} | {area.mean():.0f} | {each[1]} |"
        )
        for i, line in enumerate(curves):
            axes[0, 0].plot(grid, line, color=colour, linewidth=1.2, label=None if i else NAMES[who])
    axes[0, 0].set_title(env, fontsize=10)
    axes[0, 0].set_xlabel("environment steps", fontsize=9)
    axes[0, 0].set_ylabel("return of training episodes", fontsize=9)
    axes[0, 0].legend(fontsize=8, frameon=False)
    save(sheet, RESULTS / "trpo-peer.png")
    lines += ["", "![curves of every run](trpo-peer.png)"]
    (RESULTS / "README.md").write_text("\n".join(lines) + "\n")
    return "\n".join(lines)


def main() -> None:
    """Train what is asked for, ours and theirs in turn, and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="Hopper-v5")
    parser.add_argument("--steps", type=int, default=200_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--one", action="store_true", help="one run of ours: print its episodes as JSON")
    a = parser.parse_args()
    if a.one:
        print(json.dumps(ours(a.env, a.steps, a.seed)))
        return
    runs: dict[str, list[list[float]]] = {"toppo": [], "sb3": []}
    for seed in range(a.seeds):
        for who, curves in runs.items():
            curves.append(run(who, a.env, a.steps, seed))
            print(f"{NAMES[who]}, seed {seed}: {curves[-1]}", flush=True)
        text = report(a.env, a.steps, runs)
    print("\n" + text)


if __name__ == "__main__":
    main()
