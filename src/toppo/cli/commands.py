"""The commands behind the command line; imported only when one is called, since JAX takes a second to load."""

import dataclasses
import os
import time
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from toppo import agent
from toppo.algos import REGISTRY
from toppo.algos.settings import Common, help_texts
from toppo.cli.console import Terminal
from toppo.cli.progress import Screen
from toppo.collect.faults import OnNan, tolerance
from toppo.envs import open_player
from toppo.envs.source import is_registered
from toppo.errors import USAGE, ToppoError, refuse_below
from toppo.rundir.layout import Layout, read_json
from toppo.runs import run as runs
from toppo.runs.evaluate import MAX_STEPS, evaluate_policy, policy_of
from toppo.runs.presets import PAPER_GAMES, PAPER_TASKS, defaults
from toppo.runs.run import Options
from toppo.runs.signals import Interrupted
from toppo.runs.spec import Spec, algorithm, from_json
from toppo.runs.video import record_video

Flag = tuple[str, Any] | tuple[str, Any, Any]


def parse(command: str, text: str, flags: list[Flag], arguments: list[str]) -> Any:
    """Parse the flags of a command; a mistake ends in tyro's explanation and the exit code for usage."""
    kind = dataclasses.make_dataclass(command.title(), flags, frozen=True)
    if {"-h", "--help"} & set(arguments):
        arguments = ["--help"]  # tyro's help leaves out what was given already
    try:
        return tyro.cli(kind, args=arguments, prog=f"toppo {command}", description=text)
    except SystemExit as leave:
        raise SystemExit(USAGE if leave.code else 0) from None


def flag(kind: Any, text: str, *markers: Any) -> Any:
    """The type of a flag with its line of help, which itself says what an optional one is by default."""
    hint = "" if type(None) in get_args(kind) else None
    return Annotated[kind, tyro.conf.arg(help=text, help_behavior_hint=hint), *markers]


def positional(kind: Any, name: str, text: str) -> Any:
    """The type of an argument without a flag."""
    how = tyro.conf.arg(help=text, metavar=name, help_behavior_hint="(required)")
    return Annotated[kind, tyro.conf.Positional, how]


RUN_FLAGS: list[Flag] = [
    (
        "workers",
        flag(
            int | None,
            "Processes that step environments; 0 for none (default: one per environment, at most one per core).",
        ),
        None,
    ),
    ("checkpoint_every", flag(int, "Steps between checkpoints."), 50_000),
    ("tensorboard", flag(bool, "Write TensorBoard event files."), True),
    (
        "on_nan",
        flag(OnNan, "When an environment gives NaN or infinity: end the run, or end the episode before that step."),
        "raise",
    ),
    ("env_timeout", flag(float, "Seconds that a step or reset in a worker process may take (inf: any time)."), 60.0),
    ("env_restarts", flag(int, "How often each environment that raises, hangs or crashes is replaced."), 0),
    ("evaluate_every", flag(int, "Steps between tests of 10 episodes with the most likely action; 0 for none."), 0),
]


def train(arguments: list[str]) -> None:
    """Train a policy from scratch."""
    algo, env = _peek(arguments)
    given = _parse_train(algo, env, arguments)
    if given.env != env:  # a flag's value stood before the environment, which has defaults of its own
        given = _parse_train(algo, given.env, arguments)
    try:
        spec = Spec(
            given.env, algo, given.steps, given.seed, _pick(Common, given), _pick(algorithm(algo).config, given)
        )
    except ValueError as error:
        raise ToppoError(str(error)) from error
    stamp = time.strftime("%Y%m%d-%H%M%S")
    root = given.out or Path("runs") / f"{spec.env.replace('/', '-').replace(':', '-')}__{algo}__{spec.seed}__{stamp}"
    _watch(spec, root, lambda screen: runs.start(spec, spec.env, root, _options(given, spec), screen))


def _parse_train(algo: str, env: str, arguments: list[str]) -> Any:
    common, config = defaults(algo, env)
    flags: list[Flag] = [
        ("env", positional(str, "ENV", "Gymnasium id, such as HalfCheetah-v5 or package.module:Env-v0.")),
        ("algo", flag(str, f"One of {', '.join(REGISTRY)}."), algo),
        ("steps", flag(int, "Environment steps to train for."), 1_000_000),
        ("seed", flag(int, "Everything random in the run follows from it."), 0),
        ("out", flag(Path | None, "Run directory (default: runs/ENV__ALGO__SEED__TIME)."), None),
    ]
    return parse(
        "train",
        f"Train {algorithm(algo).title}. The defaults shown are those of this algorithm on ENV, if ENV is named first.",
        flags + RUN_FLAGS + _settings(common) + _settings(config),
        arguments,
    )


