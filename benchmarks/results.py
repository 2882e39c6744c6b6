"""Write the pages of docs/results from the curves and data that are committed there.

python -m benchmarks.results

The curves of docs/results/learning come from `toppo study proof --out runs/proof --curves docs/results/learning`.  In
the same way `proof-humanoid` makes docs/results/humanoid, `proof-discrete` makes docs/results/discrete, `proof-atari`
makes docs/results/games and `controls --seeds 3` makes docs/results/controls (its ToPPO and PPO are copies of the
first).  The other figures come from `toppo reproduce FIGURE --curves docs/results/FIGURE`.  No number on these pages is
typed by hand.
"""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.page import RESULTS
from toppo.plotting import save
from toppo.report.atari import game_of
from toppo.report.compare import Group, Pair, groups_of, pairs_of, verdict
from toppo.report.figures import curves_figure
from toppo.report.load import Loaded
from toppo.report.load import load as load_report
from toppo.report.page import About, write_report
from toppo.report.statistics import MIN_FOR_INTERVAL
from toppo.report.tables import FINAL_COLUMNS, PAIR_COLUMNS, Cell, final_rows, number, pair_rows, show, summary
from toppo.runs.spec import default_settings
from toppo.studies.paper import FAMILY, LONG_GAMES, MINIGRID

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
}
# Gymnasium's own thresholds; MiniGrid gives none: 0.9 is the goal within 11 of 100 steps.
SOLVED = {"CartPole-v1": 475.0, "Acrobot-v1": -100.0, "LunarLander-v3": 200.0, MINIGRID: 0.9}
SIDES = {1: "confirmed", -1: "contradicted", 0: "open"}
COMPARISON = ("task", "difference", "verdict", "final", "area", "steps", "runs", "final return is")


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


def pair(groups: list[Group], env: str, ours: str, theirs: str) -> Pair | None:
    """Compare one arm with another on an environment."""
    by_arm = {g.arm: g for g in groups if g.env == env}
    return pairs_of([by_arm[ours], by_arm[theirs]])[0] if {ours, theirs} <= set(by_arm) else None


def compared(groups: list[Group], env: str, ours: str, theirs: str, expected: int = 1) -> list[Cell]:
    """Return a row about one comparison: confirmed, contradicted or open."""
    found = pair(groups, env, ours, theirs)
    name = f"{ours} - {theirs}"
    if found is None:
        return [Cell(text) for text in (env, name, "not measured", *["-"] * (len(COMPARISON) - 3))]
    side = f"**{SIDES[found.final.side * expected]}**"
    numbers = (show(found.final), show(found.area), f"{found.budget:,}", str(found.final.runs))
    return [Cell(text) for text in (env, name, side, *numbers, verdict(found).removeprefix("open: "))]


def several(groups: list[Group], envs: tuple[str, ...], ours: str, theirs: str, expected: int = 1) -> list[list[Cell]]:
    """Return rows about one comparison on several environments."""
    return [compared(groups, env, ours, theirs, expected) for env in envs]


def beats_ppo(learning: list[Group]) -> list[str]:
    """Compare ToPPO with PPO on all tasks."""
    wins = ("HalfCheetah-v5", "Swimmer-v5", "Reacher-v5", "Hopper-v5", "HumanoidStandup-v5", "Humanoid-v5")
    rows = several(learning, wins, "toppo", "ppo")
    exception = compared(learning, "Walker2d-v5", "toppo", "ppo", -1)
    return [
        "On Walker2d the paper sees no gain: there a lower return confirms the claim.",
        "",
        *table(COMPARISON, [*rows, exception]),
    ]


def geppo_fails(learning: list[Group]) -> list[str]:
    """Compare GePPO with PPO on HumanoidStandup."""
    rule = "A lower return confirms the claim."
    return [rule, "", *table(COMPARISON, several(learning, ("HumanoidStandup-v5",), "geppo", "ppo", -1))]


def selection_helps(learning: list[Group]) -> list[str]:
    """Compare ToPPO with and without selecting policies."""
    groups = groups_in("selection")
    envs = ("HalfCheetah-v5", "HumanoidStandup-v5")
    return table(COMPARISON, [row for n in (5, 6) for row in several(groups, envs, f"toppo-N={n}", f"toppo-N={n}-NOT")])


def six_is_better(learning: list[Group]) -> list[str]:
    """Compare N = 6 with N = 5 on HalfCheetah."""
    return table(COMPARISON, several(groups_in("selection"), ("HalfCheetah-v5",), "toppo-N=6", "toppo-N=5"))


