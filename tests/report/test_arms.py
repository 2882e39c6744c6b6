"""Runs of different settings are never averaged: to which arm a run belongs, and what the arm is called."""

import json
from itertools import pairwise

import pytest

from tests.support.curves import curve, curve_of, run_directory
from tests.support.settings import tiny
from toppo.report.arms import Member, arm_of, natural, told_apart
from toppo.report.compare import groups_of
from toppo.report.load import load, read_all
from toppo.runs.spec import SCHEMA, default_settings, from_json, to_json
from toppo.studies.study import Arm, Grid, Study, jobs_of
from toppo.studies.study import to_json as study_to_json


def member(arm="ppo", env="E", algo="ppo", **settings):
    return Member(arm, algo, env, settings)


def arms_in(folder, **options):
    return [(g.env, g.arm, len(g.runs)) for g in groups_of(load(folder, **options))]


def test_runs_are_named_by_the_settings_that_differ():
    runs = [member(learning_rate=rate, gamma=0.9) for rate in (0.001, 0.0003, 0.001)]
    assert told_apart(runs) == [f"ppo, learning_rate={rate}" for rate in (0.001, 0.0003, 0.001)]
    assert told_apart(runs[::2]) == ["ppo", "ppo"]
    assert told_apart([]) == []


def test_what_differs_from_task_to_task_is_no_difference_but_an_arm_has_one_name_on_all_tasks():
    presets = [member(env="E", n_envs=1), member(env="F", n_envs=8)]
    assert told_apart(presets) == ["ppo", "ppo"]
    swept = [member(env=env, n_envs=n, gamma=g) for env, n in (("E", 1), ("F", 8)) for g in (0.9, 0.99)][:3]
    assert told_apart(swept) == ["ppo, gamma=0.9", "ppo, gamma=0.99", "ppo, gamma=0.9"]


def test_a_name_that_a_study_gave_is_kept_and_split_only_if_its_runs_differ():
    named = [member("wide", hidden="[64]"), member("narrow", hidden="[8]"), member("narrow", hidden="[16]")]
    assert told_apart(named) == ["wide", "narrow, hidden=[8]", "narrow, hidden=[16]"]
    assert told_apart([member("x"), member("x", algo="toppo")]) == ["x, algo=ppo", "x, algo=toppo"]


def test_a_setting_that_an_old_run_lacks_has_its_default():
    runs = [member(gamma=0.9), member(gamma=0.9, activation="tanh"), member(gamma=0.9, activation="relu")]
    asked = []

    def defaults(algo):
        asked.append(algo)
        return {"activation": "tanh", "gamma": 0.5}

    assert told_apart(runs, defaults) == ["ppo, activation=tanh", "ppo, activation=tanh", "ppo, activation=relu"]
    assert told_apart(runs[:2], defaults) == ["ppo", "ppo"]
    assert told_apart(runs[:2]) == ["ppo, activation=unset", "ppo, activation=tanh"]
    asked.clear()
    assert told_apart(runs[1:], defaults) == ["ppo, activation=tanh", "ppo, activation=relu"]
    assert asked == []  # nothing is missing: the settings of the code are not needed


def test_the_defaults_are_those_of_a_spec_that_states_nothing():
    nothing = {"env": "E", "algo": "toppo", "seed": 0, "total_timesteps": 1, "common": {}, "config": {}}
    spec = to_json(from_json({"schema": SCHEMA, **nothing}))
    assert default_settings("toppo") == spec["common"] | spec["config"] | {"env_kwargs": spec["env_kwargs"]}
    assert default_settings("sac") == {}


def test_a_run_from_before_a_setting_existed_belongs_to_the_same_arm(tmp_path):
    for seed, more in enumerate([{}, {"env_kwargs": {}}]):
        data = curve(seed=seed)
        data["spec"] |= more
        (tmp_path / f"{seed}.json").write_text(json.dumps(data))
    assert [(arm, runs) for _, arm, runs in arms_in(tmp_path, defaults=default_settings)] == [("toppo", 2)]


