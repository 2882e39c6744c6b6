"""Runs as processes on this machine."""

import os
import subprocess
import sys
import time

import pytest

from toppo.studies import executor
from toppo.studies.executor import LocalExecutor, cores_per_job


@pytest.mark.parametrize(
    ("cores", "jobs", "expected"),
    [
        ([0, 1], 1, [{0, 1}]),
        ([0, 1], 2, [{0}, {1}]),
        ([4, 5, 6, 7, 8], 2, [{4, 5}, {6, 7, 8}]),
        ([0, 1], 3, [{0}, {0}, {1}]),
        ([3], 2, [{3}, {3}]),
    ],
)
def test_cores_are_shared_out(cores, jobs, expected):
    assert cores_per_job(cores, jobs) == expected


def test_every_run_has_its_cores_and_gives_them_back(tmp_path, monkeypatch):
    def say_cores(order, log):
        with log.open("wb") as output:
            command = [sys.executable, "-c", "import os; print(sorted(os.sched_getaffinity(0)))"]
            return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output)

    monkeypatch.setattr(executor, "launch", say_cores)
    mine, local = os.sched_getaffinity(0), LocalExecutor(2)

    def run(*names):
        for name in names:
            local.start(name, {}, tmp_path / name)
        ended = {}
        while len(ended) < len(names):
            time.sleep(0.01)
            ended |= local.ended()
        assert ended == dict.fromkeys(names, "")
        return [(tmp_path / name).read_text().strip() for name in names]

    places = sorted(str(sorted(cores)) for cores in cores_per_job(sorted(mine), 2))
    assert sorted(run("a", "b")) == places
    assert sorted(run("c", "d")) == places
    assert os.sched_getaffinity(0) == mine