def memory_moves(learning: list[Group]) -> list[str]:
    """Tell how |M| moves over training."""
    rows = []
    for group in (g for g in learning if g.arm == "toppo"):
        sizes = np.array([r.series["memory/size"] for r in group.runs])
        low, middle, high = np.nanpercentile(sizes, [5, 50, 95])
        side = "open" if len(group.runs) < MIN_FOR_INTERVAL else "confirmed" if high - low >= 0.5 else "contradicted"
        numbers = (f"{low:.2f}", f"{middle:.2f}", f"{high:.2f}", str(len(group.runs)))
        rows.append([Cell(text) for text in (group.env, f"**{side}**", *numbers)])
    return [
        "|M| is averaged over each hundredth of a run. Confirmed: its 5% and 95% quantiles are at least half a batch "
        "apart.",
        "",
        *table(("task", "verdict", "5% quantile", "median", "95% quantile", "runs"), rows),
    ]


def fixed_eps(learning: list[Group]) -> list[str]:
    """Compare a fixed clip range with the adaptive one."""
    envs = ("HalfCheetah-v5", "HumanoidStandup-v5", "Swimmer-v5", "Reacher-v5")
    return table(COMPARISON, several(groups_in("adaptive-eps"), envs, "toppo", "toppo-adaptive-eps"))


def times_in_order(learning: list[Group]) -> list[str]:
    """Compare run times."""
    path = RESULTS / "run-time" / "run-time.json"
    if not path.is_file():
        return ["Not measured yet."]
    data = json.loads(path.read_text())
    times = {algo: sum(parts.values()) for algo, parts in data["milliseconds_per_1000_steps"].items()}
    side = "confirmed" if times["ppo"] < times["toppo"] < times["geppo"] else "contradicted"
    rows = [[Cell(algo), Cell(f"{ms:.0f}")] for algo, ms in sorted(times.items(), key=lambda x: x[1])]
    return [
        f"**{side}** ({data['scale']} scale). Confirmed: the medians stand in that order. All seven algorithms "
        "train in turn, an iteration of each.",
        "",
        *table(("algorithm", "milliseconds per 1000 steps"), rows),
    ]


def vtrace_is_off(learning: list[Group]) -> list[str]:
    """Compare V ratios."""
    path = RESULTS / "v-ratio" / "v-ratio.json"
    if not path.is_file():
        return ["Not measured yet."]
    data = json.loads(path.read_text())
    rows = []
    for env in dict.fromkeys(r["env"] for r in data["rows"]):
        of_algo = {a: [r for r in data["rows"] if (r["env"], r["algo"]) == (env, a)] for a in ("geppo", "toppo")}
        ratio = {algo: np.median([r["ratio"] for r in mine]) for algo, mine in of_algo.items()}
        noise = {algo: np.median([r["noise"] for r in mine]) for algo, mine in of_algo.items()}
        side = "confirmed" if ratio["geppo"] > 2 * noise["geppo"] else "open"
        side = "contradicted" if ratio["geppo"] < ratio["toppo"] else side
        side = "open (quick run)" if data["scale"] == "quick" else side
        numbers = [f"{number:.3f}" for algo in of_algo for number in (ratio[algo], noise[algo])]
        rows.append([Cell(text) for text in (env, f"**{side}**", *numbers)])
    columns = ("task", "verdict", "GePPO", "GePPO, noise alone", "ToPPO", "ToPPO, noise alone")
    return [
        "Median over training of sum|V - V_hat| / sum|V|, and what sampling noise alone gives. Confirmed: it is larger "
        "for GePPO (V-trace) than for ToPPO (plain GAE), and more than twice the noise. Contradicted: it is smaller "
        "for GePPO.",
        "",
        *table(columns, rows),
    ]


def atari(learning: list[Group]) -> list[str]:
    """Compare ToPPO with PPO on Atari games."""
    groups = groups_in("games") or groups_in("atari")
    return table(COMPARISON, several(groups, tuple(dict.fromkeys(g.env for g in groups)), "toppo", "ppo"))


def larger_is_sometimes_better(learning: list[Group]) -> list[str]:
    """Compare other values of alpha and N with the defaults."""
    groups = groups_in("alpha-n")
    default = "toppo-N=5-alpha=0.03"
    others = [f"toppo-N={n}-alpha={alpha}" for n in (5, 8) for alpha in ("0.03", "0.05", "0.1", "0.3")]
    envs = dict.fromkeys(g.env for g in groups)
    return table(COMPARISON, [compared(groups, env, arm, default) for env in envs for arm in others if arm != default])


