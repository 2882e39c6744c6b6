"""Runs that are damaged, silent or oddly named: counted as what they are, and named."""

import json

import pytest

from tests.support.curves import curve, curve_of, group, run_directory
from toppo.errors import ToppoError
from toppo.plotting import colours_of, subplots
from toppo.report.compare import groups_of, pairs_of
from toppo.report.curves import SPEC_SCHEMA, run_from_curve
from toppo.report.figures import draw_curves
from toppo.report.load import load
from toppo.report.run_directories import run_from_directory
from toppo.report.tables import final_rows, summary
from toppo.report.text import MAX_NAME, unique_name
from toppo.rundir.jsonl import read_lines, rows_and_gaps
from toppo.runs import spec


def write(folder, **curves):
    folder.mkdir(exist_ok=True)
    for name, data in curves.items():
        (folder / f"{name.replace('_', '-')}.json").write_text(json.dumps(data))
    return folder


def test_a_run_in_which_no_episode_ended_is_left_out_by_name(tmp_path):
    nothing = [None] * 10
    write(tmp_path, toppo_E_0=curve(returns=nothing), toppo_E_1=curve(seed=1, returns=[5.0] * 10))
    write(tmp_path, toppo_F_0=curve(env="F", returns=nothing))
    write(tmp_path, **{f"ppo_{env}_0": curve(algo="ppo", env=env, returns=[3.0] * 10) for env in "EF"})
    loaded = load(tmp_path)
    for env in "EF":
        assert f"toppo on {env}, seed 0: no episode ended, and the run is left out" in loaded.problems
    groups = groups_of(loaded)
    assert [(g.arm, g.env, g.final().tolist()) for g in groups] == [
        ("toppo", "E", [5.0]),
        ("ppo", "E", [3.0]),
        ("ppo", "F", [3.0]),
    ]
    assert summary(groups, pairs_of(groups))[1] == "F: ppo reached 3 (1 run)."


def test_where_no_episode_ended_at_all_the_reason_is_told(tmp_path):
    write(tmp_path, toppo_E_0=curve(returns=[None]))
    with pytest.raises(ToppoError, match="no finished run with a return: toppo on E, seed 0: no episode ended"):
        load(tmp_path)


def test_one_run_without_a_return_does_not_take_its_arm_from_the_figure():
    arm = group([[1.0, 2.0], [None, None]])
    _, axes = subplots(1, 1)
    draw_curves(axes[0, 0], [arm], colours_of(["toppo"]), "bootstrap")
    assert axes[0, 0].get_lines()[0].get_ydata().tolist() == [1.0, 2.0]


def test_garbage_in_a_log_is_passed_over_and_counted(tmp_path):
    root = run_directory(tmp_path / "run")
    log = root / "episodes.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(
        b"".join([*lines[:5], b"\x00\xff garbage\n", *lines[5:], b'{"step": 1000, "return": NaN}\n', b'{"st'])
    )
    run = run_from_directory(root)
    assert run.damage == ("episodes.jsonl has 2 lines that cannot be read",)
    assert run.returns[-1] == 40.0  # and not what was known when the garbage came
    assert load(tmp_path).problems == ["toppo on Pendulum-v1, seed 0: episodes.jsonl has 2 lines that cannot be read"]
    rows = list(rows_and_gaps(log))
    assert rows[4] is None
    assert len(rows) == len(list(read_lines(log))) + 1 == 42


def test_a_log_of_garbage_is_given_up(tmp_path):
    root = run_directory(tmp_path / "run")
    with (root / "metrics.jsonl").open("ab") as file:
        file.write(b"\n" * 5000)
    with pytest.raises(ToppoError, match="more than 1,000 lines that cannot be read"):
        run_from_directory(root)


