"""The loop of every training: log an iteration, call the callbacks, save when it is due."""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, nullcontext, suppress

import numpy as np

from toppo.callbacks import Callback, Ends, Starts
from toppo.collect.episodes import describe_failed_replays
from toppo.errors import Fault, ToppoError, in_one_line
from toppo.learn.loop import Iteration
from toppo.learn.session import Session, open_session
from toppo.rundir.progress import STOPPED_BY
from toppo.runs.signals import Interrupted, StopRequest, stop_request
from toppo.runs.training import Training


def train(training: Training, callbacks: Sequence[Callback], observe: Callback) -> None:
    """Train to the end, until a callback stops it, or until a signal asks to stop a run that is saved."""
    directory = training.directory
    with (
        open_session(training.setup, training.source, training.workers, training.fault_policy) as session,
        directory.open_logs() if directory else nullcontext(),
        ExitStack() as ends,
    ):
        restore(training, session)
        try:
            with stop_request() if directory else nullcontext(StopRequest()) as stop:
                write_status(training, "running")
                start(training, [*callbacks, observe], ends)
                iterate(training, session.train(training.state), callbacks, observe, stop)
                write_status(training, "stopped" if training.stopped_by else "finished", training.stopped_by)
        except ToppoError as error:
            write_failure(training, error)
            raise


def mark_inexact(training: Training, reason: str) -> None:
    """Warn that the training does not continue to the bytes of one that never stopped."""
    training.exact = False
    training.tell(f"warning: {reason}: resumed, not bit-exact")


def restore(training: Training, session: Session) -> None:
    """Bring the environments to where the state has them, and read the tests of earlier sessions."""
    training.session = session
    if training.state.batches:
        training.state, failed = session.restore(training.state)
        if failed:
            mark_inexact(training, describe_failed_replays(failed))
    if training.directory:
        training.evaluations = training.directory.evaluations()
        if training.num_timesteps and not training.directory.offsets:
            training.checkpoint()  # it learned elsewhere: nothing else could restore it


def start(training: Training, callbacks: Sequence[Callback], ends: ExitStack) -> None:
    """Tell the callbacks that the training starts, and later that it has ended."""
    for callback in callbacks:
        if isinstance(callback, Ends):
            ends.callback(callback.on_training_end)
        if isinstance(callback, Starts):
            callback.on_training_start(training)


def iterate(
    training: Training,
    iterations: Iterator[Iteration],
    callbacks: Sequence[Callback],
    observe: Callback,
    stop: StopRequest,
) -> None:
    """Log every iteration, call the callbacks, and save when it is due."""
    began = time.perf_counter()
    training.first_step = training.num_timesteps
    for iteration in iterations:
        advance(training, iteration, time.perf_counter() - began)
        call(training, callbacks)
        observe(training)
        leave = bool(training.stopped_by) or stop.signal is not None
        if training.directory and (leave or training.is_due(training.directory.checkpoint_every)):
            training.checkpoint()
        if training.is_last():
            training.stopped_by = ""
        elif stop.signal is not None:
            write_status(training, "stopped")
            raise Interrupted(stop.signal)
        elif training.stopped_by:
            return


def advance(training: Training, iteration: Iteration, elapsed: float) -> None:
    """Take over what an iteration leaves, and log it."""
    training.steps_before = training.num_timesteps
    training.iteration = iteration
    training.state = iteration.state
    training.elapsed = elapsed
    training.exact = training.exact and all(fault.exact for fault in iteration.faults)
    seconds = {f"time/{name}": round(s, 6) for name, s in iteration.seconds.items()}
    fps = round((training.num_timesteps - training.first_step) / elapsed, 1)
    training.timing = {"time/total_timesteps": training.num_timesteps, "time/fps": fps, **seconds}
    if training.agent:
        training.agent.state = training.state
    if training.directory:
        training.directory.write(iteration, training.timing)


def call(training: Training, callbacks: Sequence[Callback]) -> None:
    """Call the callbacks; note the first that returned False.  One that raises leaves a run that can continue."""
    try:
        answers = [callback(training) for callback in callbacks]
    except BaseException as error:
        with suppress(ToppoError):  # the disk may be what failed
            training.checkpoint()
        write_failure(training, error)
        raise
    for callback, answer in zip(callbacks, answers, strict=True):
        if not training.stopped_by and isinstance(answer, bool | np.bool_) and not answer:
            training.stopped_by = f"{STOPPED_BY}{getattr(callback, '__qualname__', repr(callback))}"


def write_failure(training: Training, error: BaseException) -> None:
    """Write down why the training failed, as far as that is possible."""
    with suppress(ToppoError):  # the disk may be what failed
        write_status(training, "failed", str(error) if isinstance(error, ToppoError) else in_one_line(error))
    if training.directory and isinstance(error, Fault):
        training.directory.write_fatal(error)


def write_status(training: Training, state: str, message: str = "") -> None:
    """Replace the status of a run."""
    if training.directory:
        status = {"state": state, "steps": training.num_timesteps, "exact": training.exact, "message": message}
        training.directory.write_status(status)
