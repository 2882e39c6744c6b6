import json
from itertools import pairwise

import numpy as np
import pytest

from tests.support.curves import curve, curve_of, group, run_directory
from toppo.errors import BAD_DATA, NO_INPUT, ToppoError
from toppo.plotting import colours_of, subplots
from toppo.report.arms import arm_of
from toppo.report.compare import fill_gaps, groups_of, pairs_of, scores_of, verdict
from toppo.report.figures import curves_figure, draw_curves
from toppo.report.load import load
from toppo.report.run_directories import run_from_directory
from toppo.rundir.layout import write_json


def test_a_run_is_what_it_logged(tmp_path):
    root = run_directory(tmp_path / "run", seed=3)
    with (root / "episodes.jsonl").open("ab") as file:
        file.write(b'{"step": 9999, "re')  # it is being written at this moment
    run = run_from_directory(root)
    assert run[:5] == ("toppo", "toppo", "Pendulum-v1", 3, 1000)
    assert run.grid.tolist() == list(range(10, 1001, 10))
    for value, (low, high) in zip(run.returns, pairwise([0, *run.grid]), strict=True):
        inside = [i + 3 for i in range(1, 41) if low < i * 25 <= high]
        assert value == pytest.approx(sum(inside) / len(inside)) if inside else np.isnan(value)
    assert run.seconds == pytest.approx(0.25 * 1000 / 25)
    assert run.versions == {"jax": "1"}


def test_a_run_that_is_not_finished_has_no_tail_of_gaps_and_is_named(tmp_path):
    run_directory(tmp_path / "a", episodes=20)
    assert run_from_directory(tmp_path / "a").grid[-1] == 500
    with pytest.raises(ToppoError, match="holds no finished run"):
        load(tmp_path)
    run_directory(tmp_path / "b", seed=1)
    loaded = load(tmp_path)
    assert [r.seed for r in loaded.runs] == [1]
    assert "not finished and left out: 1 run (toppo on Pendulum-v1, seed 0)" in loaded.problems


def test_a_run_that_a_callback_stopped_is_finished_and_says_so(tmp_path):
    for seed, episodes in enumerate((20, 40)):
        run_directory(tmp_path / f"run{seed}", seed=seed, episodes=episodes)
    status = {"schema": 1, "state": "stopped", "steps": 500, "exact": True, "message": "stopped by StopOnReturn(475)"}
    write_json(tmp_path / "run0" / "status.json", status)
    loaded = load(tmp_path)
    assert [(r.arm, r.budget, r.grid[-1], len(r.grid)) for r in loaded.runs] == [
        ("toppo", 500, 500, 100),
        ("toppo", 1000, 1000, 100),
    ]
    assert not loaded.unfinished
    early = "toppo on Pendulum-v1, seed 0: stopped early by StopOnReturn(475), after 500 of 1,000 steps"
    assert early in loaded.problems
    write_json(tmp_path / "run0" / "status.json", {**status, "message": ""})  # by Ctrl-C
    assert [u.name for u in load(tmp_path).unfinished] == ["run0"]


def test_a_run_without_logs(tmp_path):
    root = run_directory(tmp_path / "run", episodes=0)
    assert len(run_from_directory(root).grid) == 0
    (root / "episodes.jsonl").unlink()
    with pytest.raises(ToppoError, match=r"has no episodes.jsonl") as refusal:
        run_from_directory(root)
    assert refusal.value.code == NO_INPUT


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("versions", [1]),
        ("spec", [1]),
        ("spec", {"total_timesteps": "x"}),
        ("spec", {"algo": 1, "env": 2, "seed": "x", "total_timesteps": 9}),
    ],
)
def test_a_run_directory_with_other_data_is_one_sentence(tmp_path, name, data):
    root = run_directory(tmp_path / "run")
    write_json(root / f"{name}.json", data)
    with pytest.raises(ToppoError, match="is not a run that can be read") as refusal:
        run_from_directory(root)
    assert refusal.value.code == BAD_DATA