def resume(arguments: list[str]) -> None:
    """Continue a run to the same bytes as if it had never stopped."""
    given = parse(
        "resume",
        "Continue a run where its last checkpoint was taken.",
        [
            ("run", positional(Path, "RUN", "Run directory.")),
            ("env", flag(str | None, "Environment id, if the run's own is not registered with Gymnasium."), None),
            ("allow_drift", flag(bool, "Continue although installed versions differ from the run's."), False),
            *RUN_FLAGS,
        ],
        arguments,
    )
    spec = from_json(read_json(Layout(given.run).spec))
    options = _options(given, spec)
    _watch(spec, given.run, lambda screen: runs.resume(given.run, given.env, options, screen, given.allow_drift))


def evaluate(arguments: list[str]) -> None:
    """Play a trained policy."""
    given = parse(
        "evaluate",
        "Play whole episodes with a trained policy and its frozen normaliser.",
        [
            ("run", positional(Path, "RUN", "Run directory, or what Agent.save wrote.")),
            ("episodes", flag(int, "Episodes to play."), 10),
            ("stochastic", flag(bool, "Sample actions instead of taking the most likely ones."), False),
            ("seed", flag(int, "Seed of the episodes."), 0),
            ("max_steps", flag(int, "Cut an episode off after so many steps: some never end."), MAX_STEPS),
            ("video", flag(Path | None, "Film the first seconds of an episode into this file (mp4)."), None),
            ("env", flag(str | None, "Environment id, if the run's own is not registered with Gymnasium."), None),
        ],
        arguments,
    )
    require_least(given, episodes=1, max_steps=1, seed=0)
    trained = agent.load(given.run)
    source = given.env or runs.source_of(trained.spec)
    policy = policy_of(trained.state, trained.setup)
    results = evaluate_policy(
        policy, open_player(source), given.episodes, given.seed, not given.stochastic, given.max_steps
    )
    returns = [result.episode_return for result in results]
    cut = sum(not result.ended for result in results)
    mean = sum(returns) / len(returns)
    spread = (sum((r - mean) ** 2 for r in returns) / len(returns)) ** 0.5
    console = Console()
    console.print(
        f"{algorithm(trained.spec.algo).title} on {escape(source)} after {trained.num_timesteps:,} steps: "
        f"return {mean:.1f} +- {spread:.1f} over {len(returns)} episodes, "
        f"mean length {sum(result.length for result in results) / len(results):.0f}"
        + (f"; {cut} of them were cut off after {given.max_steps:,} steps (--max-steps)" if cut else ""),
        highlight=False,
    )
    if given.video:
        ep_return = record_video(policy, source, given.video, given.seed)
        console.print(
            f"video of the first seconds of an episode (return so far {ep_return:.1f}): {given.video}", highlight=False
        )


def plot(arguments: list[str]) -> None:
    """Draw learning curves."""
    from toppo.report.figures import learning_curves

    given = parse(
        "plot",
        "Draw the learning curves of runs; runs of one algorithm on one environment are averaged over their seeds.",
        [
            ("runs", positional(tuple[Path, ...], "RUN", "Run directories.")),
            ("out", flag(Path, "Picture to write (png, svg or pdf)."), Path("curve.png")),
        ],
        arguments,
    )
    if not given.runs:
        raise ToppoError("no run was given: name at least one run directory")
    learning_curves(given.runs, given.out)
    Console().print(f"learning curves: {given.out}", highlight=False)


