"""Untrusted run directories are refused in a sentence; nothing in them runs, nothing outside is written."""

import json
import os
import shutil
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.reliability.files import CODES, TRAIN, hostile
from tests.support.checkpoints import craft
from toppo.cli import main
from toppo.errors import ToppoError
from toppo.rundir.checkpoint import CheckpointError, read_checkpoint
from toppo.rundir.files import open_regular, refuse_strange_entries
from toppo.rundir.jsonl import read_lines
from toppo.runs.spec import from_json, to_json

TRUSTED = {"spaces of 10^18 numbers"}  # what `resume` does not look at, since it asks the environment
COMMANDS = (
    ["resume", "--no-tensorboard", "--workers", "0"],
    ["evaluate", "--episodes", "1"],
    ["plot", "--out", "x.png"],
)
WRITTEN_BY_REPORT = ("page", "figures")  # what only a report would write through


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    root = tmp_path_factory.mktemp("example") / "run"
    flags = ["--total-timesteps", 480, "--checkpoint-every", 192, "--workers", 0, "--no-tensorboard", "--out", root]
    main([str(a) for a in ["train", *TRAIN, *flags]])
    return root


NAMES = [name for name in hostile(None, None) if name not in ("120,000 files", "a pipe as log")]


@pytest.mark.parametrize("name", NAMES)
def test_a_crafted_directory_is_refused(tmp_path, example, capsys, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    canary, victim, others = tmp_path / "canary", tmp_path / "victim", tmp_path / "others"
    victim.write_text("precious")
    (others / "x.tmp").mkdir(parents=True)
    commands = (*COMMANDS, ["report"]) if any(word in name for word in WRITTEN_BY_REPORT) else COMMANDS
    for command in commands:
        root = tmp_path / "run"
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(example, root)
        hostile(canary, victim)[name](root)
        try:
            main([command[0], str(root), *command[1:]])
            code = 0
        except SystemExit as leave:
            code = leave.code
        assert code in CODES or command[0] != "resume" or name in TRUSTED
        errors = capsys.readouterr().err
        assert code == 0 or (errors.startswith("toppo: ") and errors.count("\n") == 1 and errors[:-1].isprintable())
    assert not canary.exists()
    assert victim.read_text() == "precious"
    assert [p.name for p in others.iterdir()] == ["x.tmp"]


def test_the_example_itself_is_accepted(tmp_path, example, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(example, tmp_path / "run")
    for command in COMMANDS:
        main([command[0], str(tmp_path / "run"), *command[1:]])


def test_pipes_links_and_large_files_are_not_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_bytes(b"12345")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    for name, sentence in (("pipe", "not a regular file"), ("link", "a link"), ("nothing", "does not exist")):
        with pytest.raises(ToppoError, match=sentence):
            open_regular(tmp_path / name, 100)
    with pytest.raises(ToppoError, match="has 5 bytes, but at most 4 are read"):
        open_regular(tmp_path / "file", 4)
    assert open_regular(tmp_path / "file", 5).read() == b"12345"
    with pytest.raises(ToppoError, match="neither a file nor a directory"):
        refuse_strange_entries(tmp_path)


@pytest.mark.parametrize("link", ["wandb", "wandb/run-1", "wandb/run-1/logs", "wandb/run-1/files/debug-core.log"])
def test_the_link_that_wandb_makes_is_the_only_one_in_a_run_directory(tmp_path, link):
    run = tmp_path / "run"
    (run / "wandb" / "run-0" / "logs").mkdir(parents=True)
    (run / "wandb" / "run-0" / "logs" / "debug-core.log").symlink_to(tmp_path / "core.log")
    refuse_strange_entries(run)
    if link == "wandb":
        shutil.rmtree(run / "wandb")
    (run / link).parent.mkdir(parents=True, exist_ok=True)
    (run / link).symlink_to(tmp_path)
    with pytest.raises(ToppoError, match="neither a file nor a directory"):
        refuse_strange_entries(run)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(JSON, st.sampled_from(["schema", "facts", "arrays", "bytes", "sha256", "whole"]))
def test_any_manifest_is_read_or_refused(tmp_path_factory, value, where):
    path = tmp_path_factory.mktemp("fuzz") / "c"

    def change(manifest):
        (manifest["arrays"] if where in ("bytes", "sha256") else manifest)[where] = value

    craft(path, (lambda m: None) if where == "whole" else change)
    if where == "whole":
        (path / "manifest.json").write_text(json.dumps(value))
    with suppress(ToppoError):
        read_checkpoint(path)


@given(st.binary(max_size=300))
def test_any_bytes_are_arrays_or_refused(tmp_path_factory, payload):
    path = tmp_path_factory.mktemp("fuzz") / "c"
    for data in (payload, len(payload).to_bytes(8, "little") + payload):
        craft(path, payload=data)
        with suppress(CheckpointError):
            assert read_checkpoint(path).arrays == {}


@given(st.data())
@settings(max_examples=100)
def test_any_setting_of_a_spec_is_taken_or_refused_in_a_sentence(example, data):
    spec = json.loads((example / "spec.json").read_text())
    where = data.draw(st.sampled_from([spec, spec["common"], spec["config"]]))
    where[data.draw(st.sampled_from([*where, "new"]))] = data.draw(JSON)
    with suppress(ToppoError):
        read = from_json(spec)
        assert to_json(from_json(to_json(read))) == to_json(read)


@given(
    st.lists(st.one_of(st.just(b'{"step": 1, "return": 2}'), st.binary(max_size=20), JSON.map(json.dumps)), max_size=8)
)
def test_any_log_is_read_without_its_broken_lines(tmp_path_factory, lines):
    path = tmp_path_factory.mktemp("fuzz") / "log.jsonl"
    path.write_bytes(b"\n".join(x if isinstance(x, bytes) else x.encode() for x in lines))
    rows = list(read_lines(path))
    assert all(isinstance(row, dict) for row in rows)
    assert len(rows) <= path.read_bytes().count(b"\n")
