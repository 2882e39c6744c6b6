"""One run: start or resume it, train, and write what happens into its directory."""

import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from toppo.collect.check_apart import check_env_in_subprocess
from toppo.collect.episodes import describe_failed_replays
from toppo.collect.faults import STRICT, FaultPolicy
from toppo.envs import EnvSource, Source, Spaces, open_player, resolve
from toppo.envs.check import NOT_REPEATED, check_env
from toppo.envs.spaces import refuse_other_spaces
from toppo.envs.spaces_json import spaces_from_json, spaces_to_json
from toppo.errors import CANNOT_CREATE, IO_ERROR, NO_INPUT, Fault, ToppoError
from toppo.learn.loop import Iteration
from toppo.learn.session import open_session
from toppo.learn.setup import Setup, initial_state, new_setup
from toppo.learn.state import State
from toppo.learn.xla import prepare
from toppo.rundir.checkpoint import CheckpointError, Declared, Facts, add_checkpoint, newest_checkpoint
from toppo.rundir.files import refuse_strange_entries
from toppo.rundir.layout import Layout, read_json, write_json
from toppo.rundir.lock import exclusive
from toppo.rundir.versions import differences, versions
from toppo.runs.evaluate import evaluate_policy
from toppo.runs.logs import Logs, Offsets
from toppo.runs.signals import Interrupted, StopRequest, stop_request
from toppo.runs.spec import Spec, algorithm, from_json, to_json
from toppo.runs.state_io import check_arrays, state_from_arrays, state_to_arrays

STATUS_SCHEMA = 1
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


IN_THIS_PROCESS = RunOptions(workers=0)


class RunProgress(NamedTuple):
    """What an observer learns after every iteration."""

    spec: Spec
    iteration: Iteration
    seconds: float  # since this process began to train
    first_step: int  # where this process began


Observe = Callable[[RunProgress], None]
Tell = Callable[[str], object]  # takes a note or a warning in one sentence


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
    spec: Spec, env: EnvSource | Source, root: Path, options: RunOptions, observe: Observe, tell: Tell = warnings.warn
) -> State:
    """Train a new run in a new directory."""
    layout = Layout(root.absolute())  # before the environment is made: it may change the working directory
    run = _Run(spec, source_for(spec, env), layout, options, observe, tell)
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
        return run.train()


def resume(
    root: Path,
    env: EnvSource | Source | None,
    options: RunOptions,
    observe: Observe,
    tell: Tell = warnings.warn,
    allow_drift: bool = False,
) -> State:
    """Continue a run to the same bytes as if it had never stopped."""
    layout = Layout(root.absolute())
    spec = from_json(read_json(layout.spec))
    refuse_strange_entries(layout.root)
    drift = differences(read_json(layout.versions))
    if drift and not allow_drift:
        raise ToppoError(
            f"{root} was started with other versions ({', '.join(drift)}), and would not continue to the same "
            "numbers: install those, or continue all the same with --allow-drift"
        )
    source = registered_source(spec) if env is None else source_for(spec, env)
    run = _Run(spec, source, layout, options, observe, tell)
    with exclusive(layout.lock):
        run.restore()
        return run.train()


def _log_lengths(data: object) -> Offsets:
    """How long the logs were at a checkpoint, from an untrusted file."""
    names = {"metrics", "episodes", "timing"}
    if not isinstance(data, dict) or any(type(data.get(n)) is not int or data[n] < 0 for n in names | set(data)):
        raise CheckpointError("the checkpoint does not say how long the run's logs were")
    return data


@contextmanager
def writing(root: Path) -> Iterator[None]:
    """Turn a write that the system refuses into a sentence; the checkpoints before it are intact."""
    try:
        yield
    except OSError as error:
        raise ToppoError(
            f"{root} cannot be written ({error.strerror}); its last checkpoint is intact: fix that, then continue with "
            f"`toppo resume {root}`",
            IO_ERROR,
        ) from error


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


