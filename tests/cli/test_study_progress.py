"""What a person sees of a study."""

import io

from tests.support.small_study import study_file
from toppo.cli.study_progress import StudyDisplay
from toppo.display.console import Terminal
from toppo.rundir.jsonl import JsonLines
from toppo.studies.folder import Folder
from toppo.studies.run_jobs import StudyStatus
from toppo.studies.study import jobs_of, read_study


def test_the_table_shows_progress_speed_and_time_left(tmp_path, monkeypatch):
    jobs = jobs_of(read_study(study_file(tmp_path, 1000)))
    folder = Folder(tmp_path, tmp_path / "curves")
    folder.run(jobs[0]).mkdir()
    log = JsonLines(folder.run(jobs[0]) / "timing.jsonl")
    now = [100.0]
    monkeypatch.setattr("toppo.cli.study_progress.time.monotonic", lambda: now[0])
    console = Terminal(file=io.StringIO(), width=120)
    display = StudyDisplay("small", folder, console, None)
    status = StudyStatus(jobs=jobs, finished=[], running=jobs[:1], faults={}, event="2 runs")
    display(status)
    assert folder.steps(jobs[0]) == 0
    log.append({"time/total_timesteps": 250})
    log._file.write(b'{"time/total_times')  # it is being written at this moment
    log._file.flush()
    assert folder.steps(jobs[0]) == 250
    now[0] += 50
    steps = {jobs[0].name: 250}
    console.print(display._table(status, steps, now[0]))
    console.print(display._total(status, steps, now[0]))
    shown = console.file.getvalue()
    assert "[0:00] 0/2  2 runs" in shown
    # 250 steps in 50 s: 750 are left of this run, 1750 of the study.
    for words in ("toppo-Pendulum-v1-0", "250 / 1,000", "2:30", "0 finished, 1 running, 1 waiting; 5:50 left"):
        assert words in shown


def test_time_left_is_told_by_the_steps_that_were_done(tmp_path, monkeypatch):
    jobs = jobs_of(read_study(study_file(tmp_path, 1000)))
    folder = Folder(tmp_path, tmp_path / "curves")
    folder.run(jobs[0]).mkdir()
    now = [0.0]
    monkeypatch.setattr("toppo.cli.study_progress.time.monotonic", lambda: now[0])
    display = StudyDisplay("small", folder, Terminal(file=io.StringIO(), width=120), None)
    display(StudyStatus(jobs, [], jobs[:1], {}, ""))
    JsonLines(folder.run(jobs[0]) / "timing.jsonl").append({"time/total_timesteps": 100})
    now[0] = 10.0
    failed = StudyStatus(jobs, [], [], {jobs[0].name: "it failed"}, "")
    display(failed)
    # 100 steps in 10 s, and 1000 to do.
    assert "1:40 left" in display._total(failed, {}, now[0])


def test_a_study_goes_on_when_its_terminal_has_gone(tmp_path, monkeypatch):
    jobs = jobs_of(read_study(study_file(tmp_path, 1000)))
    folder = Folder(tmp_path, tmp_path / "curves")
    muted = []
    monkeypatch.setattr("toppo.display.console.mute", lambda: muted.append(True))

    class Gone(io.StringIO):
        def write(self, text):
            raise OSError(5, "Input/output error")

    StudyDisplay("small", folder, Terminal(file=Gone()), None)(StudyStatus(jobs, [], [], {}, "2 runs"))
    assert muted == [True]
