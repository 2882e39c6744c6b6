"""Write the pages of docs/results from the curves and data that are committed there.

python -m benchmarks.results

The curves of docs/results/learning come from `toppo study proof --out runs/proof --curves docs/results/learning`.  In
the same way `proof-humanoid` makes docs/results/humanoid, `proof-discrete` makes docs/results/discrete, `proof-atari`
makes docs/results/games and `controls --seeds 3` makes docs/results/controls (its ToPPO and PPO are copies of the
first), and `minatar` docs/results/minatar.  The quick figures come from `toppo reproduce FIGURE --curves
docs/results/quick/FIGURE`.  No number on these pages is typed by hand.
"""

import json
from pathlib import Path

import numpy as np

from benchmarks.claims import all_claims, write_claims
from benchmarks.defaults import FOLDER as DEFAULTS
from benchmarks.defaults import page_of_defaults
from benchmarks.findings import write_findings
from benchmarks.page import RESULTS
from toppo.plotting import save
from toppo.report.atari import game_of
from toppo.report.compare import Group, groups_of, pairs_of
from toppo.report.figures import curves_figure
from toppo.report.load import Loaded
from toppo.report.load import load as load_report
from toppo.report.page import About, write_report
from toppo.report.tables import FINAL_COLUMNS, PAIR_COLUMNS, Cell, final_rows, number, pair_rows, summary
from toppo.runs.spec import default_settings
from toppo.studies.paper import DOOR_KEY, FAMILY, LONG_GAMES, MINIGRID

LEARNING = RESULTS / "learning"
# PPO after 1M steps elsewhere: Tianshou (10 seeds, deterministic tests) and OpenAI Baselines, read from their pages.
PUBLISHED = {
    "HalfCheetah-v5": ("5784 +- 1244", "1700"),
    "Hopper-v5": ("2609 +- 701", "2400"),
    "Reacher-v5": ("-4.1 +- 0.3", "-6"),
    "Swimmer-v5": ("67 +- 99", "111"),
    "Walker2d-v5": ("3589 +- 757", "3510"),
}
REPORTS = {
    "learning": "Proof of learning",
    "humanoid": "The two humanoids",
    "controls": "Controls: is it the old data, or the early stop?",
    "discrete": "Discrete actions",
    "games": "Atari games",
    "minatar": "MinAtar in JAX",
}
# Gymnasium's own thresholds; MiniGrid gives none: 0.9 is the goal within 11 of 100 steps.
SOLVED = {"CartPole-v1": 475.0, "Acrobot-v1": -100.0, "LunarLander-v3": 200.0, MINIGRID: 0.9, DOOR_KEY: 0.9}


def table(columns: tuple[str, ...], rows: list[list[Cell]]) -> list[str]:
    """Return a table in Markdown."""
    lines = [list(columns), ["---"] * len(columns), *[[cell.text.replace("|", "\\|") for cell in row] for row in rows]]
    return ["| " + " | ".join(line) + " |" for line in lines] + [""]


def load(folder: Path) -> Loaded:
    """Load the curves of a folder; a setting that an old curve lacks has its default."""
    return load_report(folder, defaults=default_settings)


def groups_in(name: str) -> list[Group]:
    """Return the groups of runs of a figure's study, if its curves are there."""
    folder = RESULTS / name
    has = folder.is_dir() and any("grid" in json.loads(p.read_text()) for p in folder.glob("*.json"))
    return groups_of(load(folder)) if has else []


def beside_published(groups: list[Group]) -> list[str]:
    """Put the test returns of our PPO, mean and standard deviation over runs, beside those that others publish."""
    columns = ("task", "ours", "Tianshou", "OpenAI Baselines")
    ours = {g.env: g.tests() for g in groups if g.arm == "ppo"}
    rows = [
        [Cell(text) for text in (env, f"{number(ours[env].mean())} +- {number(ours[env].std(ddof=1))}", *theirs)]
        for env, theirs in PUBLISHED.items()
        if env in ours
    ]
    return table(columns, rows)


def write_learning(loaded: Loaded, groups: list[Group]) -> None:
    """Write the page of the main study."""
    full = [g for g in groups if g.arm in FAMILY]
    save(curves_figure(full), LEARNING / "learning.png")
    found = pairs_of(groups)
    lines = [
        "# Proof of learning",
        "",
        "    toppo study proof --out runs/proof --curves docs/results/learning",
        "    python -m benchmarks.results",
        "",
        "All algorithms have their default settings. Final: mean return of the training episodes that ended in the "
        "last tenth of the steps. Area: mean return over all steps. Test: 10 episodes with the most likely action at "
        "the end. Brackets: 95% bootstrap intervals over runs, with at least five runs. See also "
        "[the full report](report.html) and [the paper's claims, one by one](../claims.md).",
        "",
        *[f"- {sentence}" for sentence in summary(full, found)],
        "",
        *table(FINAL_COLUMNS, final_rows(groups)),
        "Differences of means. `toppo-reset_each_batch=False` continues episodes across batches; the others start "
        "every batch with a reset.",
        "",
        *table(PAIR_COLUMNS, pair_rows(found)),
        "![learning curves](learning.png)",
        "",
        "PPO beside what others publish after 1M steps, in test episodes with the most likely action. Their tasks are "
        "older versions, and their discount, batch size and annealing differ.",
        "",
        *beside_published(groups),
        "Notes on the data:",
        "",
        *[f"- {sentence}" for sentence in loaded.problems],
    ]
    (LEARNING / "README.md").write_text("\n".join(lines).rstrip() + "\n")


