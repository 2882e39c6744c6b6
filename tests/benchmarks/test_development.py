"""The development log: a cell has what the log keeps, and its settings are read as they were typed."""

import json

import numpy as np

from benchmarks.development import add, cell, settings_of
from benchmarks.wide import wide_cheetah


def test_a_cell_has_the_curve_the_tests_and_the_settings(tmp_path):
    settings = settings_of(["alpha=0.1", "hidden=[8]", "activation=relu"])
    assert settings == {"alpha": 0.1, "hidden": (8,), "activation": "relu"}
    found = cell("small", "toppo", "CartPole-v1", 100, 2048, settings)
    assert len(found["return"]) == 20
    assert min(value for value in found["return"] if value is not None) > 5
    assert found["tests"][0][0] == 2048
    assert found["memory"][0] == 1
    for _ in range(2):
        add(tmp_path / "cells.json", found)
    log = json.loads((tmp_path / "cells.json").read_text())
    assert [c["settings"]["hidden"] for c in log] == [[8], [8]]


def test_half_the_sum_of_four_motors_moves_a_joint():
    env = wide_cheetah()
    assert env.action_space.shape == (24,)
    motors = np.zeros((4, 6))
    motors[:, 0] = 0.1, 0.2, 0.3, 0.4
    motors[:, 1] = 1
    np.testing.assert_allclose(env.action(motors.ravel()), [0.5, 1, 0, 0, 0, 0])
    env.close()
