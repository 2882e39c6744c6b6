"""The page of the paper's claims: a verdict on each, then its intervals and its picture."""

import json
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from benchmarks.evidence import evidence_of, groups_of_study
from benchmarks.page import RESULTS
from benchmarks.verdicts import (
    COLUMNS,
    CONFIRMED,
    CONTRADICTED,
    LEVEL,
    MIN_RUNS,
    NO_DIFFERENCE,
    NOT_RUN,
    Comparison,
    Row,
    Verdict,
    forest,
    judge,
    overall,
    seeds_told,
)
from toppo.plotting import save
from toppo.report.figures import Labels, curves_figure
from toppo.reproduce import v_ratio
from toppo.runs.presets import PAPER_TASKS
from toppo.studies.paper import ALPHA_TASKS, ALPHAS, EPS_TASKS, MINATAR, SELECTION_TASKS, THREE_TASKS, paper_study
from toppo.studies.study import jobs_of

PICTURES = RESULTS / "claims"
MOVES = 0.5  # batches between the 5% and the 95% quantile of |M|
CORES_OF_TIMINGS = 2  # of the machine of docs/results/throughput-atari
SPEED_ROWS = {"ppo": "toppo PPO", "toppo": "toppo ToPPO"}  # as that page names them


class Claim(NamedTuple):
    """A claim's verdict in a few words, its evidence in Markdown, and its picture: drawn here, or a path."""

    title: str
    verdict: str
    seeds: str
    lines: list[str]
    picture: Figure | str | None = None


def table(columns: tuple[str, ...], rows: list[list[str]]) -> list[str]:
    """Return a table in Markdown."""
    lines = [list(columns), ["---"] * len(columns), *[[text.replace("|", "\\|") for text in row] for row in rows]]
    return ["| " + " | ".join(line) + " |" for line in lines] + [""]


def command(study: str, folder: str) -> list[str]:
    """Return the command that trains what is missing, and equal runs of other studies are not trained again."""
    return [f"    toppo study {study} --curves docs/results/{folder} --reuse docs/results", ""]


def evidence(rows: list[Row]) -> list[str]:
    """Return the table of the rows that have a verdict, and a sentence about the others."""
    judged = [row for row in rows if row.verdict.word != NOT_RUN]
    missing: dict[str, list[str]] = {}
    for row in rows:
        if row not in judged:
            seeds = f"{row.comparison.env} ({row.verdict.seeds} of {row.verdict.planned} seeds)"
            missing.setdefault(row.name, []).append(seeds)
    lines = table(COLUMNS, [row.cells() for row in judged]) if judged else []
    told = "; ".join(f"{name} on {', '.join(envs)}" for name, envs in missing.items())
    return [*lines, *([f"Too few runs for a verdict: {told}.", ""] if told else [])]


def compared(
    title: str, comparisons: list[Comparison], rule: str = "", folder: str = "", sometimes: bool = False
) -> Claim:
    """Return a claim about final returns."""
    rows = judge(comparisons)
    verdicts = [row.verdict for row in rows]
    study = comparisons[0].study
    lines = [
        *([rule, ""] if rule else []),
        *command(study, folder or study),
        *evidence(rows),
    ]
    picture = forest(rows) if any(v.word != NOT_RUN for v in verdicts) else None
    return Claim(title, overall(verdicts, sometimes), seeds_told(verdicts), lines, picture)


def beats_ppo() -> Claim:
    """Compare ToPPO with PPO on all tasks."""
    rows = [
        Comparison("performance", env, "toppo", "ppo", -1 if env == "Walker2d-v5" else 1)
        for env in sorted(PAPER_TASKS, key=lambda env: env == "Walker2d-v5")
    ]
    rule = (
        "On Walker2d the paper sees no gain: there a lower return confirms the claim, and a higher one contradicts it."
    )
    return compared("ToPPO beats PPO everywhere but on Walker2d", rows, rule, "learning")


