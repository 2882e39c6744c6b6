"""Trials in an Optuna study: drawn, stored, pruned, and found again."""

import math

import optuna
import pytest

from tests.support.searching import plan
from toppo.errors import ToppoError
from toppo.tune.trials import FIRST_PART_TO_PRUNE, MIN_FOR_IMPORTANCE, TRIALS_BEFORE_PRUNING, Trials, naming_storage

SPACE = {
    "n_steps": {"choices": [64, 128]},
    "hidden": {"choices": [[8], [16, 16]]},
    "n_epochs": {"low": 1, "high": 4},
    "learning_rate": {"low": 1e-5, "high": 1e-2, "log": True},
}


@pytest.fixture(scope="module")
def space():
    return plan(space=SPACE).space


def opened(path, space, prune=True, seed=0):
    return Trials(path, space, seed, prune)


def test_what_is_drawn_depends_on_the_seed_and_the_trials_so_far_alone(tmp_path, space):
    """A search that is closed and opened between trials draws what one that stays open draws."""
    drawn = []
    for name, openings in (("straight", {0}), ("opened again", {0, 4, 11})):
        for number in range(12):  # beyond the ten that are drawn at random
            if number in openings:
                trials = opened(tmp_path / name, space)
            trial = trials.draw()
            assert (trial.number, trial.state) == (number, "running")
            trials.finish(trial, trial.drawn["n_epochs"] + number / 100)
            drawn.append(trial.drawn)
    assert drawn[:12] == drawn[12:]
    assert opened(tmp_path / "other seed", space, seed=1).draw().drawn != drawn[0]
    assert {type(value) for value in drawn[0].values()} == {int, str, float}
    assert len({str(d) for d in drawn}) > 8


def test_the_study_is_one_that_optuna_reads(tmp_path, space):
    trials = opened(tmp_path / "with ? and #.db", space)
    finished = trials.draw()
    trials.report(finished, 1, 2.0)
    trials.finish(finished, 7.0)
    failed = trials.draw()
    trials.fail(failed, "a fault")
    pruned = trials.draw()
    trials.report(pruned, 1, 1.0)
    trials.report(pruned, 2, 0.5)
    trials.prune(pruned)
    open_ = trials.draw()
    assert [t.state for t in trials.all()] == ["finished", "failed", "pruned", "running"]
    assert [t.value for t in trials.all()] == [7.0, None, None, None]
    assert trials.all()[1].fault == "a fault"
    assert trials.all()[2].curve == {1: 1.0, 2: 0.5}
    assert trials.all()[3] == open_
    trials.close()
    again = opened(tmp_path / "with ? and #.db", space)
    assert again.all()[3] == open_
    study = again._study
    assert study.best_value == 7.0
    assert study.direction is optuna.study.StudyDirection.MAXIMIZE


def test_a_curve_below_the_median_is_pruned_and_no_other(tmp_path, space):
    trials = opened(tmp_path / "a.db", space)
    for level in range(TRIALS_BEFORE_PRUNING):
        trial = trials.draw()
        for part in range(1, 11):
            trials.report(trial, part, float(level * part))
        assert not trials.is_below_median(trial)  # of too few
        trials.finish(trial, float(level))
    low = trials.draw()
    trials.report(low, FIRST_PART_TO_PRUNE - 1, -1.0)
    assert not trials.is_below_median(low)  # too early
    trials.report(low, FIRST_PART_TO_PRUNE, 2 * FIRST_PART_TO_PRUNE - 0.1)
    assert trials.is_below_median(low)
    high = trials.draw()
    trials.report(high, FIRST_PART_TO_PRUNE, 2 * FIRST_PART_TO_PRUNE + 0.1)
    assert not trials.is_below_median(high)
    trials.report(high, 5, -1.0)  # its best point is still below the median there
    assert trials.is_below_median(high)
    trials.close()
    assert not opened(tmp_path / "a.db", space, prune=False).is_below_median(low)


def test_the_setting_that_decides_has_the_highest_importance(tmp_path, space):
    trials = opened(tmp_path / "a.db", space)
    for _ in range(MIN_FOR_IMPORTANCE):
        assert trials.importances() == {}
        trial = trials.draw()
        trials.finish(trial, -abs(math.log10(trial.drawn["learning_rate"]) + 4))
    found = trials.importances()
    assert set(found) == set(SPACE)
    assert next(iter(found)) == "learning_rate"
    assert sum(found.values()) == pytest.approx(1)


def test_a_file_that_is_no_study_is_named(tmp_path, space):
    path = tmp_path / "study.db"
    path.write_text("not a database, but long enough to look at")
    with pytest.raises(ToppoError, match="cannot be used as an Optuna study"), naming_storage(path):
        opened(path, space)
