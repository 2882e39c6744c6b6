"""A study on a real Ray cluster of two nodes, with a worker, a node, the driver and the head lost on the way."""

import os
import signal
import time
from pathlib import Path

import pytest

from tests.support.commands import finish, lines, run, start
from tests.support.small_study import bytes_of, last_checkpoints, study_file
from toppo.errors import USAGE, ToppoError
from toppo.studies.ray_executor import RayExecutor

STEPS = 30_720
FLAGS = ("--checkpoint-every", 2048)


def pids(word: str) -> list[int]:
    """Processes whose command line has the word."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if word in Path(f"/proc/{pid}/cmdline").read_text():
                found.append(int(pid))
        except OSError:
            continue
    return found


@pytest.mark.parametrize(("mode", "address"), [("disabled", "local"), ("disabled", "a:1"), ("", "a:1"), ("", "auto")])
def test_a_cluster_without_a_token_is_refused(monkeypatch, mode, address):
    monkeypatch.setenv("RAY_AUTH_MODE", mode)
    with pytest.raises(ToppoError, match=f"RAY_AUTH_MODE is {mode or 'not set'}"):
        RayExecutor(address, 1)


@pytest.fixture
def alone(tmp_path):
    """The same study without a cluster."""
    code, out, err = run("study", study_file(tmp_path, STEPS), "--out", tmp_path / "alone", *FLAGS)
    assert code == 0, out + err
    return bytes_of(tmp_path / "alone")


@pytest.fixture
def token(monkeypatch):
    """What all processes of a cluster know; Ray reads it when it is imported."""
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", "a-token-of-this-test-and-no-other")
    pytest.importorskip("ray", reason="no Ray")


def head():
    from ray.cluster_utils import Cluster

    return Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})


def begin(cluster, folder):
    """The study on the cluster, as soon as both runs are on their way."""
    where = ("--ray", cluster.address, "--out", folder / "shared")
    process = start("study", folder / "small.json", *where, "--retries", 3, *FLAGS)
    wait(process, lambda: all(lines(log) > 10 for log in logs_in(folder / "shared")))
    return process


def logs_in(shared):
    return [shared / f"{arm}-Pendulum-v1-0" / "metrics.jsonl" for arm in ("toppo", "ppo")]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("token")
def test_a_cluster_that_loses_a_worker_and_a_node_gives_the_same_bytes(tmp_path, alone):
    cluster = head()
    try:
        second = cluster.add_node(num_cpus=1)
        process = begin(cluster, tmp_path)
        os.kill(pids("ray::_run_job")[0], signal.SIGKILL)
        time.sleep(2)
        cluster.remove_node(second, allow_graceful=False)
        code, out, err = finish(process)
        assert code == 0, out + err
    finally:
        cluster.shutdown()
    assert bytes_of(tmp_path / "shared") == alone


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("token")
def test_a_study_whose_driver_and_head_died_continues_to_the_same_bytes(tmp_path, alone):
    cluster = head()
    try:
        cluster.add_node(num_cpus=1)
        process = begin(cluster, tmp_path)
        process.kill()
        process.communicate()
    finally:
        cluster.shutdown()
    cluster = head()
    try:
        where = ("--ray", cluster.address, "--out", tmp_path / "shared", *FLAGS)
        code, out, err = run("study", tmp_path / "small.json", *where)
        assert code == 0, out + err
    finally:
        cluster.shutdown()
    assert bytes_of(tmp_path / "shared") == alone


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_study_on_a_cluster_saves_when_it_is_stopped_and_refuses_what_fits_nowhere(tmp_path, alone):
    pytest.importorskip("ray", reason="no Ray")
    where = ("--ray", "local", "--out", tmp_path / "shared", *FLAGS)
    code, _, err = run("study", tmp_path / "small.json", *where, "--workers", 500)
    assert code == USAGE
    assert "a run takes 501 processors" in err
    process = start("study", tmp_path / "small.json", *where)
    wait(process, lambda: all(lines(log) > 10 for log in logs_in(tmp_path / "shared")))
    process.terminate()
    code, out, err = finish(process)
    assert code == 128 + signal.SIGTERM, out + err
    assert "every run is saved" in out
    assert len(last_checkpoints(tmp_path / "shared")) == 2
    code, out, err = run("study", tmp_path / "small.json", *where)
    assert code == 0, out + err
    assert bytes_of(tmp_path / "shared") == alone


def wait(process, there):
    while not there():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
