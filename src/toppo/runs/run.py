"""One run: start or resume it in a directory of its own."""

import dataclasses
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from toppo.algos.settings import schedules_of
from toppo.callbacks import Callback, Evaluate, LogTo, StopOnPlateau, StopOnReturn, in_order
from toppo.collect.check_apart import check_env_in_subprocess
from toppo.collect.faults import STRICT, FaultPolicy
from toppo.envs import EnvSource, Source, Spaces, resolve
from toppo.envs.check import NOT_REPEATED, check_env
from toppo.envs.spaces import refuse_other_spaces
from toppo.envs.spaces_json import spaces_from_json
from toppo.errors import CANNOT_CREATE, NO_INPUT, ToppoError
from toppo.learn.setup import Setup, initial_state, new_setup
from toppo.learn.state import State
from toppo.learn.xla import prepare
from toppo.rundir.checkpoint import CheckpointError, Declared, Facts, newest_checkpoint
from toppo.rundir.files import refuse_strange_entries
from toppo.rundir.layout import Layout, read_json, write_json
from toppo.rundir.lock import exclusive
from toppo.rundir.versions import differences, versions
from toppo.runs.callback_loop import mark_inexact, train
from toppo.runs.directory import STATUS_SCHEMA, RunDirectory, writing
from toppo.runs.logs import Offsets
from toppo.runs.spec import Spec, algorithm, from_json, to_json
from toppo.runs.state_io import check_arrays, state_from_arrays
from toppo.runs.training import Tell, Training

TEST_EPISODES = 10  # the paper's
# A process that is killed before it writes the spec leaves these.  There is nothing to resume, so a new run may begin.
BEFORE_THE_SPEC = {".lock", ".holder.json", "versions.json", ".versions.json.tmp", ".spec.json.tmp"}


class RunOptions(NamedTuple):
    """How a run is carried out; nothing here changes the numbers of a run without faults."""

    workers: int
    checkpoint_every: int = 50_000  # steps
    tensorboard: bool = True
    fault_policy: FaultPolicy = STRICT
    evaluate_every: int = 0  # steps; 0 for never
    keep_best: bool = False  # the agent of the best test
    stop_return: float | None = None  # of a test
    patience: int | None = None  # tests without a new best
    track: tuple[str, ...] = ()  # trackers
    project: str | None = None  # of the trackers
    callbacks: Sequence[Callback] = ()  # more of them


IN_THIS_PROCESS = RunOptions(workers=0)


def callbacks_of(options: RunOptions, layout: Layout) -> list[Callback]:
    """Return the callbacks that the options ask for."""
    found = list(options.callbacks)
    if options.evaluate_every:
        best = layout.best if options.keep_best else None
        found.append(Evaluate(options.evaluate_every, TEST_EPISODES, keep_best=best))
    elif options.keep_best:
        raise ToppoError("--keep-best keeps the agent of the best test, and nothing tests it: add --evaluate-every")
    if options.stop_return is not None:
        found.append(StopOnReturn(options.stop_return))
    if options.patience is not None:
        found.append(StopOnPlateau(options.patience))
    present = {callback.tracker for callback in found if isinstance(callback, LogTo)}
    asked = [*(["tensorboard"] if options.tensorboard else []), *options.track]
    return in_order(
        [*found, *(LogTo(tracker, options.project) for tracker in dict.fromkeys(asked) if tracker not in present)]
    )


def setup_for(spec: Spec, env: EnvSource | Source) -> Setup:
    """The fixed parts of a run, after a check of its environment in this process."""
    return check_run(spec, source_for(spec, env))[0]


def check_run(spec: Spec, source: Source, options: RunOptions = IN_THIS_PROCESS) -> tuple[Setup, list[str]]:
    """Check the environment where it is going to live; return the run's fixed parts and notes on what is odd."""
    apart = options.workers and source.address is not None
    spaces, notes = check_env_in_subprocess(source, options.fault_policy.env_timeout) if apart else check_env(source)
    return setup_from(spec, spaces), notes


def setup_from(spec: Spec, spaces: Spaces) -> Setup:
    """Return the fixed parts of a run, or refuse settings that do not suit these spaces."""
    limit = spaces.episode_limit
    steps = spec.config.n_steps // spec.common.n_envs
    if spec.common.reset_each_batch and (limit is None or steps < limit):
        raise ToppoError(
            f"reset_each_batch needs whole episodes in a batch, but n_steps / n_envs is {steps} and an episode of "
            f"{spec.env} may last {limit or 'for ever'}: use --no-reset-each-batch, fewer --n-envs or more --n-steps"
        )
    try:
        return new_setup(algorithm(spec.algo), spec.config, spec.common, spaces, spec.total_timesteps, spec.seed)
    except ValueError as error:
        raise ToppoError(f"{spec.env}: {error}") from error


def start(
    spec: Spec,
    env: EnvSource | Source,
    root: Path,
    options: RunOptions,
    observe: Callback,
    tell: Tell = warnings.warn,
    state: State | None = None,
) -> State:
    """Train a new run in a new directory, from the first step or from a state that was reached elsewhere."""
    layout = Layout(root.absolute())  # before the environment is made: it may change the working directory
    callbacks = callbacks_of(options, layout)
    training = _new_training(spec, source_for(spec, env), layout, options, tell)
    if state is not None and state.steps:
        training.state = state
        training.exact = False  # it does not follow from the spec
    if layout.root.exists() and (not layout.root.is_dir() or {p.name for p in layout.root.iterdir()} - BEFORE_THE_SPEC):
        raise ToppoError(
            f"{root} exists already: continue it with `toppo resume {root}` or choose another --out", CANNOT_CREATE
        )
    try:
        layout.root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ToppoError(f"{root} cannot be created: {error.strerror}", CANNOT_CREATE) from error
    with exclusive(layout.lock):
        with writing(layout.root):
            write_json(layout.versions, {"schema": STATUS_SCHEMA, **versions()})
            write_json(layout.spec, to_json(spec))
        train(training, callbacks, observe)
    return training.state


