"""Write docs/results from the curves and data that are committed there: tables, figures, the report, the claims.

python -m benchmarks.results

The curves come from `toppo study proof --out runs/proof --curves docs/results/learning`, likewise from
`proof-humanoid` (docs/results/humanoid), `controls --seeds 3` (docs/results/controls; its ToPPO and PPO are copies
from the first), `proof-discrete` (docs/results/discrete) and `proof-atari` (docs/results/games), and for the other
figures from `toppo reproduce FIGURE --curves docs/results/FIGURE`.  No number on
these pages is typed by hand.
"""

import json
from collections.abc import Callable

import numpy as np

from benchmarks.page import RESULTS
from toppo.plotting import save
from toppo.report.atari import game_of
from toppo.report.compare import Group, Pair, groups_of, pairs_of, verdict
from toppo.report.figures import curves_figure
from toppo.report.load import Loaded, load
from toppo.report.page import About, write_report
from toppo.report.statistics import MIN_FOR_INTERVAL
from toppo.report.tables import FINAL_COLUMNS, PAIR_COLUMNS, Cell, final_rows, number, pair_rows, show, summary
from toppo.report.text import counted
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


def table(columns: tuple[str, ...], rows: list[list[Cell]]) -> list[str]:
    """A table in Markdown."""
    lines = [list(columns), ["---"] * len(columns), *[[cell.text.replace("|", "\\|") for cell in row] for row in rows]]
    return ["| " + " | ".join(line) + " |" for line in lines] + [""]


def groups_in(name: str) -> list[Group]:
    """Groups of runs of a figure's study, if its curves are there."""
    folder = RESULTS / name
    has = folder.is_dir() and any("grid" in json.loads(p.read_text()) for p in folder.glob("*.json"))
    return groups_of(load(folder)) if has else []


def pair(groups: list[Group], env: str, ours: str, theirs: str) -> Pair | None:
    """One arm against another on an environment."""
    by_arm = {g.arm: g for g in groups if g.env == env}
    return pairs_of([by_arm[ours], by_arm[theirs]])[0] if {ours, theirs} <= set(by_arm) else None


def judged(found: Pair | None, env: str, what: str, expected: int = 1) -> str:
    """A line about one comparison: confirmed, contradicted or open."""
    if found is None:
        return f"- {env}: {what} not measured yet."
    side = SIDES[found.final.side * expected]
    steps = f"{found.budget:,} steps, {counted('run', found.final.runs)}"
    return (
        f"- {env}: **{side}**. {what}: final {show(found.final)}, area {show(found.area)} ({steps}; {verdict(found)})."
    )


def several(groups: list[Group], envs: tuple[str, ...], ours: str, theirs: str, expected: int = 1) -> list[str]:
    """Lines about one comparison on several environments."""
    return [judged(pair(groups, env, ours, theirs), env, f"{ours} - {theirs}", expected) for env in envs]


def beats_ppo(learning: list[Group]) -> list[str]:
    """ToPPO against PPO on all tasks."""
    wins = ("HalfCheetah-v5", "Swimmer-v5", "Reacher-v5", "Hopper-v5", "HumanoidStandup-v5", "Humanoid-v5")
    found = pair(learning, "Walker2d-v5", "toppo", "ppo")
    exception = judged(found, "Walker2d-v5, where the paper sees no gain (confirmed: lower)", "toppo - ppo", -1)
    return [*several(learning, wins, "toppo", "ppo"), exception]


def geppo_fails(learning: list[Group]) -> list[str]:
    """GePPO against PPO on HumanoidStandup."""
    return several(learning, ("HumanoidStandup-v5",), "geppo", "ppo", -1)


def selection_helps(learning: list[Group]) -> list[str]:
    """Selecting against not selecting."""
    groups, envs = groups_in("selection"), ("HalfCheetah-v5", "HumanoidStandup-v5")
    return [x for n in (5, 6) for x in several(groups, envs, f"toppo-N={n}", f"toppo-N={n}-NOT")]


def six_is_better(learning: list[Group]) -> list[str]:
    """N = 6 against N = 5 on HalfCheetah."""
    return several(groups_in("selection"), ("HalfCheetah-v5",), "toppo-N=6", "toppo-N=5")


def memory_moves(learning: list[Group]) -> list[str]:
    """|M| over training."""
    lines = []
    for group in (g for g in learning if g.arm == "toppo"):
        sizes = np.array([r.series["memory/size"] for r in group.runs])
        low, middle, high = np.nanpercentile(sizes, [5, 50, 95])
        side = "open" if len(group.runs) < MIN_FOR_INTERVAL else "confirmed" if high - low >= 0.5 else "contradicted"
        lines.append(
            f"- {group.env}: **{side}**. |M| averaged over a hundredth of a run lies between {low:.2f} and {high:.2f} "
            f"(5% and 95%), median {middle:.2f} ({counted('run', len(group.runs))})."
        )
    return ["Confirmed: the 5% and the 95% quantile are at least half a batch apart.", "", *lines]


