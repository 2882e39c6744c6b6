import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from tests.support.checkpoints import craft
from toppo.errors import BAD_DATA, NO_INPUT, ToppoError
from toppo.rundir.checkpoint import (
    ARRAYS,
    MANIFEST,
    CheckpointError,
    add_checkpoint,
    newest_checkpoint,
    read_checkpoint,
    write_checkpoint,
)

EXAMPLE = {
    "a": np.arange(6, dtype=np.float32).reshape(2, 3),
    "b/c": np.array(3.5),
    "flags": np.array([True, False]),
    "nothing": np.zeros((0, 4), np.int32),
}
FACTS = {"steps": 7, "nested": {"list": [1, 2.5, None]}, "text": "ä"}


def assert_same(a, b):
    assert set(a) == set(b)
    for name, array in a.items():
        assert (array.dtype, array.shape, array.tobytes()) == (b[name].dtype, b[name].shape, b[name].tobytes()), name


@given(
    st.dictionaries(
        st.text("abc/", min_size=1, max_size=5),
        st.sampled_from([np.float32, np.float64, np.int32, np.bool_]).flatmap(
            lambda dtype: arrays(dtype, array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
        ),
        max_size=4,
    )
)
def test_arrays_and_facts_come_back_as_they_were(tmp_path_factory, example):
    path = tmp_path_factory.mktemp("checkpoint") / "c"
    write_checkpoint(path, example, FACTS)
    checkpoint = read_checkpoint(path)
    assert_same(example, checkpoint.arrays)
    assert checkpoint.facts == FACTS


def test_arrays_that_are_not_contiguous_come_back_too(tmp_path):
    write_checkpoint(tmp_path / "c", {"t": EXAMPLE["a"].T, "s": np.arange(10)[::3]}, {})
    read = read_checkpoint(tmp_path / "c").arrays
    assert read["t"].tolist() == EXAMPLE["a"].T.tolist()
    assert read["s"].tolist() == [0, 3, 6, 9]


def test_the_same_content_gives_the_same_bytes(tmp_path):
    for name in "ab":
        write_checkpoint(tmp_path / name, dict(sorted(EXAMPLE.items(), reverse=name == "a")), FACTS)
    for file in (ARRAYS, MANIFEST):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


@pytest.fixture
def disk(monkeypatch):
    """What was asked of the disk, in order: files and directories synced, names changed."""
    calls = []
    fsync, replace = os.fsync, os.replace

    def traced_fsync(fd):
        calls.append(("sync", Path(os.readlink(f"/proc/self/fd/{fd}")).name))
        fsync(fd)

    def traced_replace(old, new):
        calls.append(("rename", Path(old).name, Path(new).name))
        replace(old, new)

    monkeypatch.setattr(os, "fsync", traced_fsync)
    monkeypatch.setattr(os, "replace", traced_replace)
    return calls


def test_a_checkpoint_is_on_the_disk_before_it_has_its_name(tmp_path, disk):
    write_checkpoint(tmp_path / "c", EXAMPLE, FACTS)
    named = disk.index(("rename", ".c.tmp", "c"))
    for file in (ARRAYS, MANIFEST):
        synced = disk.index(("sync", f".{file}.tmp"))
        assert synced < disk.index(("rename", f".{file}.tmp", file)) < named
    assert disk[named - 1] == ("sync", ".c.tmp")  # the directory, with the names of both files
    assert disk[named + 1 :] == [("sync", tmp_path.name)]


def test_only_the_two_newest_are_kept_and_leftovers_go(tmp_path):
    (tmp_path / ".000000000001.tmp").mkdir()
    for steps in (100, 200, 300, 1000):
        add_checkpoint(tmp_path, steps, EXAMPLE, {"steps": steps})
    assert sorted(os.listdir(tmp_path)) == ["000000000300", "000000001000"]
    checkpoint, warnings = newest_checkpoint(tmp_path)
    assert (checkpoint.facts, warnings) == ({"steps": 1000}, [])


@pytest.mark.parametrize("file", [ARRAYS, MANIFEST])
def test_every_truncation_is_found(tmp_path, file):
    write_checkpoint(tmp_path / "c", EXAMPLE, FACTS)
    whole = (tmp_path / "c" / file).read_bytes()
    for size in range(len(whole) - 1):  # the manifest's last byte is a newline, which may go
        (tmp_path / "c" / file).write_bytes(whole[:size])
        with pytest.raises(ToppoError):
            read_checkpoint(tmp_path / "c")
    (tmp_path / "c" / file).write_bytes(whole)
    read_checkpoint(tmp_path / "c")


@pytest.mark.parametrize("file", [ARRAYS, MANIFEST])
def test_every_flipped_bit_is_found(tmp_path, file):
    write_checkpoint(tmp_path / "c", EXAMPLE, FACTS)
    whole = (tmp_path / "c" / file).read_bytes()
    spellings = 0
    for bit in range(0, 8 * len(whole), 3):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        (tmp_path / "c" / file).write_bytes(damaged)
        try:
            checkpoint = read_checkpoint(tmp_path / "c")
        except ToppoError:
            continue
        # JSON has a few spellings of the same thing, such as \\u00e4 and \\u00E4; nothing else may pass.
        assert file == MANIFEST
        assert checkpoint.facts == FACTS
        assert_same(checkpoint.arrays, EXAMPLE)
        spellings += 1
    assert spellings < 10


def test_missing_files_are_found(tmp_path):
    for file in (ARRAYS, MANIFEST):
        write_checkpoint(tmp_path / "c", EXAMPLE, FACTS)
        (tmp_path / "c" / file).unlink()
        with pytest.raises(ToppoError):
            read_checkpoint(tmp_path / "c")
    with pytest.raises(CheckpointError) as error:
        read_checkpoint(tmp_path / "nothing")
    assert error.value.code == NO_INPUT


@pytest.mark.parametrize("file", [ARRAYS, MANIFEST])
def test_a_damaged_newest_checkpoint_falls_back_to_the_one_before(tmp_path, file):
    add_checkpoint(tmp_path, 100, EXAMPLE, {"steps": 100})
    add_checkpoint(tmp_path, 200, EXAMPLE, {"steps": 200})
    target = tmp_path / "000000000200" / file
    target.write_bytes(target.read_bytes()[:-20])
    checkpoint, warnings = newest_checkpoint(tmp_path)
    assert checkpoint.facts == {"steps": 100}
    assert len(warnings) == 1
    assert "000000000200" in warnings[0]


def test_no_readable_checkpoint_is_one_sentence(tmp_path):
    with pytest.raises(CheckpointError, match="holds no checkpoint yet") as none:
        newest_checkpoint(tmp_path)
    assert none.value.code == NO_INPUT
    add_checkpoint(tmp_path, 100, EXAMPLE, {})
    (tmp_path / "000000000100" / ARRAYS).unlink()
    with pytest.raises(CheckpointError, match="no checkpoint of the run can be read") as damaged:
        newest_checkpoint(tmp_path)
    assert damaged.value.code == BAD_DATA


def test_a_failed_write_leaves_the_old_checkpoint_alone(tmp_path):
    write_checkpoint(tmp_path / "c", EXAMPLE, FACTS)
    for bad in ({"x": float("nan")}, {"x": object()}):
        with pytest.raises((ValueError, TypeError)):
            write_checkpoint(tmp_path / "c", EXAMPLE, bad)
    assert read_checkpoint(tmp_path / "c").facts == FACTS
    assert os.listdir(tmp_path) == ["c"]


def test_crafting_works_at_all(tmp_path):
    craft(tmp_path / "c")
    assert read_checkpoint(tmp_path / "c").arrays["a"].tolist() == [0, 0]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda m: m.update(schema=2), "schema is not 1"),
        (lambda m: m.update(facts=[1]), "lacks its arrays or facts"),
        (lambda m: m.pop("arrays"), "lacks its arrays or facts"),
        (lambda m: m.update(arrays="x"), "lacks its arrays or facts"),
        (lambda m: m["arrays"].update(bytes=3), "bytes where its manifest says 3"),
        (lambda m: m["arrays"].update(bytes=None), "bytes where its manifest says None"),
        (lambda m: m["arrays"].update(sha256="0" * 64), "does not match the sha256"),
        (lambda m: m["arrays"].pop("sha256"), "does not match the sha256"),
    ],
)
def test_crafted_manifests_are_refused(tmp_path, change, sentence):
    craft(tmp_path / "c", change)
    with pytest.raises(CheckpointError, match=sentence) as refusal:
        read_checkpoint(tmp_path / "c")
    assert refusal.value.code == BAD_DATA