def write_discrete(name: str, study: str, about: str) -> None:
    """Write the page that tells which algorithms solve the discrete tasks of a study."""
    rows = []
    for group in groups_in(name):
        finals, tests = group.final(), group.tests()
        highest = np.max([group.final(steps) for steps in range(group.budget // 5, group.budget, 1000)], axis=0)
        reached = np.maximum(finals, tests) >= SOLVED[group.env]
        lost = (highest >= SOLVED[group.env]) & ~reached
        of_seeds = [", ".join(number(value) for value in values) for values in (finals, tests)]
        told = (group.env, number(SOLVED[group.env]), group.arm, *of_seeds, f"{reached.sum()} of {len(finals)}")
        rows.append([Cell(text) for text in (*told, str(lost.sum() or ""))])
    if not rows:
        return
    lines = [
        "# Discrete actions",
        "",
        f"    toppo study {study} --curves docs/results/{name}",
        "    python -m benchmarks.results",
        "",
        about,
        "",
        "- Final: mean return of the training episodes in the last tenth of the steps.",
        "- Tests: mean return of 10 episodes with the most likely action at the end.",
        "- Reached: runs whose final return or tests are at least the score at which the task counts as solved.",
        "- Lost: runs that had reached this score over a tenth of the steps before, but not at the end.",
        "",
        *(["See also [curves and statistics](report.html).", ""] if name in REPORTS else []),
        *table(("task", "solved at", "algorithm", "final, by seed", "tests, by seed", "reached", "lost"), rows),
    ]
    (RESULTS / name / "README.md").write_text("\n".join(lines).rstrip() + "\n")


def write_games(loaded: Loaded) -> None:
    """Write the page of the Atari games."""
    groups = groups_of(loaded)
    save(curves_figure([g for g in groups if g.env in LONG_GAMES]), RESULTS / "games" / "long.png")
    by_arm = {(g.env, g.arm): g for g in groups}
    rows = []
    for env in sorted(loaded.random, key=lambda env: (env not in LONG_GAMES, env)):
        found = [by_arm.get((env, arm)) for arm in ("toppo", "ppo")]
        scores = [", ".join(number(value) for value in g.final()) if g else "no episode ended" for g in found]
        rows.append([Cell(text) for text in (game_of(env), *scores, number(loaded.random[env]))])
    lines = [
        "# Atari games",
        "",
        "    toppo study proof-atari --out runs/proof-atari --curves docs/results/games",
        "    python -m benchmarks.results",
        "",
        "ToPPO and PPO have their default settings for Atari. Breakout and CrazyClimber have 250,000 steps (a million "
        "frames) and two seeds. The other thirteen games have 20,480 steps and one seed: enough to show that they run, "
        "not to compare. Score, by seed: mean return of the full games that ended in the last tenth of the steps, or "
        "of the last ones before. Random: ten games of a random policy. A game of Enduro is longer than the 2,560 "
        "steps of each of the eight environments. See also [all curves, human-normalised scores and "
        "statistics](report.html).",
        "",
        *table(("game", "ToPPO", "PPO", "random"), rows),
        "![learning curves](long.png)",
        "",
        "Notes on the data:",
        "",
        *[f"- {sentence}" for sentence in loaded.problems],
    ]
    (RESULTS / "games" / "README.md").write_text("\n".join(lines).rstrip() + "\n")


def main() -> None:
    """Write everything."""
    loaded = load(LEARNING)
    groups = groups_of(loaded)
    write_learning(loaded, groups)
    for name, title in REPORTS.items():
        if (RESULTS / name).is_dir():
            about = About(title, f"toppo report docs/results/{name}")
            write_report(load(RESULTS / name), RESULTS / name / "report.html", about)
    budgets = "CartPole and Acrobot have 200,000 steps, LunarLander 500,000 and the empty room of MiniGrid 50,000."
    write_discrete("discrete", "proof-discrete", f"All algorithms at the paper's settings, with three seeds. {budgets}")
    write_discrete(
        "defaults-discrete",
        "defaults-discrete",
        f"ToPPO and PPO at the default preset, with up to ten seeds. {budgets} MiniGrid's door with a key has 200,000.",
    )
    write_games(load(RESULTS / "games"))
    (DEFAULTS / "README.md").write_text("\n".join(page_of_defaults(table)).rstrip() + "\n")
    claims = all_claims()
    write_claims(claims)
    write_findings(claims)


if __name__ == "__main__":
    main()