def controls(learning: list[Group]) -> list[str]:
    """Compare ToPPO with controls that the paper lacks."""
    groups = groups_in("controls")
    envs = ("HalfCheetah-v5", "Hopper-v5", "Swimmer-v5")
    others = ("toppo-alpha=0", "ppo-early-stop", "toppo-no-early-stop")
    rule = "Is it the old data, or the early stop? A higher return of ToPPO than of the control counts as confirmed."
    return [rule, "", *table(COMPARISON, [row for other in others for row in several(groups, envs, "toppo", other)])]


CLAIMS: dict[str, Callable[[list[Group]], list[str]]] = {
    "ToPPO beats PPO everywhere but on Walker2d": beats_ppo,
    "GePPO fails on HumanoidStandup": geppo_fails,
    "Selecting policies helps": selection_helps,
    "N = 6 is better than N = 5 on HalfCheetah": six_is_better,
    "|M| moves during training": memory_moves,
    "A fixed clip range beats Lemma 4.1's adaptive one": fixed_eps,
    "An iteration's time: PPO < ToPPO < GePPO": times_in_order,
    "Values estimated by V-trace are off": vtrace_is_off,
    "ToPPO beats PPO on Atari": atari,
    "A larger alpha or N is sometimes better": larger_is_sometimes_better,
    "Controls that the paper lacks": controls,
}


def write_claims(learning: list[Group]) -> None:
    """Write the page about the paper's claims."""
    lines = [
        "# The paper's claims, one by one",
        "",
        "`python -m benchmarks.results` makes this page from the curves and data in this directory.",
        "",
        "- **Confirmed**: the 95% stratified bootstrap interval of the difference of mean final returns lies on the "
        "side of the claim.",
        "- **Contradicted**: the interval lies on the other side.",
        "- **Open**: the interval contains 0, or there are fewer than five runs.",
        "- Final: mean return of the training episodes in the last tenth of the steps.",
        "- Area: mean return over all steps.",
        "- A claim that is not about returns has its own rule, which stands under its title.",
        "",
    ]
    found = {claim: check(learning) for claim, check in CLAIMS.items()}
    sides = tuple(SIDES.values())
    counts = [[Cell(str(sum(f"**{side}" in line for line in told))) for side in sides] for told in found.values()]
    lines += table(("claim", *sides), [[Cell(claim), *row] for claim, row in zip(found, counts, strict=True)])
    for claim, told in found.items():
        lines += [f"## {claim}", "", "\n".join(told).rstrip(), ""]
    (RESULTS / "claims.md").write_text("\n".join(lines).rstrip() + "\n")


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


def write_discrete(groups: list[Group]) -> None:
    """Write the page that tells which algorithms solve the discrete tasks."""
    if not groups:
        return
    rows = []
    for group in groups:
        finals, tests = group.final(), group.tests()
        highest = np.max([group.final(steps) for steps in range(group.budget // 5, group.budget, 1000)], axis=0)
        reached = np.maximum(finals, tests) >= SOLVED[group.env]
        lost = (highest >= SOLVED[group.env]) & ~reached
        of_seeds = [", ".join(number(value) for value in values) for values in (finals, tests)]
        told = (group.env, number(SOLVED[group.env]), group.arm, *of_seeds, f"{reached.sum()} of {len(finals)}")
        rows.append([Cell(text) for text in (*told, str(lost.sum() or ""))])
    lines = [
        "# Discrete actions",
        "",
        "    toppo study proof-discrete --out runs/discrete --curves docs/results/discrete",
        "    python -m benchmarks.results",
        "",
        "All algorithms for discrete actions have their default settings and three seeds. CartPole and Acrobot have "
        "200,000 steps, LunarLander 500,000 and MiniGrid 50,000.",
        "",
        "- Final: mean return of the training episodes in the last tenth of the steps.",
        "- Tests: mean return of 10 episodes with the most likely action at the end.",
        "- Reached: runs whose final return or tests are at least the score at which the task counts as solved.",
        "- Lost: runs that had reached this score over a tenth of the steps before, but not at the end.",
        "",
        "See also [curves and statistics](report.html).",
        "",
        *table(("task", "solved at", "algorithm", "final, by seed", "tests, by seed", "reached", "lost"), rows),
    ]
    (RESULTS / "discrete" / "README.md").write_text("\n".join(lines).rstrip() + "\n")


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
    write_discrete(groups_in("discrete"))
    write_games(load(RESULTS / "games"))
    write_claims(groups + groups_in("humanoid"))


if __name__ == "__main__":
    main()