LIAR = json.dumps({"a": {"dtype": "F64", "shape": [9], "data_offsets": [0, 8]}}).encode().ljust(64)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"abc",
        b"\xff" * 64,
        (20_000_000).to_bytes(8, "little") + b"{" * 64,
        (2).to_bytes(8, "little") + b"[]",
        (64).to_bytes(8, "little") + LIAR + b"x" * 8,
    ],
)
def test_crafted_arrays_are_refused(tmp_path, payload):
    craft(tmp_path / "c", payload=payload)
    with pytest.raises(CheckpointError, match=r"header above|not a safetensors file"):
        read_checkpoint(tmp_path / "c")


def test_a_file_that_is_not_a_manifest_is_refused(tmp_path):
    craft(tmp_path / "c")
    for text in (b"", b"[]", b"3", b"[" * 100_000, b"\xff\xfe", b'{"schema": 1}', b"{" + b" " * 10_000_001 + b"}"):
        (tmp_path / "c" / MANIFEST).write_bytes(text)
        with pytest.raises(ToppoError) as refusal:
            read_checkpoint(tmp_path / "c")
        assert refusal.value.code == BAD_DATA
    craft(tmp_path / "c", close=False)
    with pytest.raises(CheckpointError, match="does not match its own digest"):
        read_checkpoint(tmp_path / "c")


def test_a_checkpoint_elsewhere_is_not_read(tmp_path):
    add_checkpoint(tmp_path / "theirs", 1, {"a": np.zeros(2)}, {})
    (tmp_path / "whole").symlink_to(tmp_path / "theirs")
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / f"{1:012d}").symlink_to(tmp_path / "theirs" / f"{1:012d}")
    for name in ("whole", "part"):
        with pytest.raises(CheckpointError, match="is a link that leads out of the run"):
            newest_checkpoint(tmp_path / name)


def test_a_link_out_of_the_directory_is_not_followed(tmp_path):
    craft(tmp_path / "c")
    secret = tmp_path / "secret"
    shutil.move(tmp_path / "c" / ARRAYS, secret)
    (tmp_path / "c" / ARRAYS).symlink_to(secret)
    with pytest.raises(ToppoError, match="it is a link"):
        read_checkpoint(tmp_path / "c")
