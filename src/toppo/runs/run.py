"""One run: joins the training loop and the run directory.  Start, resume, load, evaluate."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from toppo.collect.check_apart import check_env_in_subprocess
from toppo.collect.child import can_live_elsewhere
from toppo.collect.episodes import after_replay, say_lost
from toppo.collect.faults import STRICT, FaultPolicy
from toppo.collect.pool import open_pool
from toppo.envs import EnvSource, open_player
from toppo.envs.check import NOT_REPEATED
from toppo.envs.source import is_registered, name_of
from toppo.envs.spaces import refuse_other_spaces
from toppo.envs.spaces_json import spaces_from_json, spaces_to_json
from toppo.envs.world import look
from toppo.errors import CANNOT_CREATE, IO_ERROR, NO_INPUT, Fault, ToppoError
from toppo.learn.loop import Iteration, train
from toppo.learn.setup import Setup, acting, check, initial_state, plan
from toppo.learn.state import State
from toppo.learn.xla import prepare
from toppo.rundir.checkpoint import Checkpoint, CheckpointError, Declared, add_checkpoint, newest_checkpoint
from toppo.rundir.files import refuse_strange_entries
from toppo.rundir.layout import Layout, read_json, write_json
from toppo.rundir.lock import exclusive
from toppo.rundir.versions import differences, versions
from toppo.runs.evaluate import evaluate_policy, policy_of
from toppo.runs.logs import Records
from toppo.runs.signals import Interrupted, StopRequest, stop_request
from toppo.runs.spec import Spec, algorithm, from_json, to_json
from toppo.runs.state_io import check_facts, state_from_arrays, state_to_arrays

STATUS_SCHEMA = 1
TEST_EPISODES = 10  # the paper's
# What a process that was killed before it wrote the spec leaves: there is nothing to resume, so a new run may begin.
BEFORE_THE_SPEC = {".lock", ".holder.json", "versions.json", ".versions.json.tmp", ".spec.json.tmp"}


class Options(NamedTuple):
    """How a run is carried out; nothing here changes the numbers of a run without faults."""

    workers: int
    checkpoint_every: int = 50_000  # steps
    tensorboard: bool = True
    tolerance: FaultPolicy = STRICT
    evaluate_every: int = 0  # steps; 0 for never


IN_THIS_PROCESS = Options(workers=0)


class Progress(NamedTuple):
    """What an onlooker is told after every iteration."""

    spec: Spec
    iteration: Iteration
    seconds: float  # since this process began to train
    first_step: int  # where this process began


Observer = Callable[[Progress], None]


def setup_for(spec: Spec, source: EnvSource, options: Options = IN_THIS_PROCESS) -> Setup:
    """The fixed parts of a run, after looking at its environment where it is going to live."""
    return _setup_and_notes(spec, source, options)[0]


def _setup_and_notes(spec: Spec, source: EnvSource, options: Options) -> tuple[Setup, list[str]]:
    apart = options.workers and can_live_elsewhere(source)
    spaces, notes = check_env_in_subprocess(source, options.tolerance.env_timeout) if apart else look(source)
    for note in notes:
        print(f"note: {spec.env}: {note}", flush=True)
    limit, per_env = spaces.episode_limit, spec.config.n_steps // spec.common.n_envs
    if spec.common.reset_each_batch and (limit is None or per_env < limit):
        raise ToppoError(
            f"reset_each_batch needs whole episodes in a batch, but n / envs is {per_env} and an episode of {spec.env} "
            f"may last {limit or 'for ever'}: use --no-reset-each-batch, fewer --n-envs or a larger --n-steps"
        )
    setup = Setup(algorithm(spec.algo), spec.config, spec.common, spaces, spec.total_timesteps, spec.seed)
    try:
        check(setup)
    except ValueError as error:
        raise ToppoError(f"{spec.env}: {error}") from error
    return setup, notes


def start(spec: Spec, source: EnvSource, root: Path, options: Options, observe: Observer) -> State:
    """Train a new run in a new directory."""
    setup = setup_for(spec, source, options)
    if root.exists() and (not root.is_dir() or {p.name for p in root.iterdir()} - BEFORE_THE_SPEC):
        raise ToppoError(
            f"{root} exists already: continue it with `toppo resume {root}` or choose another --out", CANNOT_CREATE
        )
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ToppoError(f"{root} cannot be created: {error.strerror}", CANNOT_CREATE) from error
    layout = Layout(root)
    with exclusive(layout.lock):
        with writing(root):
            write_json(layout.versions, {"schema": STATUS_SCHEMA, **versions()})
            write_json(layout.spec, to_json(spec))
        return _train(spec, setup, source, layout, None, options, observe)


def resume(
    root: Path, source: EnvSource | None, options: Options, observe: Observer, allow_drift: bool = False
) -> State:
    """Continue a run to the same bytes as if it had never stopped."""
    layout = Layout(root)
    spec = from_json(read_json(layout.spec))
    refuse_strange_entries(root)
    drift = differences(read_json(layout.versions))
    if drift and not allow_drift:
        raise ToppoError(
            f"{root} was started with other versions ({', '.join(drift)}), and would not continue to the same "
            "numbers: install those, or continue all the same with --allow-drift"
        )
    source = source if source is not None else source_of(spec)
    setup, notes = _setup_and_notes(spec, source, options)

    def fits(facts: dict[str, Any], arrays: Mapping[str, Declared]) -> None:
        check_facts(setup._replace(spaces=spaces_from_json(facts.get("spaces"))), facts, arrays)

    with exclusive(layout.lock):
        try:
            checkpoint, damaged = newest_checkpoint(layout.checkpoints, fits)
            refuse_other_spaces(name_of(source), setup.spaces, spaces_from_json(checkpoint.facts["spaces"]))
        except CheckpointError as error:
            if error.code != NO_INPUT:
                raise
            checkpoint, damaged = None, []
        for sentence in damaged:
            print(f"warning: {sentence}; the checkpoint before it is used", flush=True)
        repeats = checkpoint is None or NOT_REPEATED not in notes
        if not repeats:
            print("warning: the environment does not repeat itself: resumed, not bit-exact", flush=True)
        return _train(spec, setup, source, layout, checkpoint, options, observe, repeats)


@contextmanager
def writing(root: Path) -> Iterator[None]:
    """What the system refuses to write ends the run in a sentence; what was saved before is whole."""
    try:
        yield
    except OSError as error:
        raise ToppoError(
            f"{root} cannot be written ({error.strerror}); its last checkpoint is whole: mend that, then go on with "
            f"`toppo resume {root}`",
            IO_ERROR,
        ) from error


def source_of(spec: Spec) -> str:
    """The environment id of a spec that came from a file: only ids that are registered already are made."""
    if not is_registered(spec.env):
        raise ToppoError(
            f"the run's environment {spec.env!r} is not registered with Gymnasium here; "
            "if you trust it, name it yourself with --env"
        )
    return spec.env


def _train(
    spec: Spec,
    setup: Setup,
    source: EnvSource,
    layout: Layout,
    checkpoint: Checkpoint | None,
    options: Options,
    observe: Observer,
    repeats: bool = True,
) -> State:
    prepare()
    if checkpoint is None:
        state, offsets, exact = initial_state(setup), None, True
    else:
        facts = checkpoint.facts
        state = state_from_arrays(setup, checkpoint.arrays, facts.get("state", {}))
        offsets, exact = _offsets(facts.get("offsets")), repeats and facts.get("exact") is True
    with (
        closing(open_pool(plan(setup), source, options.workers, options.tolerance, acting(setup))) as pool,
        closing(_open_records(layout, offsets, state.steps, options)) as records,
    ):
        lost = pool.restore(state.episodes) if checkpoint else {}
        if lost:
            exact, state = False, state._replace(episodes=after_replay(state.episodes, lost))
            print(f"warning: {say_lost(lost)}: resumed, not bit-exact", flush=True)
        with stop_request() as request:
            job = _Job(spec, source, layout, options, records, exact, request)
            return job.run(setup, state, pool, observe)


def _open_records(layout: Layout, offsets: dict[str, int] | None, steps: int, options: Options) -> Records:
    with writing(layout.root):
        return Records(layout, offsets, steps, options.tensorboard, options.evaluate_every > 0)


def _offsets(data: Any) -> dict[str, int]:
    """How long the logs were at a checkpoint, from a file that a stranger may have made."""
    names = {"metrics", "episodes", "timing"}
    if not isinstance(data, dict) or any(type(data.get(n)) is not int or data[n] < 0 for n in names | set(data)):
        raise CheckpointError("the checkpoint does not say how long the run's logs were")
    return data


class _Job:
    """The life of a run in this process."""

    def __init__(
        self,
        spec: Spec,
        source: EnvSource,
        layout: Layout,
        options: Options,
        records: Records,
        exact: bool,
        request: StopRequest,
    ) -> None:
        self.spec, self.source, self.layout, self.options, self.records = spec, source, layout, options, records
        self.exact, self.request = exact, request

    def run(self, setup: Setup, state: State, pool: Any, observe: Observer) -> State:
        first, began, saved = state.steps, time.perf_counter(), state.steps
        self._status("running", state.steps)
        try:
            for iteration in train(setup, state, pool):
                before, state = state.steps, iteration.state
                seconds = time.perf_counter() - began
                with writing(self.layout.root):
                    self.records.write(iteration, (state.steps - first) / seconds)
                self.exact = self.exact and all(fault.exact for fault in iteration.faults)
                observe(Progress(self.spec, iteration, seconds, first))
                last = state.steps >= setup.total_timesteps
                due = state.steps // self.options.checkpoint_every > saved // self.options.checkpoint_every
                every = self.options.evaluate_every
                if every and (last or state.steps // every > before // every):
                    self._test(setup, state)
                if last or due or self.request.signal is not None:
                    self._save(setup, state)
                    saved = state.steps
                if self.request.signal is not None and not last:
                    self._status("stopped", state.steps)
                    raise Interrupted(self.request.signal)
            self._status("finished", state.steps)
        except ToppoError as error:
            with suppress(ToppoError):  # the disk may be what failed
                self._status("failed", state.steps, str(error))
            if isinstance(error, Fault):
                self.records.fatal(error)
            raise
        return state

    def _test(self, setup: Setup, state: State) -> None:
        """Episodes with the most likely action and the normaliser frozen, from the same starts every time."""
        world = open_player(self.source)
        tests = evaluate_policy(policy_of(state, setup), world, TEST_EPISODES, self.spec.seed)
        world.close()
        with writing(self.layout.root):
            self.records.write_tests(state.steps, [t.episode_return for t in tests], sum(not t.ended for t in tests))

    def _save(self, setup: Setup, state: State) -> None:
        arrays, counters = state_to_arrays(state)
        facts = {
            "spec": to_json(self.spec),
            "spaces": spaces_to_json(setup.spaces),
            "state": counters,
            "exact": self.exact,
        }
        with writing(self.layout.root):
            add_checkpoint(self.layout.checkpoints, state.steps, arrays, {**facts, "offsets": self.records.offsets()})

    def _status(self, state: str, steps: int, message: str = "") -> None:
        told = {"schema": STATUS_SCHEMA, "state": state, "steps": steps, "exact": self.exact, "message": message}
        with writing(self.layout.root):
            write_json(self.layout.status, told)
