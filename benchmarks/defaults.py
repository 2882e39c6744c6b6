"""The page of the default preset: ToPPO and its baselines on twelve continuous tasks, as far as they have run."""

from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.page import RESULTS
from toppo.plotting import save
from toppo.report import statistics as stats
from toppo.report.compare import BASELINE, Group, groups_of
from toppo.report.figures import curves_figure
from toppo.report.load import load
from toppo.report.statistics import Estimate
from toppo.report.tables import Cell, number
from toppo.runs.spec import default_settings
from toppo.studies.paper import DEFAULTS

FOLDER = RESULTS / "defaults"
# PPO after 1M steps, the better of what Tianshou's benchmark and the zoo of Stable-Baselines3 publish.
PUBLISHED = {
    "HalfCheetah-v5": "5819",
    "Hopper-v5": "3300",
    "Walker2d-v5": "4500",
    "Swimmer-v5": "130",
    "Reacher-v5": "-4.1",
    "Humanoid-v5": "787",
    "Ant-v5": "3258",
    "InvertedDoublePendulum-v5": "9200",
    "LunarLanderContinuous-v3": "270",
    "BipedalWalker-v3": "250",
}
Table = Callable[[tuple[str, ...], list[list[Cell]]], list[str]]
Tests = dict[tuple[str, str], np.ndarray]
"""By arm and environment: the mean return of ten test episodes at the end of every run."""


def ratio_of_iqms(strata: Sequence[np.ndarray]) -> np.ndarray:
    """Return the IQM of all scores of one arm over that of another; their strata come one arm after the other."""
    half = len(strata) // 2
    ours, theirs = (stats.pooled(stats.iqm)(side) for side in (strata[:half], strata[half:]))
    return np.asarray(ours / theirs)


def across_tasks(
    tests: Tests, random: dict[str, float], ours: str, theirs: str
) -> tuple[list[str], Estimate, Estimate]:
    """Return the tasks that two arms share, the ratio of their IQMs, and the probability that a run of ours is better.

    A score is 0 for a random policy, and 1 for PPO's mean.
    """
    envs = [
        env for arm, env in tests if arm == ours and {(theirs, env), (BASELINE, env)} <= set(tests) and env in random
    ]
    scores = [
        (tests[arm, env] - random[env]) / (tests[BASELINE, env].mean() - random[env])
        for arm in (ours, theirs)
        for env in envs
    ]
    return envs, stats.bootstrap(scores, ratio_of_iqms), stats.bootstrap(scores, stats.probability_of_improvement)


def told(estimate: Estimate) -> str:
    """Write an estimate with its interval, if it has one."""
    interval = f" [{estimate.low:.2f}, {estimate.high:.2f}]" if estimate.low is not None else ""
    return f"{estimate.value:.2f}{interval}"


def rows_of_tasks(groups: list[Group], tests: Tests) -> list[list[Cell]]:
    """Return a row for every task: the mean test return of every arm, with the number of its runs."""
    arms = list(dict.fromkeys(g.arm for g in groups))
    rows = []
    for env in dict.fromkeys(g.env for g in groups):
        means = [
            f"{number(tests[arm, env].mean())} ({len(tests[arm, env])})" if (arm, env) in tests else "-" for arm in arms
        ]
        rows.append([Cell(text) for text in (env, *means, PUBLISHED.get(env, "-"))])
    return rows


def page_of_defaults(table: Table) -> list[str]:
    """Return the lines of the page, and draw its picture."""
    loaded = load(FOLDER, defaults=default_settings)
    groups = groups_of(loaded)
    tests = {(g.arm, g.env): found for g in groups if len(found := g.tests())}
    arms = list(dict.fromkeys(g.arm for g in groups))
    save(curves_figure(groups), FOLDER / "defaults.png")
    across = []
    for theirs in arms[1:]:
        envs, ratio, better = across_tasks(tests, loaded.random, arms[0], theirs)
        runs = sorted({len(tests[arm, env]) for arm in (arms[0], theirs) for env in envs})
        counted = f"{runs[0]}" if len(runs) == 1 else f"{runs[0]} to {runs[-1]}"
        across.append(
            [Cell(x) for x in (f"{arms[0]} and {theirs}", str(len(envs)), counted, told(ratio), told(better))]
        )
    planned = len(DEFAULTS.grids[0].envs), DEFAULTS.grids[0].seeds
    return [
        "# The default preset",
        "",
        "    toppo study defaults --curves docs/results/defaults",
        "    python -m benchmarks.results",
        "",
        f"One million steps on {planned[0]} continuous tasks; the study is planned with {planned[1]} seeds, and grows. "
        "All arms have the same shared settings: 16 environments, initial standard deviation 0.6, gamma 0.995, lambda "
        "0.97, entropy bonus 0.01. No setting differs by task. What was tried before stands in the "
        "[log](../strength/README.md), on other seeds.",
        "",
        "Across tasks. A score is 0 for a random policy and 1 for PPO's mean on that task; IQM is the mean of the "
        "middle half of all scores. Probability: that a run of ToPPO is better than one of the other on the same "
        "task. Brackets: 95% bootstrap intervals, with at least five runs per task.",
        "",
        *table(("arms", "tasks", "runs per task", "IQM, ratio", "probability"), across),
        "Mean of ten test episodes with the most likely action at the end, and in brackets the number of runs. "
        "Published: PPO in Tianshou's benchmark or the zoo of Stable-Baselines3, whichever is better; the zoo tunes "
        "each task, and some of their tasks are older versions.",
        "",
        *table(("task", *arms, "published"), rows_of_tasks(groups, tests)),
        "![learning curves](defaults.png)",
    ]