def geppo_fails() -> Claim:
    """Compare GePPO with PPO on HumanoidStandup."""
    rows = [Comparison("performance", "HumanoidStandup-v5", "geppo", "ppo", -1)]
    return compared("GePPO fails on HumanoidStandup", rows, "A lower return confirms the claim.", "learning")


def selection_helps() -> Claim:
    """Compare ToPPO with and without selecting policies."""
    rows = [Comparison("selection", env, f"toppo-N={n}", f"toppo-N={n}-NOT") for n in (5, 6) for env in SELECTION_TASKS]
    return compared("Selecting policies helps", rows)


def six_is_better() -> Claim:
    """Compare N = 6 with N = 5 on HalfCheetah."""
    rows = [Comparison("selection", "HalfCheetah-v5", "toppo-N=6", "toppo-N=5")]
    return compared("Six policies are better than five on HalfCheetah", rows)


def memory_moves() -> Claim:
    """Tell how |M| moves over training."""
    rows = []
    verdicts = []
    for env in PAPER_TASKS:
        evidence = evidence_of("performance")[env, "toppo"]
        verdict = Verdict(NOT_RUN, evidence.seeds, evidence.planned)
        quantiles = ["-"] * 3
        if evidence.seeds >= MIN_RUNS:
            sizes = np.array([run.series["memory/size"] for run in evidence.group.runs])
            low, middle, high = np.nanpercentile(sizes, [5, 50, 95])
            verdict = verdict._replace(word=CONFIRMED if high - low >= MOVES else CONTRADICTED)
            quantiles = [f"{x:.2f}" for x in (low, middle, high)]
        verdicts.append(verdict)
        rows.append([env, verdict.text, *quantiles, f"{verdict.seeds} of {verdict.planned}"])
    lines = [
        "|M| is averaged over each hundredth of a run. Confirmed: its 5% and 95% quantiles are at least half a batch "
        "apart. A statement about what the runs did, without a test.",
        "",
        *command("performance", "learning"),
        *table(("task", "verdict", "5% quantile", "median", "95% quantile", "seeds"), rows),
    ]
    groups = [g for g in groups_of_study("performance") if g.arm == "toppo"]
    picture = curves_figure(groups, series="memory/size", labels=Labels(y="|M|, including the newest batch"))
    return Claim(
        "The size of the memory moves during training", overall(verdicts), seeds_told(verdicts), lines, picture
    )


def fixed_eps() -> Claim:
    """Compare a fixed clip range with the adaptive one."""
    rows = [Comparison("adaptive-eps", env, "toppo", "toppo-adaptive-eps") for env in EPS_TASKS]
    return compared("A fixed clip range beats Lemma 4.1's adaptive one", rows)


def times_in_order() -> Claim:
    """Compare run times."""
    title = "PPO is faster than ToPPO, and ToPPO faster than GePPO"
    path = RESULTS / "run-time" / "run-time.json"
    if not path.is_file():
        return Claim(title, f"**{NOT_RUN}**", "-", [])
    data = json.loads(path.read_text())
    times = {algo: sum(parts.values()) for algo, parts in data["milliseconds_per_1000_steps"].items()}
    word = CONFIRMED if times["ppo"] < times["toppo"] < times["geppo"] else CONTRADICTED
    lines = [
        f"Measured at the scale {data['scale']}. Confirmed: the medians stand in that order. All seven algorithms "
        "train in turn, an iteration of each, so that a slow minute slows them all.",
        "",
        f"    toppo reproduce run-time --scale {data['scale']}",
        "",
        *table(
            ("algorithm", "milliseconds per 1000 steps"),
            [[algo, f"{ms:.0f}"] for algo, ms in sorted(times.items(), key=lambda x: x[1])],
        ),
    ]
    return Claim(title, f"**{word}**", "-", lines, "run-time/run-time.png")


