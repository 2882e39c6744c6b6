"""One run of a study: started or resumed, and its compact curve at the end.

``python -m toppo.studies.job_process ORDER`` does it in a process of its own.
"""

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

from toppo.envs import open_player
from toppo.envs.atari import is_atari
from toppo.errors import ToppoError
from toppo.learn.state import State
from toppo.rundir.curve import compact
from toppo.rundir.jsonl import read_lines
from toppo.rundir.layout import Layout, write_text
from toppo.rundir.versions import versions
from toppo.runs import run as runs
from toppo.runs.evaluate import evaluate_policy, policy_of
from toppo.runs.run import TEST_EPISODES, Options
from toppo.runs.signals import Interrupted
from toppo.runs.spec import Spec, from_json, spec_hash, to_json


def run_job(order: dict[str, Any]) -> None:
    """Bring a run to its end, from wherever it is; ``order`` is plain data, so that it can travel."""
    spec, root = from_json(order["spec"]), Path(order["root"])
    options = Options(tensorboard=False, **order["options"])
    if Layout(root).spec.is_file():
        state = runs.resume(root, spec.env, options, lambda progress: None)
    else:
        state = runs.start(spec, spec.env, root, options, lambda progress: None)
    write_curve(spec, state, Layout(root), Path(order["curve"]))


def write_curve(spec: Spec, state: State, layout: Layout, path: Path) -> None:
    """The compact curve of a finished run, with the returns of test episodes at its end."""
    logs = {name: list(read_lines(getattr(layout, name))) for name in ("episodes", "metrics")}
    curve = compact(to_json(spec), versions(), logs["episodes"], logs["metrics"])
    curve |= {"spec_hash": spec_hash(spec), "test_returns": test_returns(spec, state)}
    if layout.evaluations.is_file():
        curve["evaluations"] = [[e["step"], e["return"]] for e in read_lines(layout.evaluations)]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(curve, separators=(",", ":")) + "\n")


def test_returns(spec: Spec, state: State) -> list[float]:
    """Returns of the trained policy with its most likely actions; none of Atari, scored by the games of training."""
    if is_atari(spec.env):
        return []
    world = open_player(spec.env)
    tests = evaluate_policy(policy_of(state, runs.setup_for(spec, spec.env)), world, TEST_EPISODES, spec.seed)
    world.close()
    return [round(test.episode_return, 3) for test in tests]


def leave_with_the_study() -> None:
    """End at once when the study has died: its end of the pipe closes then.  The next try has the last checkpoint."""
    sys.stdin.read()
    os._exit(1)


def main() -> None:
    """Carry out the order given as JSON."""
    threading.Thread(target=leave_with_the_study, daemon=True).start()
    try:
        run_job(json.loads(sys.argv[1]))
    except Interrupted as stop:
        raise SystemExit(stop.code) from None
    except ToppoError as error:
        print(f"toppo: {error}", file=sys.stderr)
        raise SystemExit(error.code) from None


if __name__ == "__main__":
    main()
