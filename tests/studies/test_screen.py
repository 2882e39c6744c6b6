"""What a person sees of a study."""

import io

from rich.console import Console

from tests.studies.small import study_file
from toppo.rundir.log import JsonLines
from toppo.studies.conduct import Standing
from toppo.studies.folder import Folder
from toppo.studies.screen import StudyScreen
from toppo.studies.study import jobs_of, read_study


def test_the_table_shows_progress_speed_and_time_left(tmp_path, monkeypatch):
    jobs, folder = jobs_of(read_study(study_file(tmp_path, 1000))), Folder(tmp_path, tmp_path / "curves")
    folder.run(jobs[0]).mkdir()
    log = JsonLines(folder.run(jobs[0]) / "timing.jsonl")
    now = [100.0]
    monkeypatch.setattr("toppo.studies.screen.time.monotonic", lambda: now[0])
    console = Console(file=io.StringIO(), width=120)
    screen, standing = StudyScreen("small", folder, console), Standing(jobs, [], jobs[:1], {}, "2 runs")
    screen(standing)
    assert folder.steps(jobs[0]) == 0
    log.append({"time/total_timesteps": 250})
    log._file.write(b'{"time/total_times')  # it is being written at this moment
    log._file.flush()
    assert folder.steps(jobs[0]) == 250
    now[0] += 50
    steps = {jobs[0].name: 250}
    console.print(screen._table(standing, steps, now[0]))
    console.print(screen._total(standing, steps, now[0]))
    shown = console.file.getvalue()
    assert "[0:00:00] 0/2  2 runs" in shown
    # 250 steps in 50 s: 750 are left of this run, 1750 of the study.
    for words in ("toppo-Pendulum-v1-0", "250 / 1,000", "0:02:30", "0 finished, 1 running, 1 waiting; 0:05:50 left"):
        assert words in shown
