"""``toppo train`` and ``toppo resume``."""

import json
import os
import shlex
import time
from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import dataclass, field, make_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_type_hints

import tyro

from toppo.agent import default_workers
from toppo.algos import REGISTRY
from toppo.algos.settings import help_texts, schedules_of
from toppo.callbacks import Callback
from toppo.cli.flags import (
    SCHEDULE,
    STEPS,
    ExecutionFlags,
    OwnEnv,
    changed_flags,
    env_kwargs_in,
    flag,
    parse,
    require_at_least,
)
from toppo.collect.faults import checked_fault_policy
from toppo.display.console import Terminal, clock, live_view
from toppo.display.progress import RunDisplay
from toppo.envs import resolve
from toppo.errors import ToppoError
from toppo.rundir.layout import Layout, read_json
from toppo.runs import run as runs
from toppo.runs.config import Config, read_config
from toppo.runs.presets import PRESETS, changed, defaults, spec_for
from toppo.runs.run import RunOptions, must_be_named
from toppo.runs.signals import Interrupted
from toppo.runs.spec import Spec, algorithm, from_json, to_json
from toppo.runs.training import Tell


@dataclass(frozen=True, kw_only=True)
class TrainFlags:
    """What `toppo train` takes; `_read_flags` adds the settings, which depend on the algorithm and ENV."""

    env: Annotated[str, flag("Gymnasium id, such as HalfCheetah-v5 or package.module:Env-v0.", "ENV")]
    algo: Annotated[str, flag(f"One of {', '.join(REGISTRY)}.")] = "toppo"
    total_timesteps: Annotated[int, STEPS, flag("Environment steps to train for.")] = 1_000_000
    seed: Annotated[int, flag("Seed of everything random in the run.")] = 0
    preset: Annotated[str, flag(f"Where the settings start: {' or '.join(PRESETS)}.")] = "default"
    env_kwargs: Annotated[
        tuple[str, ...], flag("Arguments of the environment; values are JSON or text.", "NAME=VALUE")
    ] = ()
    config: Annotated[Path | None, flag("YAML or JSON file with settings, such as a spec.json; flags win.", "FILE")] = (
        None
    )
    print_config: Annotated[bool, flag("Print the settings as a config file, and exit.")] = False
    out: Annotated[Path | None, flag("Run directory (default: runs/ENV__ALGO__SEED__TIME).", "PATH")] = None
    own: object
    shared: object
    execution: ExecutionFlags = field(default_factory=ExecutionFlags)


@dataclass(frozen=True, kw_only=True)
class ResumeFlags:
    """Continue a run from its last checkpoint."""

    run: Annotated[Path, flag("Run directory.", "RUN")]
    total_timesteps: Annotated[
        int | None, STEPS, flag("Another length for the run, finished or not (default: its own).", "INT")
    ] = None
    env: OwnEnv = None
    allow_drift: Annotated[bool, flag("Continue although installed versions differ from the run's.")] = False
    execution: ExecutionFlags = field(default_factory=ExecutionFlags)


def train(arguments: list[str]) -> None:
    """Train a policy from scratch."""
    first = _read_first(arguments)
    given = _read_flags(first, arguments)
    if given.env != first.env:  # a flag's value stood before the environment, which has defaults of its own
        first = first._replace(env=given.env)
        given = _read_flags(first, arguments)
    spec = _spec_from(given, first.config)
    if given.print_config:
        print(json.dumps(to_json(spec), indent=1, sort_keys=True))
        return
    stamp = time.strftime("%Y%m%d-%H%M%S")
    env = spec.env.replace("/", "-").replace(":", "-")
    root = given.out or Path("runs") / f"{env}__{spec.algo}__{spec.seed}__{stamp}"
    options = _run_options(given.execution, spec)
    _run_with_display(spec, root, given.execution, partial(runs.start, spec, spec.env, root, options))


def resume(arguments: list[str]) -> None:
    """Continue a run to the same bytes as if it had never stopped, or to another length."""
    given = parse("resume", ResumeFlags, arguments)
    require_at_least(given, total_timesteps=1)
    spec = from_json(read_json(Layout(given.run).spec))
    options = _run_options(given.execution, spec)
    resumed = partial(
        runs.resume, given.run, given.env, options, allow_drift=given.allow_drift, total_timesteps=given.total_timesteps
    )
    if given.total_timesteps is not None:
        spec = replace(spec, total_timesteps=given.total_timesteps)
    _run_with_display(spec, given.run, given.execution, resumed)


class First(NamedTuple):
    """What is read before the rest, because the settings and their defaults depend on it."""

    config: Config
    algo: str
    preset: str
    env: str


def _read_first(arguments: list[str]) -> First:
    parser = ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--config", nargs="?")
    parser.add_argument("--algo", nargs="?")
    parser.add_argument("--preset", nargs="?", default="default", const="default")
    known, others = parser.parse_known_args(arguments)
    config = read_config(Path(known.config)) if known.config else Config()
    env = next((word for word in others if not word.startswith("-")), config.env)
    return First(config, algorithm(known.algo or config.algo).name, known.preset, env)