def fixed_eps(learning: list[Group]) -> list[str]:
    """A fixed clip range against the adaptive one."""
    envs = ("HalfCheetah-v5", "HumanoidStandup-v5", "Swimmer-v5", "Reacher-v5")
    return several(groups_in("adaptive-eps"), envs, "toppo", "toppo-adaptive-eps")


def times_in_order(learning: list[Group]) -> list[str]:
    """Run times."""
    path = RESULTS / "run-time" / "run-time.json"
    if not path.is_file():
        return ["- not measured yet."]
    data = json.loads(path.read_text())
    times = {algo: sum(parts.values()) for algo, parts in data["milliseconds_per_1000_steps"].items()}
    side = "confirmed" if times["ppo"] < times["toppo"] < times["geppo"] else "contradicted"
    told = ", ".join(f"{algo} {ms:.0f}" for algo, ms in sorted(times.items(), key=lambda x: x[1]))
    return [
        "Confirmed: the medians of all seven, an iteration of each in turn, stand in that order.",
        "",
        f"- **{side}** ({data['scale']} scale). Milliseconds per 1000 steps: {told}.",
    ]


def vtrace_is_off(learning: list[Group]) -> list[str]:
    """V ratios."""
    path = RESULTS / "v-ratio" / "v-ratio.json"
    if not path.is_file():
        return ["- not measured yet."]
    data, lines = json.loads(path.read_text()), []
    for env in dict.fromkeys(r["env"] for r in data["rows"]):
        rows = {algo: [r for r in data["rows"] if (r["env"], r["algo"]) == (env, algo)] for algo in ("geppo", "toppo")}
        middle = {a: [np.median([r[k] for r in mine]) for k in ("ratio", "noise")] for a, mine in rows.items()}
        told = [f"{algo} {ratio:.3f} (sampling noise {noise:.3f})" for algo, (ratio, noise) in middle.items()]
        (vtrace, noise), (plain, _) = middle["geppo"], middle["toppo"]
        side = "contradicted" if vtrace < plain else "confirmed" if vtrace > 2 * noise else "open"
        side = "open, a rehearsal" if data["scale"] == "quick" else side
        lines.append(f"- {env}: **{side}**. Median V ratio {' and '.join(told)} ({data['scale']} scale).")
    return [
        "Confirmed: the median over training of sum|V - V_hat| / sum|V| is larger for GePPO (V-trace) than for ToPPO "
        "(plain GAE) and more than twice what sampling alone gives; contradicted: it is smaller than ToPPO's.",
        "",
        *lines,
    ]


def atari(learning: list[Group]) -> list[str]:
    """Atari games: the proof's, as far as there are any, or the rehearsal's."""
    groups = groups_in("games") or groups_in("atari")
    envs = tuple(dict.fromkeys(g.env for g in groups))
    return several(groups, envs, "toppo", "ppo") or ["- not measured yet."]


def larger_is_sometimes_better(learning: list[Group]) -> list[str]:
    """alpha and N against the defaults."""
    groups = groups_in("alpha-n")
    others = [(n, a) for n in (5, 8) for a in ("0.03", "0.05", "0.1", "0.3") if (n, a) != (5, "0.03")]
    lines = []
    for env in dict.fromkeys(g.env for g in groups):
        arms = [f"toppo-N={n}-alpha={a}" for n, a in others]
        lines += [x for arm in arms for x in several(groups, (env,), arm, "toppo-N=5-alpha=0.03")]
    return lines or ["- not measured yet."]


def controls(learning: list[Group]) -> list[str]:
    """What the paper lacks: is it the old data, or the early stop?"""
    groups, envs = groups_in("controls"), ("HalfCheetah-v5", "Hopper-v5", "Swimmer-v5")
    pairs = (("toppo", "toppo-alpha=0"), ("toppo", "ppo-early-stop"), ("toppo", "toppo-no-early-stop"))
    return [x for ours, theirs in pairs for x in several(groups, envs, ours, theirs)]


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
    "Controls that the paper lacks: old data, or early stop? (confirmed: ToPPO is better than the control)": controls,
}


def write_claims(learning: list[Group]) -> None:
    """The page that goes through the paper's claims one by one."""
    lines = [
        "# The paper's claims, one by one",
        "",
        "Made by `python -m benchmarks.results` from the curves and data in this directory. **Confirmed**: the 95% "
        "stratified bootstrap interval of the difference of mean final returns lies on the side of the claim; "
        "**contradicted**: on the other side; **open**: it holds 0, or there are fewer than five runs. Final: mean "
        "return of the training episodes in the last tenth of the steps. Area: mean return over all steps. Where a "
        "claim is not about returns, its own rule stands under its title.",
        "",
    ]
    found = {claim: judge(learning) for claim, judge in CLAIMS.items()}
    sides = tuple(SIDES.values())
    counts = [[Cell(str(sum(f"**{side}" in line for line in told))) for side in sides] for told in found.values()]
    lines += table(("claim", *sides), [[Cell(claim), *row] for claim, row in zip(found, counts, strict=True)])
    for claim, told in found.items():
        lines += [f"## {claim}", "", *told, ""]
    (RESULTS / "claims.md").write_text("\n".join(lines).rstrip() + "\n")


