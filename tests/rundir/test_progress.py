"""How far a run is: told from its files, also while another process trains it or after it was killed."""

import json
import os
import socket
import subprocess
import sys
import time

import pytest

from toppo.rundir.layout import write_json
from toppo.rundir.lock import exclusive, holder_lives
from toppo.rundir.progress import SILENT_SECONDS, last_row, progress_of, steps_of


def run(root, state="running", rows=("\n",), **more):
    root.mkdir(exist_ok=True)
    write_json(root / "spec.json", {})
    write_json(root / "status.json", {"schema": 1, "state": state, "steps": 0, **more})
    lines = [json.dumps({"schema": 1}), *(json.dumps({"time/total_timesteps": n}) for n in (100, 200)), *rows]
    (root / "timing.jsonl").write_text("\n".join(lines))
    return root


def note(root, pid, host=None):
    (root / ".holder.json").write_text(json.dumps({"pid": pid, "host": host or socket.gethostname()}))


@pytest.fixture(scope="module")
def dead():
    """The pid of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_steps_are_those_of_the_last_whole_line(tmp_path):
    root = run(tmp_path, rows=['{"time/total_timesteps": 300}', '{"time/total_time'])
    assert steps_of(root / "timing.jsonl") == 300
    (root / "timing.jsonl").write_text('{"schema": 1}\n')
    assert steps_of(root / "timing.jsonl") == 0
    assert steps_of(root / "nothing") == 0


def test_the_last_row_of_a_log_is_the_last_whole_one(tmp_path):
    log = tmp_path / "metrics.jsonl"
    rows = [{"iteration": i, "kl": [0.1] * 500} for i in range(20)]  # the end of the file holds few of them
    log.write_text("\n".join(json.dumps(row) for row in ({"schema": 1}, *rows)) + '\n[1]\n{"iteration": 20, "k')
    assert last_row(log) == rows[-1]
    (tmp_path / "link").symlink_to(log)
    assert last_row(tmp_path / "link") == last_row(tmp_path / "nothing") == {}


def test_a_run_is_what_its_status_says(tmp_path):
    for state in ("stopped", "finished"):
        assert progress_of(run(tmp_path, state)) == (state, 200, "")
    assert progress_of(run(tmp_path, "failed", message="it broke")) == ("failed", 200, "it broke")


def test_a_run_whose_process_lives_is_running(tmp_path):
    root = run(tmp_path)
    with exclusive(root / ".lock"):
        assert holder_lives(root / ".lock") is True
        assert progress_of(root).state == "running"
        (root / "status.json").unlink()
        assert progress_of(root).state == "starting"


def test_a_run_whose_process_was_killed_is_interrupted(tmp_path, dead):
    root = run(tmp_path)
    note(root, dead)
    assert holder_lives(root / ".lock") is False
    assert progress_of(root).state == "interrupted"


def test_a_run_on_another_machine_lives_as_long_as_it_logs(tmp_path, dead):
    root = run(tmp_path)
    note(root, dead, "elsewhere")
    assert holder_lives(root / ".lock") is None
    assert progress_of(root).state == "running"
    before = time.time() - SILENT_SECONDS - 60
    for name in ("timing.jsonl", "spec.json"):
        os.utime(root / name, (before, before))
    assert progress_of(root).state == "interrupted"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"pid": null}', '{"pid": -1}', '{"pid": 1e400}', "9" * 2000])
def test_a_note_that_says_nothing_is_no_answer(tmp_path, text):
    (tmp_path / ".holder.json").write_text(text)
    assert holder_lives(tmp_path / ".lock") is None


def test_files_that_lead_elsewhere_are_not_read(tmp_path):
    root = run(tmp_path / "run")
    other = run(tmp_path / "other", "finished")
    for name in ("timing.jsonl", "status.json"):
        (root / name).unlink()
        (root / name).symlink_to(other / name)
    assert progress_of(root)[:2] == ("starting", 0)
    (root / "status.json").unlink()
    (root / "status.json").write_text('{"state": "<b>"}')
    assert progress_of(root).state == "starting"
