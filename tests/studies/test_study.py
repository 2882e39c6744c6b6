"""What a study is."""

import json
from pathlib import Path

import pytest

from toppo.errors import BAD_DATA, ToppoError
from toppo.runs.run import RunOptions
from toppo.runs.spec import from_json
from toppo.studies.folder import Folder
from toppo.studies.paper import PAPER, QUICK, paper_study
from toppo.studies.study import Arm, Grid, Study, jobs_of, read_study, to_json, with_seeds

CURVES = Path(__file__).parent.parent.parent / "docs" / "results" / "learning"


def study_file(folder: Path, **changes) -> Path:
    grid = {
        "arms": [{"algo": "ppo", "settings": {"hidden": [8, 8]}}],
        "envs": ["Pendulum-v1"],
        "total_timesteps": 9,
        "seeds": 2,
    }
    path = folder / "mine.json"
    path.write_text(json.dumps({"schema": 2, "grids": [grid | changes]}))
    return path


def test_a_study_is_every_combination_seed_by_seed():
    arms = (Arm.of("ppo"), Arm.of("toppo", alpha=0.1))
    jobs = jobs_of(Study("s", "", (Grid(arms, ("Pendulum-v1", "CartPole-v1"), 500, 2),)))
    assert [j.name for j in jobs] == [
        f"{arm}-{env}-{seed}"
        for seed in (0, 1)
        for env in ("Pendulum-v1", "CartPole-v1")
        for arm in ("ppo", "toppo-alpha=0.1")
    ]
    assert {j.spec.total_timesteps for j in jobs} == {500}
    assert [j.spec.config.alpha for j in jobs if j.arm != "ppo"] == [0.1] * 4


@pytest.mark.parametrize("name", PAPER)
def test_the_papers_studies_stand_for_runs_and_survive_their_json(name, tmp_path):
    study = paper_study(name)
    (tmp_path / f"{name}.json").write_text(json.dumps(to_json(study)))
    again = read_study(tmp_path / f"{name}.json")
    assert jobs_of(again) == jobs_of(study)
    assert jobs_of(with_seeds(again, 1))


def test_the_budgets_of_the_paper():
    paper = {name: study for name, study in PAPER.items() if not name.startswith("proof")}
    sizes = {name: (len(jobs_of(s)), {g.total_timesteps for g in s.grids}) for name, s in paper.items()}
    assert sizes["performance"] == (7 * 7 * 10, {1_000_000})
    assert sizes["atari"] == (15 * 2 * 3, {25_000_000})
    assert sizes["selection"] == (2 * 4 * 10, {1_000_000})
    assert sizes["alpha-n"] == (3 * 12 * 10, {1_000_000})
    assert sizes["labels"] == (3 * 6 * 10, {1_000_000})
    assert sizes["std-and-stop"] == (3 * 12 * 10, {1_000_000})
    assert set(QUICK) == set(sizes)


def test_the_verdicts_need_the_first_runs_of_the_main_study_only():
    jobs = jobs_of(paper_study("performance"))
    assert {j.arm for j in jobs[: 3 * 7 * 10]} == {"toppo", "ppo", "geppo"}
    assert [j.spec.seed for j in jobs[: 3 * 7]] == [0] * 21
    others = jobs[3 * 7 * 10 :]
    assert {j.spec.seed for j in others[: 4 * 7 * 5]} == set(range(5))


def test_committed_curves_count_as_finished(tmp_path):
    """The curves' files keep the names and the specs that two studies, which share them, give their runs."""
    folder = Folder(tmp_path, CURVES)
    proof = {job.name: job for job in jobs_of(paper_study("proof"))}
    assert len(proof) == 75 + 15 + 60
    jobs = {job.name: job for job in jobs_of(paper_study("performance"))} | proof
    found = {name for name, job in jobs.items() if folder.finished(job)}
    curves = {p.stem for p in CURVES.glob("*.json") if "grid" in json.loads(p.read_text())}
    assert found == curves
    assert set(proof) <= found


def test_curves_of_equal_runs_in_other_studies_are_adopted(tmp_path):
    """The main study and the study of labels have two arms in common; the rest is other runs, or no curve at all."""
    jobs = jobs_of(with_seeds(paper_study("labels"), 3))
    folder = Folder(tmp_path, tmp_path / "curves")
    folder.curves.mkdir()
    (tmp_path / "broken.json").write_text("{")
    assert folder.adopt(jobs, tmp_path) == 0
    assert folder.adopt(jobs, CURVES.parent) == 2 * 3 * 3
    assert {job.arm for job in jobs if folder.finished(job)} == {"geppo", "toppo"}
    name = "geppo-Hopper-v5-1.json"
    assert (folder.curves / name).read_bytes() == (CURVES / name).read_bytes()
    assert folder.adopt(jobs, CURVES.parent) == 0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seeds": "2"}, "seeds is '2'"),
        ({"seeds": 0}, "seeds is 0, but must be at least 1"),
        ({"envs": "Pendulum-v1"}, "envs is 'Pendulum-v1', but must be a list"),
        ({"envs": []}, "envs is empty"),
        ({"arms": 3}, "arms is 3, but must be a list"),
        ({"what": 1}, "what is not one of"),
        ({"arms": [{"settings": {}}]}, "'algo' is missing"),
        ({"seeds": 10**9}, "more than 100,000 runs"),
    ],
)
def test_a_file_that_is_not_a_study_is_one_sentence(tmp_path, changes, words):
    with pytest.raises(ToppoError, match=words) as refusal:
        read_study(study_file(tmp_path, **changes))
    assert refusal.value.code == BAD_DATA


@pytest.mark.parametrize("settings", [{"alpah": 1.0}, {"alpha": "x"}, {"env": "y"}])
def test_settings_that_do_not_exist_are_named(tmp_path, settings):
    path = study_file(tmp_path, arms=[{"algo": "toppo", "settings": settings}])
    with pytest.raises(ToppoError, match=next(iter(settings))):
        jobs_of(read_study(path))


def test_two_runs_of_one_name_are_refused():
    grids = [Grid((Arm.of("ppo"),), ("Pendulum-v1",), steps, 1) for steps in (10, 20)]
    with pytest.raises(ToppoError, match="two different runs of s are called ppo-Pendulum-v1-0"):
        jobs_of(Study("s", "", tuple(grids)))
    assert len(jobs_of(Study("s", "", (grids[0], grids[0])))) == 1


@pytest.mark.parametrize("where", ["curve", "run"])
def test_files_of_another_spec_are_never_overwritten(tmp_path, where):
    job = jobs_of(read_study(study_file(tmp_path)))[0]
    other = jobs_of(read_study(study_file(tmp_path, total_timesteps=10)))[0]
    folder = Folder(tmp_path, tmp_path / "curves")
    assert not folder.finished(job)
    data = folder.job_data(other, RunOptions(0))
    assert from_json(data["spec"]) == other.spec
    path = folder.curve(job) if where == "curve" else folder.run(job) / "spec.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"spec": data["spec"]} if where == "curve" else data["spec"]))
    with pytest.raises(ToppoError, match="total_timesteps is 10, not 9"):
        folder.finished(job)


def test_names_cannot_leave_the_folder():
    arms = (Arm.of("ppo", "../../evil"), Arm.of("ppo", "/etc/passwd"), Arm.of("ppo", "..\x00\n<b>"))
    for job in jobs_of(Study("s", "", (Grid(arms, ("Pendulum-v1",), 10, 1),))):
        path = Folder(Path("out"), Path("out")).run(job)
        assert len(path.parts) == 2
        assert ".." not in path.parts
