"""What the sections of a report say, without writing it."""

import numpy as np
import pytest

from tests.support.curves import curve, group
from toppo.report.compare import aggregates_of, scores_of
from toppo.report.curves import run_from_curve
from toppo.report.figures import aggregates_figure, finals_figure, profile_figure
from toppo.report.load import Loaded
from toppo.report.page import About, render, sections_of
from toppo.report.statistics import bootstrap, mean, pooled
from toppo.report.tables import across_tasks, aggregate_rows, number, setting_rows, show


def arms(seeds, envs="EF", arms=("toppo", "ppo")):
    """Groups with returns that differ by arm and seed."""
    return [group([[float(s + 1 + len(arm))] for s in range(seeds)], arm, env) for env in envs for arm in arms]


def loaded(groups, random=None):
    runs = [r._replace(arm=g.arm) for g in groups for r in g.runs]
    return Loaded(runs, [], random or {})


def labels(axis):
    return [text.get_text() for text in axis.get_yticklabels()]


def test_without_scores_or_times_the_page_says_why():
    runs = loaded(arms(1, arms=("toppo",)))
    sections = sections_of(runs, "bootstrap")
    assert sections["aggregates"].note == "No task has a score. Left out: E, F, where there is no ppo."
    assert not sections["times"].rows
    assert "tests" not in sections
    page = render(runs, sections, About("x", "y"))
    assert sections["aggregates"].note in page
    assert "Compact curves do not keep run times" in page


def test_tests_at_other_steps_are_drawn_and_what_was_not_tested_is_named():
    tests = [[[50, 1.0], [100, 3.0]], [[25, 1.0], [75, 3.0]], [], [[50, None]]]
    runs = [run_from_curve(curve(seed=i, evaluations=t), f"toppo-E-{i}") for i, t in enumerate(tests)]
    section = sections_of(Loaded(runs, [], {}), "bootstrap")["tests"]
    (axis,) = section.figure.axes
    line = axis.get_lines()[0]
    assert line.get_xdata().tolist() == [25, 75]  # as far as both were tested
    assert line.get_ydata() == pytest.approx([1.0, (2.0 + 3.0) / 2])
    assert "Not all runs were tested: toppo on E (2 of 4)." in section.note


def test_few_runs_have_a_mean_and_no_iqm_and_are_counted_per_task():
    random = {"E": 0.0, "F": 0.0}
    one, five = (aggregates_of(scores_of(arms(n), random)) for n in (1, 5))
    assert [row[2].text.endswith(" (mean)") for row in aggregate_rows(one)] == [True, True]
    assert [row[2].text.endswith(" (mean)") for row in aggregate_rows(five)] == [False, False]
    assert [row[1].text for row in aggregate_rows(five)] == ["5", "5"]
    assert aggregates_figure(one).axes[0].get_title() == "IQM (mean with fewer than 4 runs)"
    drawn = aggregates_figure(five).axes[0]
    assert drawn.get_title() == "IQM"
    assert labels(drawn) == ["toppo (5 runs per task)", "ppo (5 runs per task)"]


def test_scores_are_taken_after_the_steps_that_all_arms_have():
    ours, theirs = group([[1.0, 2.0, 3.0, 4.0]]), group([[1.0, 2.0, 3.0, 8.0]], "ppo")
    short = ours._replace(runs=[r._replace(budget=50, grid=r.grid[:2], returns=r.returns[:2]) for r in ours.runs])
    scores = scores_of([short, theirs], {"E": 0.0})
    assert (scores.budget, scores.one) == ({"E": 50}, {"E": 2.0})
    assert scores.arms["toppo"][0].tolist() == [1.0]
    late = theirs._replace(runs=[r._replace(returns=np.array([np.nan, np.nan, 1.0, 8.0])) for r in theirs.runs])
    assert "after the 50 steps that all arms have" in scores_of([short, late], {"E": 0.0}).left_out["E"]


def test_the_summary_speaks_of_all_tasks_together():
    found = aggregates_of(scores_of(arms(5), {"E": 0.0, "F": 0.0}))
    (told,) = across_tasks(found)
    assert told.startswith(
        f"Across 2 tasks, with a random policy at 0 and ppo at 1, the IQM of the scores is toppo {show(found[0].iqm)}"
    )
    assert f"ppo is {show(found[1].improvement)}" in told
    assert across_tasks(aggregates_of(scores_of(arms(5, "E"), {"E": 0.0}))) == []
    page = loaded(arms(1), {"E": 0.0, "F": 0.0})
    assert "Across 2 tasks" in render(page, {}, About("x", "y"))
    assert "1 run: toppo on E." in render(loaded(arms(1, "E", ("toppo",))), {}, About("x", "y"))


def test_numbers_are_read_without_powers_of_ten():
    shown = {
        89_952.4: "89,952",
        999.96: "1,000",
        999.4: "999.4",
        -12_345.0: "-12,345",
        0.12345: "0.1235",
        1e300: "1e+300",
    }
    assert {value: number(value) for value in shown} == shown
    assert number(None) == number(float("nan")) == "-"


def test_settings_are_told_with_the_tasks_that_have_them():
    found = arms(2, "EFG", ("toppo",))
    found[2] = found[2]._replace(runs=[r._replace(settings={"n_steps": 9}) for r in found[2].runs])
    told = ", ".join(f"{k} = {v}" for k, v in found[0].runs[0].settings.items())
    rows = [[cell.text for cell in row] for row in setting_rows(found)]
    assert rows == [["toppo", "E, F", told], ["toppo", "G", "n_steps = 9"]]


def test_final_returns_have_the_band_that_was_asked_for():
    arm = group([[1.0], [3.0], [4.0], [5.0], [7.0]])
    interval = bootstrap([arm.final()], pooled(mean))
    for band, limits in (("std", (4 - 2.0, 4 + 2.0)), ("bootstrap", (interval.low, interval.high))):
        (line,) = finals_figure([arm], band).axes[0].get_lines()
        assert line.get_xdata() == pytest.approx(limits)
    assert not finals_figure([arm._replace(runs=arm.runs[:3])]).axes[0].get_lines()
    other = arm._replace(arm="ppo", runs=[r._replace(budget=50) for r in arm.runs])
    assert labels(finals_figure([arm, other]).axes[0]) == ["toppo (5)", "ppo (5)\nafter 50 steps"]


def test_a_profile_has_an_interval_from_five_runs_on_and_says_what_it_does_not_show():
    few, many = (profile_figure(scores_of(arms(n), {"E": 0.0, "F": 0.0})).axes[0] for n in (4, 5))
    assert (len(few.collections), len(many.collections)) == (0, 2)
    assert many.get_title() == ""
    far = [group([[100.0], [-50.0], [0.4]], "toppo"), group([[1.0]], "ppo")]
    axis = profile_figure(scores_of(far, {"E": 0.0})).axes[0]
    assert axis.get_title() == "not shown: 1 run below -1, 1 run above 5"
    assert axis.get_lines()[0].get_xdata()[[0, -1]].tolist() == [-1.0, 5.0]