def _read_flags(first: First, arguments: list[str]) -> TrainFlags:
    """Read all flags; their defaults are those of the config file, or else of this algorithm on ENV."""
    config = first.config
    title = algorithm(first.algo).title
    try:
        common, own_settings = changed(title, *defaults(first.algo, first.env, first.preset), config.settings)
    except ValueError as error:
        raise ToppoError(f"the config file cannot be used: {error}") from error
    shared = _settings_flags(
        common,
        "Settings that every algorithm has. A SCHEDULE is a number, linear (from the default to 0), or "
        "[[fraction of the run, value], ...].",
    )
    own = _settings_flags(own_settings, f"Settings of {title}.")
    hints = get_type_hints(TrainFlags, include_extras=True)
    named = {"algo": first.algo, "total_timesteps": config.total_timesteps, "seed": config.seed}
    groups: list[Any] = [("shared", shared, shared()), ("own", Annotated[own, tyro.conf.arg(name=title)], own())]
    groups += [(name, hints[name], value) for name, value in named.items()]
    if config.env:
        env = hints["env"]
        groups.append(("env", Annotated[env, tyro.conf.Positional], config.env))
    kind: type[TrainFlags] = make_dataclass("TrainFlags", groups, bases=(TrainFlags,), frozen=True, kw_only=True)
    return parse("train", kind, arguments, f"Train {title}. The defaults are those of {title} on ENV.")


def _settings_flags(values: object, text: str) -> type:
    """A record of flags with the names, texts and values of a settings object."""
    hints = get_type_hints(type(values))
    texts = help_texts(type(values))
    schedules = schedules_of(type(values))

    def kind(name: str) -> object:
        own = (SCHEDULE,) if name in schedules else ()
        return Annotated[hints[name], *own, flag(texts[name])]

    flags = [(name, kind(name), getattr(values, name)) for name in texts]
    return make_dataclass(type(values).__name__, flags, frozen=True, namespace={"__doc__": text})


def _spec_from(given: TrainFlags, config: Config) -> Spec:
    try:
        recorded = config.env_kwargs if given.env == config.env else {}
        settings = {**vars(given.shared), **vars(given.own)}
        source = resolve(given.env, recorded | env_kwargs_in(given.env_kwargs))
        return spec_for(source, given.algo, given.total_timesteps, given.seed, preset=given.preset, **settings)
    except ValueError as error:
        raise ToppoError(str(error)) from error


def _run_options(given: ExecutionFlags, spec: Spec) -> RunOptions:
    require_at_least(given, workers=0, checkpoint_every=1, evaluate_every=0)
    return RunOptions(
        workers=default_workers(spec) if given.workers is None else given.workers,
        checkpoint_every=given.checkpoint_every,
        tensorboard=given.tensorboard,
        fault_policy=checked_fault_policy(given.on_nan, given.env_timeout, given.env_restarts),
        evaluate_every=given.evaluate_every,
        keep_best=given.keep_best,
        stop_return=given.stop_return,
        patience=given.patience,
        track=given.track,
        project=given.project,
    )


def _run_with_display(spec: Spec, root: Path, given: ExecutionFlags, run: Callable[[Callback, Tell], object]) -> None:
    """Run with a live display; print at the end where the run is, what it reached and what to type next."""
    console = Terminal()
    title = f"{algorithm(spec.algo).title} on {spec.env}, seed {spec.seed}"
    if not console.is_terminal:
        console.say(f"{title}: {spec.total_timesteps:,} steps into {root}")
    began = time.monotonic()
    named = f" --env {spec.env}" if must_be_named(spec) else ""
    resume_command = shlex.join(["toppo", "resume", str(root), *named.split(), *changed_flags(given)])
    try:
        with live_view(console) as live:
            display = RunDisplay(title, console, live)
            run(display, console.say)
    except Interrupted as stop:
        console.say(f"stopped by {stop}; saved.  Next: {resume_command}")
        raise SystemExit(stop.code) from None
    if display.training and not display.training.iteration:
        console.say(f"{title}: it was finished already, with {display.training.num_timesteps:,} steps")
        console.say(console.at_words(f"  longer  {resume_command} --total-timesteps {2 * spec.total_timesteps}", " \\"))
        return
    stopped_by = display.training.stopped_by if display.training else ""
    console.say(f"{title}: {stopped_by or 'finished'} in {clock(time.monotonic() - began)}")
    for name, text in display.results():
        console.say(f"  {name:<7} {text}")
    if given.keep_best and Layout(root).best.is_dir():
        console.say(f"          kept in {Layout(root).best}{os.sep}")
    console.say(f"  run     {root}{os.sep}")
    commands = (
        f"  next    toppo evaluate {root}{named} --video {root}{os.sep}video.mp4",
        f"          toppo plot {root} --out {root}{os.sep}curve.png",
        *([f"          {resume_command}"] if stopped_by else []),
    )
    console.say("\n".join(console.at_words(command, " \\") for command in commands))