@pytest.mark.parametrize(("runs", "lines", "bands"), [(2, 3, 0), (4, 5, 0), (5, 2, 1), (1, 1, 0)])
def test_below_five_runs_the_runs_are_drawn_and_no_interval(runs, lines, bands):
    _, axes = subplots(1, 1)
    found = group([[float(s), float(s * s)] for s in range(runs)])
    draw_curves(axes[0, 0], [found], colours_of(["toppo"]), "bootstrap")
    drawn = axes[0, 0].get_lines()
    assert (len(drawn), len(axes[0, 0].collections)) == (lines, bands)
    np.testing.assert_allclose(drawn[0].get_ydata(), np.mean([[s, s * s] for s in range(runs)], axis=0))
    assert drawn[0].get_label() == "toppo"


def test_runs_of_different_lengths_are_drawn_as_far_as_all_have_come():
    long, short = group([[0.0, 10.0, 20.0, 30.0]]), group([[4.0, 6.0]])
    run = short.runs[0]._replace(grid=np.array([5.0, 15.0]))
    empty = run._replace(grid=np.zeros(0), returns=np.zeros(0))
    _, axes = subplots(1, 1)
    draw_curves(axes[0, 0], [long._replace(runs=[*long.runs, run, empty])], colours_of(["toppo"]), "bootstrap")
    mean = axes[0, 0].get_lines()[0]
    expected = [np.interp(x, long.runs[0].grid, [0.0, 10.0, 20.0, 30.0]) for x in (5.0, 15.0)]
    np.testing.assert_allclose(mean.get_xdata(), [5.0, 15.0])
    np.testing.assert_allclose(mean.get_ydata(), [(expected[0] + 4) / 2, (expected[1] + 6) / 2])


def test_the_legend_counts_the_runs_that_are_drawn():
    three, one = group([[1.0, 2.0]] * 3), group([[1.0, 2.0]], env="Hopper-v5")
    empty = one.runs[0]._replace(grid=np.zeros(0), returns=np.zeros(0))
    other = group([[1.0, 2.0]], arm="ppo")
    sheet = curves_figure([three, other, one._replace(runs=[*one.runs, empty])])
    assert [text.get_text() for text in sheet.legends[0].get_texts()] == ["toppo (1 to 3 runs)", "ppo (1 run)"]


def test_the_papers_shading_is_one_standard_deviation():
    _, axes = subplots(1, 1)
    draw_curves(axes[0, 0], [group([[1.0, 2.0], [3.0, 6.0]])], colours_of(["toppo"]), "std")
    (shade,) = axes[0, 0].collections
    heights = sorted(shade.get_paths()[0].vertices[:, 1].tolist())
    assert heights[0] == pytest.approx(1.0)
    assert heights[-1] == pytest.approx(6.0)


def test_final_return_and_area_by_hand():
    found = group([[1.0, None, 5.0, *[7.0] * 7], [0.0] * 9 + [10.0]])
    assert found.final().tolist() == [7.0, 10.0]
    assert found.area() == pytest.approx([(1 + 1 + 5 + 7 * 7) / 10, 1.0])
    assert found.final(20).tolist() == [1.0, 0.0]  # the gap takes the value before it
    assert fill_gaps(np.array([np.nan, 1.0, np.nan])).tolist()[1:] == [1.0, 1.0]


