"""Searches whose runs train in this process: continued, pruned, failed, and what they leave."""

import json

import pytest

from tests.support.curves import run_directory
from tests.support.searching import SPACE, InThisProcess, plan, search
from toppo.errors import ToppoError
from toppo.report.tables import number
from toppo.rundir.layout import Layout, read_json
from toppo.runs.run import RunOptions
from toppo.runs.spec import from_json
from toppo.studies.study import Job
from toppo.tune.page import write_page
from toppo.tune.run_search import TuneOptions, run_search
from toppo.tune.search import Found, Place, best_of, curve_points, found_in
from toppo.tune.trials import Trials

TRIALS = 9


@pytest.fixture(scope="module")
def chosen():
    return plan()


@pytest.fixture(scope="module")
def straight(chosen, tmp_path_factory):
    """A search that nobody disturbs."""
    place = Place(tmp_path_factory.mktemp("straight"))
    told = search(chosen, place, TRIALS)
    return place, found_in(chosen, place), [status.event for status in told if status.event]


def rows(found):
    return [trial._replace(key=0) for trial in found.trials]


def test_it_finds_the_learning_rates_that_learn_and_prunes_the_others(straight, chosen):
    _, found, told = straight
    best = best_of(found.trials)
    assert -0.1 < best.value <= 0  # the best return of the task is 0
    assert best.drawn["learning_rate"] > 0.01
    pruned = [trial for trial in found.trials if trial.state == "pruned"]
    assert pruned
    assert all(max(trial.curve) < 10 for trial in pruned)
    assert told[0] == f"{TRIALS} trials, 0 ended before"
    assert told[-1].startswith(f"trial {TRIALS - 1}: ")
    assert found.counts() == f"{TRIALS} trials: {TRIALS - len(pruned)} finished, {len(pruned)} pruned"


def test_the_best_settings_are_a_spec_and_its_run_alone_keeps_its_checkpoint(straight, chosen):
    place, found, _ = straight
    best = best_of(found.trials)
    spec = from_json(read_json(place.best))
    assert spec == from_json(read_json(Layout(place.runs.root / f"trial-{best.number:04d}-0").spec))
    assert spec.common.learning_rate == best.drawn["learning_rate"]
    kept = [run.name for run in place.runs.root.glob("trial-*") if Layout(run).checkpoints.exists()]
    assert kept == [f"trial-{best.number:04d}-0"]


def test_more_trials_continue_a_search(straight, chosen, tmp_path):
    place = Place(tmp_path)
    for trials in (1, 3):
        search(chosen, place, trials)
    assert rows(found_in(chosen, place)) == rows(straight[1])[:3]
    executor = InThisProcess()
    search(chosen, place, 3, executor)
    assert executor.started == []


class Killed(BaseException):
    """The end of a process, as far as the search can tell."""


def test_killed_at_any_write_it_is_the_same_search(straight, chosen, tmp_path, monkeypatch):
    """Killed before or after a write into the storage, again and again; before each trial is pruned, in any case."""
    place = Place(tmp_path)
    left = 0
    killed_before_pruning = set()

    def count_down():
        nonlocal left
        left -= 1
        if left == 0:
            raise Killed

    def killing(write):
        def killed_or_not(trials, *arguments):
            if write is original_prune and arguments[0].number not in killed_before_pruning:
                killed_before_pruning.add(arguments[0].number)
                raise Killed
            count_down()
            result = write(trials, *arguments)
            count_down()
            return result

        return killed_or_not

    original_prune = Trials.prune
    for name in ("draw", "report", "finish", "prune"):
        monkeypatch.setattr(Trials, name, killing(getattr(Trials, name)))
    kills = 0
    ended = []
    while len(ended) < TRIALS:
        left = (1, 2, 5, 11, 24)[kills % 5]
        try:
            search(chosen, place, TRIALS)
        except Killed:
            kills += 1
        before = ended
        ended = [row for row in rows(found_in(chosen, place)) if row.state != "running"]
        assert ended[: len(before)] == before
    assert kills > 10
    assert killed_before_pruning
    assert rows(found_in(chosen, place)) == rows(straight[1])


def test_the_objective_is_the_mean_over_seeds_of_the_mean_of_test_episodes(tmp_path):
    chosen = plan(seeds=2, steps=128, space=SPACE | {"learning_rate": {"choices": [0.01]}})
    place = Place(tmp_path)
    search(chosen, place, 1)
    [trial] = found_in(chosen, place).trials
    tests = [read_json(place.root / "curves" / f"trial-0000-{seed}.json")["test_returns"] for seed in (0, 1)]
    assert len(tests[0]) == len(tests[1]) == 10
    assert trial.value == pytest.approx((sum(tests[0]) / 10 + sum(tests[1]) / 10) / 2)
    assert sorted(trial.curve) == list(range(1, 21))  # ten points of each run