def test_a_final_return_that_is_carried_forward_is_named(tmp_path):
    root = run_directory(tmp_path / "a")
    log = root / "episodes.jsonl"
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:5]))  # nothing after a tenth
    run_directory(tmp_path / "b", seed=1)
    (told,) = [p for p in load(tmp_path).problems if "last tenth" in p]
    assert told.startswith("toppo on Pendulum-v1, seed 0: no episode ended in the last tenth")


def test_arms_that_differ_only_at_the_end_of_a_long_name_stay_two(tmp_path):
    long = "toppo-" + "a=1-" * 20
    arms = [f"{long}alpha={alpha}" for alpha in (0.1, 0.2)]
    write(tmp_path, **{f"{arm}-E-{seed}": curve(seed=seed) for arm in arms for seed in range(2)})
    found = groups_of(load(tmp_path))
    assert [len(g.runs) for g in found] == [2, 2]
    assert all(len(g.arm) <= MAX_NAME for g in found)
    assert unique_name("a\x00") != unique_name("a\x01")
    assert unique_name("toppo") == "toppo"
    far = "e" * 100  # an environment with a long name hides no arm
    assert run_from_curve(curve(env=far), f"x-{far}-0").arm == "x"


def test_a_directory_that_may_not_be_read_is_named(tmp_path, monkeypatch):
    write(tmp_path, toppo_E_0=curve())
    (tmp_path / "closed").mkdir()
    kind = type(tmp_path)
    is_file = kind.is_file

    def refuse(path):
        if path.parent.name == "closed":
            raise PermissionError(13, "Permission denied")
        return is_file(path)

    monkeypatch.setattr(kind, "is_file", refuse)
    assert "closed is left out: Permission denied" in load(tmp_path).problems


@pytest.mark.parametrize("tests", [[[None, 1.0]], [[50, 1.0], [50, 2.0]], [[100, 1.0], [50, 2.0]]])
def test_tests_at_steps_that_are_none_are_refused(tests):
    with pytest.raises(ValueError, match="not at growing steps"):
        run_from_curve(curve(evaluations=tests), "toppo-E-0")


def test_curves_of_an_older_schema_are_left_out_in_one_sentence(tmp_path):
    assert SPEC_SCHEMA == spec.SCHEMA
    old = curve(seed=1)
    old["spec"]["schema"] = 1
    write(tmp_path, toppo_E_0=curve(), toppo_E_1=old)
    (told,) = load(tmp_path).problems
    reason = "its spec has schema 1, but this version of toppo reads 2: train it again"
    assert told == f"toppo-E-1.json is left out: {reason}"


def test_an_arm_of_fewer_steps_does_not_compete(tmp_path):
    short = curve(algo="ppo", returns=[9.0, 9.0])
    short["spec"]["total_timesteps"] = 50
    short["grid"] = [25, 50]
    write(tmp_path, toppo_E_0=curve(returns=[1.0, 2.0]), ppo_E_0=short)
    groups = groups_of(load(tmp_path))
    (told,) = summary(groups, pairs_of(groups))
    assert "toppo has the highest final return, 2 (1 run)." in told
    assert "This compares arms after 100 steps and leaves out ppo (50 steps)." in told
    assert [row[1].kind for row in final_rows(groups)] == ["best", ""]


def test_only_the_wanted_runs_are_read_and_curves_keep_what_their_run_logged(tmp_path):
    root = run_directory(tmp_path / "runs" / "toppo-Pendulum-v1-0")
    write(tmp_path / "c", **{root.name: curve_of(root), "ppo-E-0": curve(algo="ppo")})
    (tmp_path / "c" / "broken.json").write_text("{")
    loaded = load(tmp_path / "runs", tmp_path / "c", only={"toppo-Pendulum-v1-0", "toppo-Pendulum-v1-1"})
    assert [(r.arm, len(r.grid), r.seconds) for r in loaded.runs] == [("toppo", 2, pytest.approx(10.0))]
    assert loaded.problems == ["missing from the study: 1 run (toppo-Pendulum-v1-1)"]