def vtrace_is_off() -> Claim:
    """Compare V ratios."""
    title = "Values estimated by V-trace are off"
    path = RESULTS / "v-ratio" / "v-ratio.json"
    data = json.loads(path.read_text()) if path.is_file() else {"rows": [], "scale": "quick"}
    rows = []
    verdicts = []
    planned = v_ratio.SCALES["paper"].seeds
    for env in v_ratio.TASKS:
        mine = {algo: [r for r in data["rows"] if (r["env"], r["algo"]) == (env, algo)] for algo in ("geppo", "toppo")}
        seeds = 0 if data["scale"] == "quick" else min(len({r["seed"] for r in found}) for found in mine.values())
        verdict = Verdict(NOT_RUN, seeds, planned)
        numbers = ["-"] * 4
        if all(mine.values()):
            ratio = {algo: np.median([r["ratio"] for r in found]) for algo, found in mine.items()}
            noise = {algo: np.median([r["noise"] for r in found]) for algo, found in mine.items()}
            numbers = [f"{kind[algo]:.3f}" for algo in mine for kind in (ratio, noise)]
            if seeds >= MIN_RUNS:
                word = CONFIRMED if ratio["geppo"] > 2 * noise["geppo"] else NO_DIFFERENCE
                verdict = verdict._replace(word=CONTRADICTED if ratio["geppo"] < ratio["toppo"] else word)
        verdicts.append(verdict)
        rows.append([env, verdict.text, *numbers, f"{seeds} of {planned}"])
    lines = [
        "Median over training of sum|V - V_hat| / sum|V|, and what sampling noise alone gives. Confirmed: it is larger "
        "for GePPO (V-trace) than for ToPPO (plain GAE), and more than twice the noise. Contradicted: it is smaller "
        "for GePPO." + (" The numbers are those of a quick run of one seed." * (data["scale"] == "quick")),
        "",
        "    toppo reproduce v-ratio --scale paper --out docs/results/v-ratio",
        "",
        *table(
            ("task", "verdict", "GePPO", "GePPO, noise alone", "ToPPO", "ToPPO, noise alone", "seeds"),
            rows,
        ),
    ]
    picture = "v-ratio/v-ratio.png" if data["rows"] else None
    return Claim(title, overall(verdicts), seeds_told(verdicts), lines, picture)


def larger_is_sometimes_better() -> Claim:
    """Compare other values of alpha and N with the defaults."""
    default = "toppo-N=5-alpha=0.03"
    others = [f"toppo-N={n}-alpha={alpha}" for n in (5, 8) for alpha in ALPHAS if alpha >= 0.03]
    rows = [Comparison("alpha-n", env, arm, default) for env in ALPHA_TASKS for arm in others if arm != default]
    rule = "The claim is that a larger value is better somewhere: one row confirms it."
    return compared("A larger alpha or N is sometimes better", rows, rule, sometimes=True)


def controls() -> Claim:
    """Compare ToPPO with controls that the paper lacks."""
    others = ("toppo-alpha=0", "ppo-early-stop", "toppo-no-early-stop")
    rows = [Comparison("controls", env, "toppo", other) for other in others for env in THREE_TASKS]
    rule = "Is it the old data, or the early stop? A higher return of ToPPO than of the control counts as confirmed."
    return compared("Ours: ToPPO beats controls that the paper lacks", rows, rule)


def atari() -> Claim:
    """Say what the claim about Atari needs."""
    speeds = json.loads((RESULTS / "throughput-atari" / "results.json").read_text())["rows"]
    jobs = jobs_of(paper_study("atari"))
    speed = {algo: float(np.median(speeds[row])) for algo, row in SPEED_ROWS.items()}
    hours = sum(job.spec.total_timesteps / speed[job.spec.algo] for job in jobs) / 3600
    needs = (
        f"The paper's study has {len(jobs)} runs of {jobs[0].spec.total_timesteps:,} steps. It needs about "
        f"{CORES_OF_TIMINGS * hours:,.0f} core-hours: a machine of {CORES_OF_TIMINGS} cores makes "
        f"{speed['toppo']:.0f} steps/s with ToPPO and {speed['ppo']:.0f} with PPO "
        "([measured](throughput-atari/README.md))."
    )
    lines = [
        needs,
        "",
        "    toppo study atari --curves docs/results/atari",
        "",
        "[Shorter runs](games/README.md) decide nothing.",
    ]
    return Claim(
        "ToPPO beats PPO on Atari", "**not testable here**", f"0 of {paper_study('atari').grids[0].seeds}", lines
    )