def beside_published(groups: list[Group]) -> list[str]:
    """Our PPO's test returns, mean and standard deviation over runs, beside the figures of others."""
    columns = ("task", "ours", "Tianshou", "OpenAI Baselines")
    ours = {g.env: g.tests() for g in groups if g.arm == "ppo"}
    rows = [
        [Cell(text) for text in (env, f"{number(ours[env].mean())} +- {number(ours[env].std(ddof=1))}", *theirs)]
        for env, theirs in PUBLISHED.items()
        if env in ours
    ]
    return table(columns, rows)


def write_learning(loaded: Loaded, groups: list[Group]) -> None:
    """The tables and the figure of the main study."""
    full = [g for g in groups if g.arm in FAMILY]
    save(curves_figure(full), LEARNING / "learning.png")
    found = pairs_of(groups)
    lines = [
        "# Proof of learning",
        "",
        "    toppo study proof --out runs/proof --curves docs/results/learning",
        "    python -m benchmarks.results",
        "",
        "All algorithms at their defaults. Final: mean return of the training episodes that ended in the last tenth of "
        "the steps. Area: mean return over the whole run. Test: 10 episodes with the most likely action at the end. "
        "Brackets: 95% bootstrap intervals over runs, from five runs on. [The same as a page](report.html), "
        "[the paper's claims one by one](../claims.md).",
        "",
        *[f"- {sentence}" for sentence in summary(full, found)],
        "",
        *table(FINAL_COLUMNS, final_rows(groups)),
        "Differences of means. `toppo-reset_each_batch=False` continues episodes across batches instead of starting "
        "each with a reset:",
        "",
        *table(PAIR_COLUMNS, pair_rows(found)),
        "![learning curves](learning.png)",
        "",
        "PPO beside what others publish after 1M steps (test episodes with the most likely action; their tasks are "
        "older versions, their discount, batch and annealing differ):",
        "",
        *beside_published(groups),
        "What to know about the data:",
        "",
        *[f"- {sentence}" for sentence in loaded.problems],
    ]
    (LEARNING / "README.md").write_text("\n".join(lines).rstrip() + "\n")


def write_discrete(groups: list[Group]) -> None:
    """Which algorithms reach the known scores on the discrete tasks."""
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
        "All algorithms for discrete actions at their defaults, three seeds; CartPole and Acrobot 200,000 steps, "
        "LunarLander 500,000, MiniGrid 50,000. A run has reached the score at which a task counts as solved if its "
        "final return (training episodes of the last tenth of the steps) or its tests (10 episodes with the most "
        "likely action at the end) are at or above it. Lost: runs whose training episodes were at or above it for a "
        "tenth of the steps so far, and are not at the end. [Curves and statistics](report.html).",
        "",
        *table(("task", "solved at", "algorithm", "final, by seed", "tests, by seed", "reached", "lost"), rows),
    ]
    (RESULTS / "discrete" / "README.md").write_text("\n".join(lines).rstrip() + "\n")


def write_games(loaded: Loaded) -> None:
    """Scores of training and of random play, side by side."""
    groups = groups_of(loaded)
    save(curves_figure([g for g in groups if g.env in LONG_GAMES]), RESULTS / "games" / "long.png")
    by_arm = {(g.env, g.arm): g for g in groups}
    rows = []
    for env in sorted(loaded.random, key=lambda env: (env not in LONG_GAMES, env)):
        found = [by_arm.get((env, arm)) for arm in ("toppo", "ppo")]
        scores = [", ".join(number(value) for value in g.final()) if g else "no game ended" for g in found]
        rows.append([Cell(text) for text in (game_of(env), *scores, number(loaded.random[env]))])
    lines = [
        "# Atari games",
        "",
        "    toppo study proof-atari --out runs/proof-atari --curves docs/results/games",
        "    python -m benchmarks.results",
        "",
        "ToPPO and PPO at their defaults for Atari: Breakout and CrazyClimber 250,000 steps (a million frames) and two "
        "seeds, the other thirteen 20,480 steps and one seed, enough to show that they run, not to compare. Score: "
        "mean of the whole games that ended in the last tenth of the steps or, if none did, of the last before, by "
        "seed. Random: ten games of a random policy. A game of Enduro lasts longer than the 2,560 steps that each of "
        "the eight environments made. [All curves, human-normalised scores and statistics](report.html).",
        "",
        *table(("game", "ToPPO", "PPO", "random"), rows),
        "![learning curves](long.png)",
        "",
        "What to know about the data:",
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
