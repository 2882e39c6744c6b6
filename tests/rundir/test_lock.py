import os
import subprocess
import sys

import pytest

from toppo.errors import CANNOT_CREATE, ToppoError
from toppo.rundir.lock import exclusive

HOLD = """
import sys
from pathlib import Path
from toppo.rundir.lock import exclusive
with exclusive(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / ".lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout.readline() == b"held\n"
    yield process
    process.kill()
    process.communicate()


def test_a_second_process_is_refused_with_the_pid_of_the_first(tmp_path, holder):
    with pytest.raises(ToppoError, match=f"has a run in progress, pid {holder.pid}") as refusal:
        exclusive(tmp_path / ".lock").__enter__()
    assert refusal.value.code == CANNOT_CREATE == 73
    holder.communicate(b"")
    with exclusive(tmp_path / ".lock"):
        pass


def test_the_lock_of_a_dead_process_is_taken_over(tmp_path, holder):
    holder.kill()
    holder.wait()
    assert (tmp_path / ".lock").exists()
    assert (tmp_path / ".holder.json").exists()
    with exclusive(tmp_path / ".lock"):
        assert str(os.getpid()) in (tmp_path / ".holder.json").read_text()
    assert not (tmp_path / ".holder.json").exists()


@pytest.mark.parametrize("note", [b"", b"[]", b'{"pid": null}', b"\xff"])
def test_a_broken_note_of_the_holder_does_not_matter(tmp_path, holder, note):
    (tmp_path / ".holder.json").write_bytes(note)
    with pytest.raises(ToppoError, match="has a run in progress"):
        exclusive(tmp_path / ".lock").__enter__()


def test_the_lock_is_freed_by_an_error(tmp_path):
    with pytest.raises(RuntimeError), exclusive(tmp_path / ".lock"):
        raise RuntimeError
    with exclusive(tmp_path / ".lock"):
        pass
