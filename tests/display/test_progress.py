import io
import re
import time

import pytest

from tests.support import probes
from tests.support.settings import tiny
from tests.support.terminal import ReflowingTerminal
from tests.support.training import setup_for, train_all
from toppo.algos import REGISTRY
from toppo.collect.faults import STRICT, SurvivedFault
from toppo.display.console import Terminal, live_view
from toppo.display.progress import RunDisplay, sparkline, speed, time_left
from toppo.envs import resolve
from toppo.learn.loop import Iteration
from toppo.learn.metrics import Episode
from toppo.learn.state import State
from toppo.runs.evaluate import Evaluation
from toppo.runs.presets import spec_for
from toppo.runs.run import RunOptions, start
from toppo.runs.spec import from_json, to_json
from toppo.runs.training import Training

SPEC = spec_for("Pendulum-v1", "toppo", 1000, 0)
METRICS = {
    "memory/size": 3,
    "memory/kept": 2,
    "memory/kl": [0.01, 0.02],
    "train/tv": 0.04,
    "train/epochs": 7,
    "train/clip_fraction": 0.25,
}


def progress(steps, returns=(), seconds=2.0, faults=()):
    state = State(None, None, None, (), (), 0, 0, steps)
    episodes = [Episode(steps, 0, r, 10) for r in returns]
    return training(Iteration(state, METRICS, episodes, {}, list(faults)), seconds)


def training(iteration, seconds):
    setup = setup_for("toppo")._replace(total_timesteps=SPEC.total_timesteps)
    return Training(
        spec=SPEC,
        source=resolve("Pendulum-v1"),
        setup=setup,
        state=iteration.state,
        workers=0,
        fault_policy=STRICT,
        tell=print,
        iteration=iteration,
        elapsed=seconds,
    )


def test_a_plain_output_gets_a_line_at_the_beginning_and_one_at_the_end():
    out = io.StringIO()
    display = RunDisplay("title", Terminal(file=out, width=200), None)
    for steps in range(100, 1001, 100):
        display(progress(steps, [float(steps)]))
    lines = out.getvalue().splitlines()
    assert len(lines) == 2
    words = " ".join(lines[-1].split())
    assert words == "1,000 / 1,000 return 550.0 500 steps/s 0:00 left |M| 3 TV 0.040"


def test_the_first_faults_are_shown_and_the_others_left_to_the_file():
    out = io.StringIO()
    faults = [SurvivedFault(0, 3, f"step {i} [red]raised", exact=True) for i in range(5)]
    display = RunDisplay("title", Terminal(file=out, width=200), None)
    display(progress(100, faults=faults[:2]))
    display(progress(1000, faults=faults[2:]))
    warnings = [line for line in out.getvalue().splitlines() if line.startswith("warning: ")]
    assert warnings[:2] == ["warning: step 0 [red]raised", "warning: step 1 [red]raised"]
    assert warnings[2:] == ["warning: step 2 [red]raised (faults.jsonl has the others)"]


def test_a_terminal_gets_a_live_panel():
    out = io.StringIO()
    console = Terminal(file=out, width=80, force_terminal=True)
    with live_view(console) as live:
        RunDisplay("ToPPO [x]", console, live)(progress(500, [1.0, 3.0]))
        live.refresh()
    text = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", out.getvalue())
    for part in (
        "ToPPO [x]",
        "500 of 1,000",
        "250 steps/s",
        "0:02 left",
        "2.0",
        "|M| 3",
        "kept 2",
        "KL 0.010 to 0.020",
        "25%",
    ):
        assert part in text, part


@pytest.mark.parametrize("algo", REGISTRY)
def test_the_panel_shows_what_every_algorithm_logs(algo):
    out = io.StringIO()
    (iteration,) = train_all(setup_for(algo, iterations=1))
    console = Terminal(file=out, width=80, force_terminal=True)
    with live_view(console) as live:
        RunDisplay(algo, console, live)(training(iteration, 1.0))
    assert ("clipped" in out.getvalue()) is ("trpo" not in algo)


def test_the_newest_and_the_best_test_are_shown():
    now = progress(500, [1.0])
    now.evaluations += [Evaluation(250, 12.5, [12.5]), Evaluation(500, 9.0, [9.0])]
    out = io.StringIO()
    console = Terminal(file=out, width=80, force_terminal=True)
    with live_view(console) as live:
        RunDisplay("title", console, live)(now)
        live.refresh()
    assert "9.0 at 500 steps   best 12.5 at 250" in out.getvalue()
    out = io.StringIO()
    display = RunDisplay("title", Terminal(file=out, width=80), None)
    display(now)
    assert out.getvalue().endswith("  test 9.0\n")
    assert max(map(len, out.getvalue().splitlines())) <= 80


class Slow(probes.Walk):
    def step(self, action):
        time.sleep(0.02)
        return super().step(action)


def test_a_slow_environment_does_not_look_like_a_hang(tmp_path):
    """What the panel shows before the first update, which takes seconds here."""
    out = io.StringIO()
    console = Terminal(file=out, width=80, force_terminal=True)
    spec = spec_for("slow", "ppo", 64, 0, **tiny())
    options = RunOptions(workers=0, tensorboard=False, evaluate_every=64)
    with live_view(console) as live:
        start(spec, Slow, tmp_path / "run", options, RunDisplay("title", console, live))
    text = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", out.getvalue())
    assert "checking the environment" in text
    warm_up = [int(steps) for steps in re.findall(r"warm-up: (\d+) of 64 steps, which are not counted", text)]
    assert warm_up == sorted(warm_up)
    assert any(0 < steps < 64 for steps in warm_up)
    assert re.search(r"collecting a batch: \d+ of 64 steps", text)
    assert "testing: 10 episodes" in text


def test_time_left():
    assert time_left(progress(100, seconds=1.0)) == "0:09"
    assert time_left(progress(1, seconds=10.0)) == "2:46:30"
    assert time_left(progress(1001, seconds=10.0)) == "0:00"
    assert speed(progress(100, seconds=4.0)) == 25.0


def test_sparkline():
    assert sparkline([], 10) == ""
    assert sparkline([1.0], 10) == "▁"
    assert sparkline([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], 8) == "▁▂▃▄▅▆▇█"
    assert sparkline([0.0, 0.0, 8.0, 8.0], 2) == "▁█"
    assert len(sparkline(list(range(1000)), 60)) <= 60


def test_the_spec_of_a_progress_is_the_runs_own():
    assert from_json(to_json(progress(1).spec)) == SPEC


def test_a_terminal_that_becomes_narrower_keeps_no_ghosts_of_the_old_panel():
    out = io.StringIO()
    screen = ReflowingTerminal(90)
    console = Terminal(file=out, width=90, height=30, force_terminal=True)

    def look() -> list[str]:
        screen.feed(out.getvalue())
        out.seek(0)
        out.truncate()
        return screen.shown()

    console.say("what was there before")
    with live_view(console) as live:
        display = RunDisplay("ToPPO", console, live)
        for columns in (90, 40, 65, 30, 90):
            screen.resize(columns)
            console.width = columns
            display(progress(500, [1.0, 3.0]))
            live.refresh()
            rows = look()
            assert rows[0] == "what was there before"
            assert sum("ToPPO" in row for row in rows) == 1, columns
            assert sum(row.startswith("╰") for row in rows) == 1, columns
            assert rows[1].startswith("╭─ ToPPO")
    assert look() == ["what was there before"]
