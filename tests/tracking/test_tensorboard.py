import struct

import pytest
from tensorboardX.proto.event_pb2 import Event, SessionLog

from toppo.tracking import Opening, as_numbers
from toppo.tracking.tensorboard import TensorBoard


def events(folder):
    """All events of a folder: records of a length, its checksum, the data and their checksum."""
    found = []
    for path in sorted(folder.iterdir()):
        data = path.read_bytes()
        while data:
            (size,) = struct.unpack("<Q", data[:8])
            found.append(Event.FromString(data[12 : 12 + size]))
            data = data[16 + size :]
    return found


def opened(root, steps):
    return TensorBoard(Opening(id="", project=None, name="run", settings={}, root=root, steps=steps))


def test_values_come_back_and_a_list_is_its_mean(tmp_path):
    board = opened(tmp_path, 0)
    board.log(as_numbers({"a/b": 2.5, "list": [1, 2], "empty": []}), 10)
    written = events(tmp_path / "tensorboard")  # there before the file is closed
    board.close()
    assert [(v.tag, v.simple_value) for v in written[-1].summary.value] == [("a/b", 2.5), ("list", 1.5)]
    assert written[-1].step == 10


def test_a_resumed_run_voids_what_lies_beyond_and_keeps_the_point_that_it_starts_from(tmp_path):
    for start, points in ((0, (10, 20, 30)), (20, (30, 40))):
        board = opened(tmp_path, start)
        for steps in points:
            board.log({"a": 1.0}, steps)
        board.close()
    assert len(list((tmp_path / "tensorboard").iterdir())) == 2
    shown = []
    for event in events(tmp_path / "tensorboard"):  # as a reader does: a START drops its own step and all later ones
        if event.session_log.status == SessionLog.START:
            shown = [steps for steps in shown if steps < event.step]
        elif event.summary.value:
            shown.append(event.step)
    assert shown == [10, 20, 30, 40]


def test_a_disk_that_takes_no_more_is_an_error_at_once(tmp_path):
    board = opened(tmp_path, 0)
    board._writer._py_recordio_writer._writer.close()
    board._writer._py_recordio_writer._writer = open("/dev/full", "wb")  # noqa: SIM115 - the board close it
    with pytest.raises(OSError, match="No space left"):
        board.log({"a": 1.0}, 1)