def test_pairs_share_the_smaller_budget_and_say_how_sure_they_are():
    ours, theirs = group([[1.0, s] for s in range(5)]), group([[2.0, s + 10.0] for s in range(5)], "ppo")
    (pair,) = pairs_of([ours, theirs])
    assert pair.final.value == pytest.approx(-10)
    assert verdict(pair) == "lower"
    assert verdict(pairs_of([theirs, ours])[0]) == "higher"
    nothing = theirs._replace(runs=[r._replace(returns=np.full(2, np.nan)) for r in theirs.runs])
    assert verdict(pairs_of([ours, nothing])[0]) == "open: a run has no return"
    assert verdict(pairs_of([ours, ours._replace(arm="x")])[0]) == "no clear difference"
    assert verdict(pairs_of([ours, theirs._replace(runs=theirs.runs[:3])])[0]) == "open: 3 runs, an interval needs 5"
    short = theirs._replace(runs=[r._replace(budget=50, grid=r.grid[:1], returns=r.returns[:1]) for r in theirs.runs])
    for pair in pairs_of([ours, short]) + pairs_of([short, ours]):
        assert pair.budget == 50
        assert abs(pair.final.value) == abs(pair.area.value) == 1  # 1 and 2, the returns of the first 50 steps


def test_scores_have_a_random_policy_at_0_and_ppo_at_1():
    groups = [group([[5.0], [7.0]]), group([[2.0], [4.0]], "ppo"), group([[1.0]], "trpo", "F")]
    scores = scores_of(groups, {"E": 1.0, "F": 0.0})
    assert scores.zero == {"E": 1.0}
    assert scores.one == {"E": 3.0}
    assert {a: [x.tolist() for x in s] for a, s in scores.arms.items()} == {"toppo": [[2.0, 3.0]], "ppo": [[0.5, 1.5]]}
    assert scores.left_out == {"F": "where there is no ppo"}
    nothing = scores_of(groups, {})
    assert not nothing.arms
    assert nothing.left_out == {"E": "where no random policy was measured", "F": "where there is no ppo"}
    others = [*groups, group([[1.0]], "ppo", "F"), group([[1.0]], "ppo", "G")]
    assert scores_of(others, {"E": 1.0, "F": 2.0}).left_out == {
        "F": "where ppo is not above the random policy",
        "G": "where no random policy was measured",
    }


def test_arms_are_read_from_the_names_that_studies_give():
    assert arm_of("toppo-alpha=0-Hopper-v5-3", "toppo", "Hopper-v5", 3) == "toppo-alpha=0"
    assert arm_of("toppo-ALE-Pong-v5-0", "toppo", "ALE/Pong-v5", 0) == "toppo"
    assert arm_of("cheetah", "toppo", "Hopper-v5", 3) == "toppo"


def test_reading_a_run_needs_only_its_files(tmp_path):
    root = run_directory(tmp_path / "run")
    spec = json.loads((root / "spec.json").read_text())
    (root / "spec.json").write_text(json.dumps({**spec, "env": "Unheard-of-v7"}))
    assert run_from_directory(root).env == "Unheard-of-v7"


def test_a_curve_beside_its_run_directory_keeps_the_run_times(tmp_path):
    root = run_directory(tmp_path / "toppo-Pendulum-v1-0")
    (tmp_path / "curves").mkdir()
    data = curve_of(root, test_returns=[4.0])
    (tmp_path / "curves" / "toppo-Pendulum-v1-0.json").write_text(json.dumps(data))
    (run,) = load(tmp_path).runs
    assert run.tests == [4.0]
    assert run.seconds == pytest.approx(10.0)


def test_data_that_do_not_fit_together_are_named(tmp_path):
    for name, data in {
        "toppo-E-0": curve(),
        "toppo-E-1": curve(seed=1),
        "ppo-E-0": curve(algo="ppo") | {"versions": {"jax": "2"}},
        "oddly-named": curve(seed=1),
    }.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(data))
    (tmp_path / "study-s.json").write_text(json.dumps({"runs": ["toppo-E-0", "toppo-E-7"]}))
    problems = load(tmp_path).problems
    assert "missing from the study: 1 run (toppo-E-7)" in problems
    assert "E: unequal numbers of runs (ppo 1, toppo 3)" in problems
    assert "E: toppo has one seed more than once" in problems
    assert "the runs used different versions of jax: 1, 2" in problems
    assert [g.arm for g in groups_of(load(tmp_path))] == ["toppo", "ppo"]
