"""How the cost of a step grows with environments, batch size, N, width of the networks and size of the observation.

    python -m benchmarks.growth

The environment does nothing, so that all the time is this package's; one process, ToPPO.  Every point is the median of
the iterations after the first ones, and the whole is measured twice, in turn.  The table and the figure go to
docs/results/growth.
"""

import statistics
import time
from contextlib import closing

import gymnasium as gym
import numpy as np

from benchmarks.page import write_page
from benchmarks.training import iterations
from toppo.plotting import panels, save

# iterations; memory must be full before one counts
COMPILING = 8
COUNTED = 12
AXES = {
    "environments": ("envs", (1, 2, 4, 8, 16, 32, 64)),
    "steps in a batch": ("n", (512, 1024, 2048, 4096, 8192, 16384)),
    "N, batches held": ("n_policies", (1, 2, 4, 8, 16, 32)),
    "width of two hidden layers": ("width", (16, 32, 64, 128, 256, 512)),
    "numbers in an observation": ("obs", (4, 16, 64, 256, 1024)),
}


class Still(gym.Env):
    """Nothing happens, and an episode lasts 1000 steps."""

    action_space = gym.spaces.Box(-1.0, 1.0, (6,), np.float32)

    def __init__(self, size: int) -> None:
        """Show ``size`` numbers."""
        self.observation_space = gym.spaces.Box(-1.0, 1.0, (size,), np.float64)
        self.obs = np.zeros(size)
        self.t = 0

    def reset(self, *, seed=None, options=None):
        """Begin again."""
        super().reset(seed=seed)
        self.t = 0
        return self.obs, {}

    def step(self, action):
        """Let time pass."""
        self.t += 1
        return self.obs, 0.0, False, self.t >= 1000, {}


def microseconds(envs: int = 8, n: int = 2048, n_policies: int = 5, width: int = 64, obs: int = 17) -> float:
    """Cost of a step, updates included; all epochs are run, and no batch is deleted before its time."""
    name = f"Still{obs}-v0"
    if name not in gym.registry:
        gym.register(name, entry_point=lambda: Still(obs))
    settings = {"n_envs": envs, "n_steps": n, "n_policies": n_policies, "hidden": (width, width)}
    free = {"early_stop": False, "alpha": 1e9, "warmup_steps": 0, "reset_each_batch": False}
    skipped = max(COMPILING, n_policies + 3)
    moments = []
    with closing(iterations(name, "toppo", **settings, **free)) as training:
        for _ in range(skipped + COUNTED + 1):
            next(training)
            moments.append(time.perf_counter())
    seconds = [b - a for a, b in zip(moments[skipped:-1], moments[skipped + 1 :], strict=True)]
    return statistics.median(seconds) / n * 1e6


def main() -> None:
    """Measure, write the table and draw."""
    found: dict[str, dict[int, list[float]]] = {axis: {v: [] for v in values} for axis, (_, values) in AXES.items()}
    for repeat in range(2):
        for axis, (setting, values) in AXES.items():
            for value in values:
                found[axis][value].append(microseconds(**{setting: value}))
                print(f"{repeat + 1}/2 {axis:<28} {value:>6} {found[axis][value][-1]:>9.1f} us per step", flush=True)
    write(found)


def arithmetic(width: int = 64, obs: int = 17) -> int:
    """Products in one pass of a network."""
    return width * (obs + width + 6)


def write(found: dict[str, dict[int, list[float]]]) -> None:
    """The record, its tables and its figure; beside what has to grow, how much more there is to compute."""
    text = ["Microseconds per step, updates included."]
    sheet, axes = panels(len(AXES))
    for axis, (name, points) in zip(axes, found.items(), strict=True):
        middles = [statistics.median(values) for values in points.values()]
        axis.loglog(list(points), middles, "o-", color="#0b7fb0", base=2)
        if (setting := AXES[name][0]) in ("width", "obs"):
            much = [arithmetic(**{setting: point}) for point in points]
            axis.plot(list(points), [middles[-1] * m / much[-1] for m in much], "--", color="#8a8a8a", lw=1)
            axis.set_title("dashed: in proportion to the arithmetic", fontsize=8)
        axis.set_xlabel(name, fontsize=8)
        axis.set_ylabel("us per step", fontsize=8)
        axis.set_ylim(bottom=min(8.0, min(middles)), top=max(32.0, 1.5 * max(middles)))
        for scale in (axis.xaxis, axis.yaxis):
            scale.set_major_formatter("{x:g}")
        text += ["", f"| {name} | " + " | ".join(map(str, points)) + " |", "|---|" + "---:|" * len(points)]
        text.append("| us | " + " | ".join(f"{m:.1f}" for m in middles) + " |")
    save(sheet, write_page("growth", "Growth", [*text, "", "![growth](growth.png)"], found) / "growth.png")


if __name__ == "__main__":
    main()
