"""One run of a study in a process of its own: ``python -m toppo.studies.job_process JOB``, with the job as JSON."""

import json
import os
import sys
import threading
from pathlib import Path

from toppo.envs import open_player, resolve
from toppo.errors import ToppoError
from toppo.learn.state import State
from toppo.rundir.curve import compact
from toppo.rundir.jsonl import read_lines
from toppo.rundir.layout import Layout, write_bytes
from toppo.rundir.versions import versions
from toppo.runs import run as runs
from toppo.runs.evaluate import evaluate_policy
from toppo.runs.run import TEST_EPISODES, RunOptions
from toppo.runs.signals import Interrupted
from toppo.runs.spec import Spec, from_json, spec_hash, to_json
from toppo.studies.executor import JobData


def run_job(job: JobData) -> None:
    """Start or resume a run, bring it to its end, and write its compact curve with the returns of test episodes."""
    spec = from_json(job["spec"])
    layout = Layout(Path(job["root"]))
    options = RunOptions(
        workers=job["workers"],
        checkpoint_every=job["checkpoint_every"],
        evaluate_every=job["evaluate_every"],
        tensorboard=False,
    )
    if layout.spec.is_file():
        state = runs.resume(layout.root, spec.env, options, lambda progress: None)
    else:
        state = runs.start(spec, spec.env, layout.root, options, lambda progress: None)
    curve = compact(to_json(spec), versions(), list(read_lines(layout.episodes)), list(read_lines(layout.metrics)))
    curve |= {"spec_hash": spec_hash(spec), "test_returns": test_returns(spec, state)}
    if layout.evaluations.is_file():
        curve["evaluations"] = [[e["step"], e["return"]] for e in read_lines(layout.evaluations)]
    path = Path(job["curve"])
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, json.dumps(curve, separators=(",", ":")).encode() + b"\n")


def test_returns(spec: Spec, state: State) -> list[float]:
    """Play test episodes with the most likely actions; none of Atari, which is scored by its training games."""
    source = resolve(spec.env, spec.env_kwargs)
    if source.kind == "atari":
        return []
    world = open_player(source)
    tests = evaluate_policy(state, runs.setup_for(spec, source), world, TEST_EPISODES, spec.seed)
    world.close()
    return [round(test.episode_return, 3) for test in tests]


def exit_with_study() -> None:
    """Exit at once when the study dies, which closes its end of the pipe; the next try has the last checkpoint."""
    sys.stdin.read()
    os._exit(1)


def main() -> None:
    """Run the job of the command line."""
    threading.Thread(target=exit_with_study, daemon=True).start()
    try:
        run_job(json.loads(sys.argv[1]))
    except Interrupted as stop:
        raise SystemExit(stop.code) from None
    except ToppoError as error:
        print(f"toppo: {error}", file=sys.stderr)
        raise SystemExit(error.code) from None


if __name__ == "__main__":
    main()