@dataclass
class _Run:
    """A run that this process trains, from its first step or from a checkpoint."""

    spec: Spec
    source: Source
    layout: Layout
    options: RunOptions
    observe: Observe
    tell: Tell

    def __post_init__(self) -> None:
        """Check the environment and prepare the first state; nothing is written yet."""
        self.setup, notes = check_run(self.spec, self.source, self.options)
        for note in notes:
            self.tell(f"note: {self.spec.env}: {note}")
        prepare()
        self.state = initial_state(self.setup)
        self.offsets: Offsets = {}  # lengths of the logs at the checkpoint
        # Does reset(seed=...) lead to the same episode again?
        self.repeats = not any(note.startswith(NOT_REPEATED) for note in notes)
        self.exact = True  # are the numbers those of a run without stops and faults?

    def restore(self) -> None:
        """Continue from the newest intact checkpoint; without any, the run starts from its first step again."""

        def fits(facts: Facts, arrays: Mapping[str, Declared]) -> None:
            setup = setup_from(self.spec, spaces_from_json(facts.get("spaces")))
            check_arrays(setup, arrays, facts.get("state", {}))

        try:
            checkpoint, damaged = newest_checkpoint(self.layout.checkpoints, fits)
        except CheckpointError as error:
            if error.code != NO_INPUT:
                raise
            return
        facts = checkpoint.facts
        refuse_other_spaces(self.source.name, self.setup.spaces, spaces_from_json(facts["spaces"]))
        for sentence in damaged:
            self.tell(f"warning: {sentence}; the checkpoint before it is used")
        self.state = state_from_arrays(self.setup, checkpoint.arrays, facts.get("state", {}))
        self.offsets = _log_lengths(facts.get("offsets"))
        self.exact = facts.get("exact") is True
        if not self.repeats:
            self._mark_inexact("the environment does not repeat itself")

    def train(self) -> State:
        """Train to the end, or until a signal asks to stop."""
        options = self.options
        with (
            open_session(self.setup, self.source, options.workers, options.fault_policy) as session,
            closing(self._open_logs()) as logs,
        ):
            if self.state.batches:
                self.state, failed = session.restore(self.state)
                if failed:
                    self._mark_inexact(describe_failed_replays(failed))
            try:
                with stop_request() as stop:
                    self._write_status("running")
                    self._iterate(session.train(self.state), logs, stop)
                    self._write_status("finished")
            except ToppoError as error:
                with suppress(ToppoError):  # the disk may be what failed
                    self._write_status("failed", str(error))
                if isinstance(error, Fault):
                    logs.write_fatal(error)
                raise
        return self.state

    def _mark_inexact(self, reason: str) -> None:
        """Warn that the run does not continue to the bytes of a run that never stopped."""
        self.exact = False
        self.tell(f"warning: {reason}: resumed, not bit-exact")

    def _iterate(self, iterations: Iterator[Iteration], logs: Logs, stop: StopRequest) -> None:
        """Log every iteration; test the policy and save when it is due."""
        began = time.perf_counter()
        first_step = self.state.steps
        for iteration in iterations:
            before = self.state.steps
            self.state = iteration.state
            steps = self.state.steps
            seconds = time.perf_counter() - began
            with writing(self.layout.root):
                logs.write(iteration, fps=(steps - first_step) / seconds)
            self.exact = self.exact and all(fault.exact for fault in iteration.faults)
            self.observe(RunProgress(spec=self.spec, iteration=iteration, seconds=seconds, first_step=first_step))
            last = steps >= self.setup.total_timesteps
            test_every = self.options.evaluate_every
            if test_every and (last or steps // test_every > before // test_every):
                self._test(logs)
            save_every = self.options.checkpoint_every
            if last or steps // save_every > before // save_every or stop.signal is not None:
                self._save(logs)
            if stop.signal is not None and not last:
                self._write_status("stopped")
                raise Interrupted(stop.signal)

    def _open_logs(self) -> Logs:
        tensorboard = self.options.tensorboard
        evaluations = self.options.evaluate_every > 0
        with writing(self.layout.root):
            return Logs(self.layout, self.offsets, self.state.steps, tensorboard=tensorboard, evaluations=evaluations)

    def _test(self, logs: Logs) -> None:
        """Play episodes with the most likely action and the normaliser frozen, from the same starts every time."""
        with closing(open_player(self.source)) as env:
            results = evaluate_policy(self.state, self.setup, env, TEST_EPISODES, self.spec.seed)
        with writing(self.layout.root):
            logs.write_evaluation(self.state.steps, results)

    def _save(self, logs: Logs) -> None:
        arrays, counters = state_to_arrays(self.state)
        with writing(self.layout.root):
            facts = {
                "spec": to_json(self.spec),
                "spaces": spaces_to_json(self.setup.spaces),
                "state": counters,
                "exact": self.exact,
                "offsets": logs.offsets(),
            }
            add_checkpoint(self.layout.checkpoints, self.state.steps, arrays, facts)

    def _write_status(self, state: str, message: str = "") -> None:
        status = {"state": state, "steps": self.state.steps, "exact": self.exact, "message": message}
        with writing(self.layout.root):
            write_json(self.layout.status, {"schema": STATUS_SCHEMA, **status})