def resume(
    root: Path,
    env: EnvSource | Source | None,
    options: RunOptions,
    observe: Callback,
    tell: Tell = warnings.warn,
    allow_drift: bool = False,
    total_timesteps: int | None = None,
) -> State:
    """Continue a run to the same bytes as if it had never stopped; it may get another length."""
    layout = Layout(root.absolute())
    spec = from_json(read_json(layout.spec))
    if total_timesteps is not None:
        spec = dataclasses.replace(spec, total_timesteps=total_timesteps)
    refuse_strange_entries(layout.root)
    drift = differences(read_json(layout.versions))
    if drift and not allow_drift:
        raise ToppoError(
            f"{root} was started with other versions ({', '.join(drift)}), and would not continue to the same "
            "numbers: install those, or continue all the same with --allow-drift"
        )
    callbacks = callbacks_of(options, layout)
    source = registered_source(spec) if env is None else source_for(spec, env)
    training = _new_training(spec, source, layout, options, tell)
    with exclusive(layout.lock):
        _restore(training, layout)
        if total_timesteps is not None:
            _change_length(training, layout)
        train(training, callbacks, observe)
    return training.state


def _new_training(spec: Spec, source: Source, layout: Layout, options: RunOptions, tell: Tell) -> Training:
    """Check the environment and prepare the first state; nothing is written yet."""
    setup, notes = check_run(spec, source, options)
    for note in notes:
        tell(f"note: {spec.env}: {note}")
    prepare()
    return Training(
        spec=spec,
        source=source,
        setup=setup,
        state=initial_state(setup),
        workers=options.workers,
        fault_policy=options.fault_policy,
        tell=tell,
        directory=RunDirectory(layout, options.checkpoint_every),
        repeats=not any(note.startswith(NOT_REPEATED) for note in notes),
    )


def _restore(training: Training, layout: Layout) -> None:
    """Continue from the newest intact checkpoint; without any, the run starts from its first step again."""
    spec = training.spec

    def fits(facts: Facts, arrays: Mapping[str, Declared]) -> None:
        check_arrays(setup_from(spec, spaces_from_json(facts.get("spaces"))), arrays, facts.get("state", {}))

    try:
        checkpoint, damaged = newest_checkpoint(layout.checkpoints, fits)
    except CheckpointError as error:
        if error.code != NO_INPUT:
            raise
        return
    facts = checkpoint.facts
    refuse_other_spaces(training.source.name, training.setup.spaces, spaces_from_json(facts["spaces"]))
    for sentence in damaged:
        training.tell(f"warning: {sentence}; the checkpoint before it is used")
    training.state = state_from_arrays(training.setup, checkpoint.arrays, facts.get("state", {}))
    training.exact = facts.get("exact") is True
    assert training.directory is not None
    training.directory.offsets = _log_lengths(facts.get("offsets"))
    if not training.repeats:
        mark_inexact(training, "the environment does not repeat itself")
    length = from_json(facts.get("spec")).total_timesteps
    if length != spec.total_timesteps and has_schedule(spec):
        mark_inexact(training, f"the schedules of its settings followed a length of {length:,} steps so far")


def _change_length(training: Training, layout: Layout) -> None:
    """Write down the run's new length, which must lie beyond what is done."""
    if training.total_timesteps <= training.num_timesteps:
        raise ToppoError(
            f"total_timesteps is {training.total_timesteps}, but {layout.root} has done {training.num_timesteps} "
            "already: give more"
        )
    with writing(layout.root):
        write_json(layout.spec, to_json(training.spec))


def has_schedule(spec: Spec) -> bool:
    """Tell whether a setting changes over the run, so that its numbers depend on the run's length."""
    values = [getattr(s, name) for s in (spec.common, spec.config) for name in schedules_of(type(s))]
    return spec.common.anneal_lr or any(isinstance(value, tuple) for value in values)


def _log_lengths(data: object) -> Offsets:
    """How long the logs were at a checkpoint, from an untrusted file."""
    names = {"metrics", "episodes", "timing"}
    if not isinstance(data, dict) or any(type(data.get(n)) is not int or data[n] < 0 for n in names | set(data)):
        raise CheckpointError("the checkpoint does not say how long the run's logs were")
    return data


def source_for(spec: Spec, env: EnvSource | Source) -> Source:
    """The environment that the user names, made with the arguments of the run; an object is taken as it is."""
    source = resolve(env)
    return source if source.is_object or source.kwargs else resolve(source, spec.env_kwargs)


def must_be_named(spec: Spec) -> bool:
    """Must the user name the environment again whenever the run's file is read?"""
    try:
        registered_source(spec)
    except ToppoError:
        return True
    return False


def registered_source(spec: Spec) -> Source:
    """The environment of an untrusted spec: only ids that are registered already are made.

    Arguments are passed on to Gymnasium's own environments only: those of others may name code to import.
    """
    source = resolve(spec.env, spec.env_kwargs)
    if not source.is_registered:
        raise ToppoError(
            f"the run's environment {spec.env!r} is not registered with Gymnasium here; "
            "if you trust it, name it yourself with --env"
        )
    if source.kwargs and source.address is None:
        raise ToppoError(
            f"the run's file gives arguments to {spec.env!r}, which is not Gymnasium's own: if you trust them "
            f"({dict(source.kwargs)!r:.200}), name the environment yourself with --env"
        )
    return source