def minatar() -> list[Claim]:
    """Compare ToPPO with PPO and GePPO on a stand-in for Atari, once it has runs."""
    if not groups_of_study("minatar"):
        return []
    rows = [Comparison("minatar", env, "toppo", other) for other in ("ppo", "geppo") for env in MINATAR]
    rule = "Not the paper's: five small games in JAX that a processor can train with ten seeds."
    return [compared("Ours: ToPPO beats PPO and GePPO on MinAtar", rows, rule)]


CLAIMS: tuple[Callable[[], Claim], ...] = (
    beats_ppo,
    geppo_fails,
    selection_helps,
    six_is_better,
    memory_moves,
    fixed_eps,
    times_in_order,
    vtrace_is_off,
    larger_is_sometimes_better,
    atari,
    controls,
)


def all_claims() -> list[Claim]:
    """Judge every claim."""
    return [*(claim() for claim in CLAIMS), *minatar()]


def anchor(title: str) -> str:
    """Return the address of a heading on its page."""
    plain = "".join(c for c in title.lower() if c.isalnum() or c in " -_")
    return "-".join(plain.split())


def summary(claims: list[Claim], page: str = "") -> list[str]:
    """Return the table of verdicts; it leads to the sections of ``page``."""
    rows = [[f"[{c.title}]({page}#{anchor(c.title)})", c.verdict, c.seeds] for c in claims]
    return table(("claim", "verdict", "seeds"), rows)


def write_picture(claim: Claim) -> str:
    """Write the picture of a claim, if it is drawn here, and return its path from the page."""
    if not isinstance(claim.picture, Figure):
        return claim.picture or ""
    name = f"{anchor(claim.title)}.png"
    save(claim.picture, PICTURES / name)
    return f"claims/{name}"


def write_claims(claims: list[Claim]) -> None:
    """Write the page about the paper's claims."""
    tested = sum(isinstance(claim.picture, Figure) and table(COLUMNS, [])[0] in claim.lines for claim in claims)
    lines = [
        "# The paper's claims, one by one",
        "",
        "`python -m benchmarks.results` makes this page from the curves and data in this directory.",
        "",
        *summary(claims),
        "How to read it:",
        "",
        "- Final return: mean return of the training episodes in the last tenth of the steps, mean over seeds. "
        "Settings: `paper`. Only runs of the planned length count.",
        f"- **{CONFIRMED.capitalize()}** and **{CONTRADICTED}**: Welch's t-test finds a difference on that side. "
        f"Holm's procedure tests the rows of one claim together: the chance of any false difference among them is at "
        f"most {LEVEL:.0%}. Rows that lack runs count in the correction. Claims are not corrected for each other: of "
        f"the {tested} that are tested so, at most {LEVEL * tested:.2g} are expected to show a difference by chance.",
        f"- **{NO_DIFFERENCE.capitalize()} above x**: the test finds none, and the interval excludes larger ones in "
        "both directions. The percentage is of the other arm's return.",
        "- Intervals have the level at which Holm's procedure tests their row, so they are wider than 95% intervals "
        "of single rows.",
        f"- **Provisional**: seeds are missing. With fewer than {MIN_RUNS} a row has no verdict.",
        "- A claim that is not about returns has its own rule, which stands under its title.",
        "",
    ]
    for claim in claims:
        lines += [f"## {claim.title}", "", f"Verdict: {claim.verdict}", "", *claim.lines]
        if picture := write_picture(claim):
            lines += ["" if lines[-1] else None, f"![{claim.title.replace('|', '')}]({picture})", ""]
        elif lines[-1]:
            lines.append("")
    (RESULTS / "claims.md").write_text("\n".join(x for x in lines if x is not None).rstrip() + "\n")