def test_a_part_of_the_curve_is_the_mean_of_the_episodes_that_ended_in_it(tmp_path):
    chosen = plan(steps=1000)
    folder = Place(tmp_path).runs
    job = Job("trial-0000-0", "", chosen.task.spec(0, {}))
    assert list(curve_points(folder, job, 1)) == []
    run_directory(folder.run(job), episodes=30)  # one every 25 steps, with returns 1, 2, ...; 750 of 1000 steps
    expected = [(part, 4 * part - 1.5) for part in range(1, 8)]
    assert list(curve_points(folder, job, 1)) == expected
    assert list(curve_points(folder, job, 6)) == expected[5:]


class Failing(InThisProcess):
    """Every run fails whose name begins so."""

    def __init__(self, beginning):
        super().__init__()
        self.beginning = beginning

    def start(self, name, job, log):
        if name.startswith(self.beginning):
            self.started.append(name)
            self.faults[name] = "exit code 65: toppo: a sentence"
        else:
            super().start(name, job, log)


def test_a_run_that_fails_is_tried_again_and_then_ends_its_trial_alone(chosen, tmp_path):
    executor = Failing("trial-0001")
    told = [status.event for status in search(chosen, Place(tmp_path), 3, executor)]
    assert executor.started.count("trial-0001-0") == 2
    assert "trial-0001-0: failed, tried again (exit code 65: toppo: a sentence)" in told
    found = found_in(chosen, Place(tmp_path))
    assert [trial.state for trial in found.trials] == ["finished", "failed", "finished"]
    assert found.trials[1].fault == "trial-0001-0: exit code 65: toppo: a sentence"


def test_values_that_do_not_go_together_fail_their_trial_without_a_run(tmp_path):
    space = SPACE | {"n_envs": 1, "n_steps": {"choices": [8, 64]}, "n_minibatches": {"choices": [4, 16]}}
    chosen = plan(space=space)
    executor = Failing("trial")
    search(chosen, Place(tmp_path), 10, executor)
    trials = found_in(chosen, Place(tmp_path)).trials
    without = [trial for trial in trials if f"trial-{trial.number:04d}-0" not in executor.started]
    assert 0 < len(without) < 10
    for trial in trials:
        together = (trial.drawn["n_steps"], trial.drawn["n_minibatches"]) != (8, 16)
        assert together == (trial not in without)
        assert together or trial.fault == "n_steps is 8, but must be at least n_minibatches = 16"


def test_the_page_says_what_was_found(straight, chosen):
    place, found, _ = straight
    best = best_of(found.trials)
    failed = found.trials[0]._replace(state="failed", value=None, fault="<script>alert(1)</script>")
    shown = Found([failed, *found.trials[1:]], {"gamma": 0.7, "learning_rate": 0.3})
    write_page(chosen, place, shown, best, "toppo tune <script>")
    page = place.page.read_text()
    assert "<script" not in page
    assert "failed: &lt;script&gt;alert(1)&lt;/script&gt;" in page
    for name in ("summary", "settings", "history", "curves", "importance", "slices", "trials", "versions"):
        assert f'id="{name}"' in page
    assert f"The best is trial {best.number} with a mean return of {number(best.value)}." in page
    assert f"{best.drawn['learning_rate']:.4g}</td>" in page
    assert "1e-06 to 0.1, logarithmic" in page
    assert page.count("<svg") == 4
    write_page(chosen, place, found, best, "toppo tune")
    assert "This needs 12 finished trials." in place.page.read_text()


@pytest.mark.parametrize("left", ["a file", "another search", "nothing"])
def test_a_directory_with_other_content_is_left_alone(chosen, tmp_path, left):
    root = tmp_path / "out"
    root.mkdir()
    if left == "a file":
        (root / "mine.txt").write_text("mine")
    if left == "another search":
        other = {"schema": 1, **chosen.search._replace(seeds=3, algo="toppo")._asdict()}
        (root / "tune.json").write_text(json.dumps(other))
    before = sorted(path.name for path in root.iterdir())
    options = TuneOptions(trials=0, jobs=1, retries=0, run_options=RunOptions(workers=0))
    if left == "nothing":
        run_search(chosen, Place(root), options, lambda status: None)
        assert read_json(root / "tune.json")["space"] == SPACE
        return
    why = "algo is toppo, not ppo, seeds is 3, not 1" if left == "another search" else "holds no search"
    with pytest.raises(ToppoError, match=why):
        run_search(chosen, Place(root), options, lambda status: None)
    assert sorted(path.name for path in root.iterdir()) == before