def list_all(arguments: list[str]) -> None:
    """Show what can be chosen."""
    parse("list", "Algorithms, the paper's environments, figures and studies.", [], arguments)
    console = Console()
    table = Table(
        "name",
        "algorithm",
        "steps per batch",
        "objective and data",
        title="toppo train ENV --algo NAME",
        title_justify="left",
    )
    for chosen in REGISTRY.values():
        text = (chosen.summary or "").strip()
        table.add_row(chosen.name, chosen.title, str(chosen.config().n_steps), text)
    console.print(table)
    console.print(f"the paper's MuJoCo tasks: {', '.join(PAPER_TASKS)}", highlight=False)
    console.print(f"the paper's Atari games: {', '.join(PAPER_GAMES)}", highlight=False)
    from toppo.reproduce.figures import FIGURES
    from toppo.reproduce.study_figures import STUDY_FIGURES
    from toppo.studies.paper import PAPER

    texts = {f"reproduce {n}": f.text for n, f in STUDY_FIGURES.items()}
    texts |= {f"reproduce {n}": f.text for n, f in FIGURES.items()}
    texts |= {f"study {n}": s.text for n, s in PAPER.items()}
    for name, text in texts.items():
        console.print(f"toppo {name}: {text}", highlight=False)
    console.print("every setting of an algorithm: toppo train ENV --algo NAME --help", highlight=False)


def theory(arguments: list[str]) -> None:
    """Check the theory."""
    from toppo.theory.run import run

    given = parse(
        "theory",
        "Check every statement of the paper on random finite problems and by search.",
        [
            ("mdps", flag(int, "Random problems per statement."), 2000),
            ("seed", flag(int, "Seed of the problems and of the searches."), 0),
            ("out", flag(Path, "Directory for the report and its figures."), Path("runs/theory")),
        ],
        arguments,
    )
    require_least(given, mdps=1, seed=0)
    run(given.mdps, given.seed, given.out)


def _peek(arguments: list[str]) -> tuple[str, str]:
    """Algorithm and environment, read before the rest because the settings depend on them."""
    algo, others, words = "toppo", list[str](), iter(arguments)
    for word in words:
        if word == "--algo":
            algo = next(words, algo)
        elif word.startswith("--algo="):
            algo = word.removeprefix("--algo=")
        else:
            others.append(word)
    return algorithm(algo).name, next((word for word in others if not word.startswith("-")), "")


def _settings(values: Any) -> list[Flag]:
    hints, texts = get_type_hints(type(values)), help_texts(type(values))
    return [(name, flag(hints[name], texts[name]), getattr(values, name)) for name in texts]


def _pick(kind: type, given: Any) -> Any:
    return kind(**{f.name: getattr(given, f.name) for f in dataclasses.fields(kind)})


def require_least(given: Any, **least: int) -> None:
    """Refuse numbers below the least that makes sense."""
    for name, bound in least.items():
        if getattr(given, name) is not None:
            refuse_below(bound, name, getattr(given, name))


def _options(given: Any, spec: Spec) -> Options:
    require_least(given, workers=0, checkpoint_every=1, evaluate_every=0)
    workers = agent.default_workers(spec) if given.workers is None else given.workers
    bears = tolerance(given.on_nan, given.env_timeout, given.env_restarts)
    return Options(workers, given.checkpoint_every, given.tensorboard, bears, given.evaluate_every)


def _watch(spec: Spec, root: Path, go: Any) -> None:
    """Run with a live view, and say at the end where the run is, what it reached and what to type next."""
    console = Terminal()
    title = f"{algorithm(spec.algo).title} on {spec.env}, seed {spec.seed}"
    if not console.is_terminal:
        console.print(f"{escape(title)}: {spec.total_timesteps:,} steps into {root}", highlight=False, soft_wrap=True)
    screen, began = Screen(title, console), time.monotonic()
    named = "" if is_registered(spec.env) else f" --env {spec.env}"
    try:
        with screen:
            go(screen)
    except Interrupted as stop:
        console.print(f"stopped by {stop}; saved.  Next: toppo resume {root}{named}", highlight=False, soft_wrap=True)
        raise SystemExit(stop.code) from None
    seconds = time.monotonic() - began
    count, total = len(screen.recent), sum(screen.recent)
    reached = f"Return of the last {count} episodes: {total / count:,.1f}" if count else "No episode ended in that time"
    console.print(
        f"{escape(title)}: finished in {seconds:.0f} s.  {reached}\n"
        f"  run        {root}{os.sep}\n"
        f"  next       toppo evaluate {root}{named} --video {root}{os.sep}film.mp4\n"
        f"             toppo plot {root} --out {root}{os.sep}curve.png",
        highlight=False,
        soft_wrap=True,
    )
