"""What the sections of a report say, without writing it."""

import json

import numpy as np
import pytest

from tests.support.curves import curve, group, run_directory
from toppo.report.compare import aggregates_of, groups_of, improvements_of, scores_of
from toppo.report.curves import run_from_curve
from toppo.report.figures import aggregates_figure, finals_figure, profile_figure
from toppo.report.load import Loaded, load
from toppo.report.page import About, render, sections_of
from toppo.report.statistics import bootstrap, mean, pooled
from toppo.report.tables import across_tasks, aggregate_rows, final_rows, number, setting_rows, show


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
    groups = arms(5)
    found = aggregates_of(scores_of(groups, {"E": 0.0, "F": 0.0}))
    scores, chances = across_tasks(found, improvements_of(groups))
    assert scores.startswith(
        f"Across 2 tasks, with a random policy at 0 and ppo at 1, the IQM of the scores is toppo {show(found[0].iqm)}"
    )
    chance = "On the same task, the probability that a run of toppo is better than one of ppo is"
    assert chances == f"{chance} {show(improvements_of(groups)[0].probability)}."
    one = arms(5, "E")
    assert across_tasks(aggregates_of(scores_of(one, {"E": 0.0})), improvements_of(one)) == []
    page = loaded(arms(1), {"E": 0.0, "F": 0.0})
    assert "Across 2 tasks" in render(page, {}, About("x", "y"))
    assert "1 run: toppo on E." in render(loaded(arms(1, "E", ("toppo",))), {}, About("x", "y"))


def test_the_probability_of_improvement_needs_neither_toppo_nor_ppo_nor_a_random_policy():
    names = ("oppo, learning_rate=0.0003", "oppo, learning_rate=0.001")
    groups = [group([[s + 1.0] * 2 for s in range(5)], names[0], env) for env in "EF"]
    groups += [group([[s + 2.0] * 2 for s in range(5)], names[1], env) for env in "EG"]  # they share one task
    (found,) = improvements_of(groups)
    assert (found.ours, found.theirs, list(found.budget)) == (*names, ["E"])
    assert found.probability.value == pytest.approx((4 * 0.5 + 6) / 25)  # 4 ties and 6 wins among 25 pairs
    sections = sections_of(loaded(groups), "bootstrap")
    page = render(loaded(groups), sections, About("x", "y"))
    assert f"a run of {names[0]} has a higher final return than a run of the other arm" in page
    assert [cell.text for cell in sections["improvements"].rows[0]][:3] == [names[1], "1", "5"]
    assert improvements_of(groups[:2]) == []
    # Where toppo ran, the others are compared with it; runs of few steps are compared after these.
    short = group([[3.0, 0.0]], "toppo", "E")
    short = short._replace(runs=[r._replace(budget=50, grid=r.grid[:1], returns=r.returns[:1]) for r in short.runs])
    assert [(i.ours, i.budget, i.probability.value) for i in improvements_of([*groups, short])] == [
        ("toppo", {"E": 50}, pytest.approx(value)) for value in (0.5, 0.3)
    ]


def test_the_test_return_is_that_of_the_study_or_the_last_during_training():
    studied, tested, stopped, untested = (
        run_from_curve(curve(seed=i, **more), f"toppo-E-{i}")
        for i, more in enumerate(
            [
                {"test_returns": [1.0, 3.0], "evaluations": [[100, 9.0]]},
                {"evaluations": [[50, 1.0], [100, 5.0]]},
                {"evaluations": [[50, 7.0]]},  # not at the end
                {},
            ]
        )
    )
    (found,) = groups_of(Loaded([studied, tested, stopped, untested], [], {}))
    assert found.tests().tolist() == [2.0, 5.0]
    assert final_rows([found])[0][-1].text == "3.5"


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


def test_runs_in_progress_are_shown_with_how_far_they_are(tmp_path):
    run_directory(tmp_path / "toppo-Pendulum-v1-0")
    begun = run_directory(tmp_path / "toppo-Pendulum-v1-1", seed=1, episodes=20)
    (begun / "status.json").write_text(json.dumps({"state": "stopped"}))
    run_directory(tmp_path / "toppo-Pendulum-v1-2", seed=2, episodes=0)
    (tmp_path / "study-s.json").write_text(json.dumps({"runs": [f"toppo-Pendulum-v1-{i}" for i in range(4)]}))
    found = load(tmp_path)
    section = sections_of(found, "bootstrap")["unfinished"]
    assert [[cell.text for cell in row] for row in section.rows] == [
        ["toppo-Pendulum-v1-1", "stopped", "500", "1,000", "50%", "21"],
        ["toppo-Pendulum-v1-2", "starting", "0", "1,000", "0%", "-"],
        ["toppo-Pendulum-v1-3", "waiting", "-", "-", "-", "-"],
    ]
    assert "Runs in progress" in render(found, {"unfinished": section}, About("x", "y"))
    assert "1 run: toppo on Pendulum-v1" in render(found, {}, About("x", "y"))
