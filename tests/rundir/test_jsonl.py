import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toppo.errors import ToppoError
from toppo.rundir.jsonl import JsonLines, LogTail, read_lines
from toppo.rundir.layout import read_json, write_json

ROWS = [{"step": i, "return": i / 7} for i in range(5)]


def written(path, rows=ROWS):
    log = JsonLines(path)
    offsets = []
    for row in rows:
        log.append(row)
        offsets.append(log.offset())
    log.close()
    return offsets


def test_rows_come_back_without_the_header(tmp_path):
    path = tmp_path / "a.jsonl"
    offsets = written(path)
    assert list(read_lines(path)) == ROWS
    assert json.loads(path.read_bytes().splitlines()[0]) == {"schema": 1}
    assert offsets[-1] == path.stat().st_size


@pytest.mark.parametrize("keep", range(5))
def test_a_log_cut_back_to_an_offset_continues_to_the_same_bytes(tmp_path, keep):
    path = tmp_path / "a.jsonl"
    offsets = written(path)
    whole = path.read_bytes()
    log = JsonLines(path, offsets[keep])
    for row in ROWS[keep + 1 :]:
        log.append(row)
    log.close()
    assert path.read_bytes() == whole


def test_a_torn_line_after_the_offset_disappears(tmp_path):
    path = tmp_path / "a.jsonl"
    offset = written(path)[-1]
    with path.open("ab") as file:
        file.write(b'{"step": 99, "ret')
    log = JsonLines(path, offset)
    log.append({"step": 5})
    log.close()
    assert list(read_lines(path)) == [*ROWS, {"step": 5}]


@given(st.integers(0, 400))
def test_a_torn_tail_is_dropped_by_readers(tmp_path_factory, size):
    path = tmp_path_factory.mktemp("log") / "a.jsonl"
    written(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:size])
    complete = whole[:size].count(b"\n")
    found = list(read_lines(path))
    assert found[: max(0, complete - 1)] == ROWS[: max(0, complete - 1)]
    assert len(found) <= max(0, complete - 1) + (size in (len(line) for line in prefixes(whole)))


def prefixes(whole):
    """Beginnings of the file that lack nothing but a line's end."""
    position = -1
    while (position := whole.find(b"\n", position + 1)) >= 0:
        yield whole[:position]


def test_a_log_that_lost_more_than_the_checkpoint_knows_is_refused(tmp_path):
    path = tmp_path / "a.jsonl"
    offset = written(path)[-1]
    path.write_bytes(path.read_bytes()[:10])
    with pytest.raises(ToppoError, match="10 bytes"):
        JsonLines(path, offset)
    assert path.stat().st_size == 10  # nothing was filled up with zeros
    with pytest.raises(ToppoError):
        JsonLines(tmp_path / "gone.jsonl", 50)
    assert not (tmp_path / "gone.jsonl").exists()


def test_a_value_that_is_not_json_is_refused_and_leaves_no_torn_line(tmp_path):
    path = tmp_path / "a.jsonl"
    log = JsonLines(path)
    with pytest.raises(ValueError):
        log.append({"x": float("nan")})
    log.append({"x": 1})
    log.close()
    assert list(read_lines(path)) == [{"x": 1}]


def test_small_files_are_replaced_at_once(tmp_path):
    path = tmp_path / "status.json"
    write_json(path, {"a": 1})
    with pytest.raises(ValueError):
        write_json(path, {"a": float("inf")})
    assert read_json(path) == {"a": 1}
    with pytest.raises(TypeError):
        write_json(path, {"a": object()})
    assert read_json(path) == {"a": 1}


def test_an_offset_is_one_that_is_on_the_disk(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")))
    log = JsonLines(tmp_path / "a.jsonl")
    assert not synced
    log.offset()
    log.close()
    assert synced == [str(tmp_path / "a.jsonl")]


def test_reading_what_is_not_there_or_not_json_is_one_sentence(tmp_path):
    with pytest.raises(ToppoError, match="does not exist: is this a run directory"):
        read_json(tmp_path / "spec.json")
    for text in (b"{", b"\x00" * 8, b"[" * 100_000):
        (tmp_path / "spec.json").write_bytes(text)
        with pytest.raises(ToppoError, match="is not valid JSON"):
            read_json(tmp_path / "spec.json")


def test_a_tail_gives_every_row_once_and_leaves_a_torn_one_for_later(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"schema":1}\n{"step":1}\nnothing\n[2]\n{"st')
    tail = LogTail(path)
    assert tail.read() == ([{"schema": 1}, {"step": 1}], False)
    assert tail.read() == ([], False)
    with path.open("a") as file:
        file.write('ep":2}\n')
    assert tail.read() == ([{"step": 2}], False)


@pytest.mark.parametrize("keep", range(1, 5))
def test_a_tail_of_a_log_that_was_cut_back_begins_again(tmp_path, keep):
    path = tmp_path / "a.jsonl"
    offsets = written(path)
    tail = LogTail(path)
    tail.read()
    log = JsonLines(path, offsets[keep - 1])
    for i in range(9):  # it is longer than before by the time that the tail looks
        log.append({"step": 100 + i})
    log.close()
    rows, cut_back = tail.read()
    assert cut_back
    assert rows == [{"schema": 1}, *ROWS[:keep], *({"step": 100 + i} for i in range(9))]


def test_a_tail_reads_a_large_log_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr("toppo.rundir.jsonl.MAX_BYTES_PER_LOOK", 30)
    path = tmp_path / "a.jsonl"
    written(path)
    tail = LogTail(path)
    looks = [tail.read()[0] for _ in range(6)]
    assert [row for rows in looks for row in rows] == [{"schema": 1}, *ROWS]
    assert max(map(len, looks)) < 4
    assert looks[-1] == []