def test_arms_are_spelt_as_the_study_spells_them():
    assert arm_of("my-arm-E-0", "ppo", "E", 0, ["my arm"]) == "my arm"
    assert arm_of("my-arm-E-0", "ppo", "E", 0, ["other"]) == "my-arm"
    assert arm_of("cheetah", "ppo", "E", 0, ["my arm"]) == "ppo"


def test_numbers_in_names_are_sorted_by_their_value():
    names = ["a, lr=1e-05", "a, lr=0.0003", "a, lr=0.001", "a, n=9", "a, n=10", "b"]
    assert sorted(sorted(names), key=natural) == names
    assert all(natural(a) < natural(b) for a, b in pairwise(names))


def test_a_directory_of_runs_with_different_settings_is_not_averaged(tmp_path):
    for i, (rate, seed) in enumerate([(0.001, 0), (0.001, 1), (0.01, 0)]):
        root = run_directory(tmp_path / f"run{i}", "ppo", seed=seed)
        spec = json.loads((root / "spec.json").read_text())
        (root / "spec.json").write_text(json.dumps(spec | {"common": {"learning_rate": rate, "gamma": 0.9}}))
    found = [("Pendulum-v1", "ppo, learning_rate=0.001", 2), ("Pendulum-v1", "ppo, learning_rate=0.01", 1)]
    assert arms_in(tmp_path) == found
    run_directory(tmp_path / "other", "ppo", seed=3)  # it states none: the default is 0.0003
    assert ("Pendulum-v1", "ppo, gamma=0.995, learning_rate=0.0003", 1) in arms_in(tmp_path, defaults=default_settings)


@pytest.mark.parametrize("change", [{"env_kwargs": {"g": 9.8}}, {"total_timesteps": 50}])
def test_every_difference_of_two_specs_but_the_seed_is_told(tmp_path, change):
    for seed, more in enumerate([{}, change]):
        data = curve(seed=seed)
        data["spec"] |= more
        data["grid"] = [data["spec"]["total_timesteps"] // 2, data["spec"]["total_timesteps"]]
        (tmp_path / f"{seed}.json").write_text(json.dumps(data))
    (name,) = change
    assert sorted(arm.split("=")[0] for _, arm, _ in arms_in(tmp_path)) == [f"toppo, {name}"] * 2


def test_a_study_names_its_arms_in_its_directory_and_beside_its_curves(tmp_path):
    arms = (Arm.of("ppo"), Arm.of("ppo", "ppo (wide)", hidden=(99,)))
    small = Study("s", "", (Grid(arms=arms, envs=("Pendulum-v1",), total_timesteps=1000, seeds=2),))
    runs = [job.name for job in jobs_of(small)]
    (tmp_path / "curves").mkdir()
    (tmp_path / "curves" / "study-s.json").write_text(json.dumps(study_to_json(small) | {"runs": runs}))
    for job in jobs_of(small):
        root = run_directory(tmp_path / job.name, "ppo", seed=job.spec.seed)
        (root / "spec.json").write_text(json.dumps(to_json(job.spec)))
        (tmp_path / "curves" / f"{job.name}.json").write_text(json.dumps(curve_of(root)))
    found = [("Pendulum-v1", "ppo", 2), ("Pendulum-v1", "ppo (wide)", 2)]
    assert arms_in(tmp_path) == arms_in(tmp_path / "curves") == found


def test_two_runs_of_one_name_in_two_directories_stay_two(tmp_path):
    for seed, folder in enumerate("ab"):
        run_directory(tmp_path / folder / "run", seed=seed)
    found = read_all(tmp_path / "a" / "run", tmp_path / "b", tmp_path / "a" / ".." / "a" / "run")
    assert sorted(r.seed for r in found.runs) == [0, 1]


def test_a_curve_of_another_spec_does_not_replace_the_run_of_its_name(tmp_path):
    root = run_directory(tmp_path / "toppo-Pendulum-v1-0")
    data = curve_of(root)
    data["spec"] |= {"common": tiny()}
    (tmp_path / f"{root.name}.json").write_text(json.dumps(data))
    assert len(groups_of(load(tmp_path))) == 2
