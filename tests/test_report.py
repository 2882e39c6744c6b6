import json
from itertools import pairwise

import numpy as np
import pytest

from toppo.errors import IO_ERROR, NO_INPUT, ToppoError
from toppo.report.figures import draw_group, figure, learning_curves
from toppo.report.load import Curve, on_grid, run_curve
from toppo.rundir.layout import write_json
from toppo.rundir.log import JsonLines

STARTS = {".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<?xml"}


def run_directory(root, algo="toppo", env="Pendulum-v1", seed=0, episodes=40):
    """A run directory as training leaves it, without the training."""
    root.mkdir(parents=True)
    write_json(root / "spec.json", {"schema": 1, "algo": algo, "env": env, "seed": seed, "steps": 1000})
    log = JsonLines(root / "episodes.jsonl")
    for i in range(1, episodes + 1):
        log.append({"step": i * 25, "env": 0, "return": float(i + seed), "length": 25})
    log.close()
    return root


def test_a_curve_is_what_the_run_logged(tmp_path):
    root = run_directory(tmp_path / "run", seed=3)
    with (root / "episodes.jsonl").open("ab") as file:
        file.write(b'{"step": 9999, "re')  # it is being written at this moment
    curve = run_curve(root)
    assert curve[:4] == ("toppo", "Pendulum-v1", 3, 1000)
    assert curve.steps.tolist() == [25.0 * i for i in range(1, 41)]
    assert curve.returns.tolist() == [float(i + 3) for i in range(1, 41)]


def test_a_run_without_episodes(tmp_path):
    root = run_directory(tmp_path / "run", episodes=0)
    assert run_curve(root).steps.tolist() == []
    learning_curves([root], tmp_path / "a.png")
    (root / "episodes.jsonl").unlink()
    with pytest.raises(ToppoError, match="has no episodes yet") as refusal:
        run_curve(root)
    assert refusal.value.code == NO_INPUT


@pytest.mark.parametrize("seed", range(3))
def test_on_grid_is_the_naive_mean_of_every_part(seed):
    rng = np.random.default_rng(seed)
    steps, returns, grid = rng.integers(0, 56, 70) * 20.0, rng.normal(size=70), np.linspace(0, 1000, 26)
    found = on_grid(Curve("ppo", "e", 0, 1000, steps, returns), grid)
    for value, (low, high) in zip(found, pairwise(grid), strict=True):
        inside = [r for s, r in zip(steps, returns, strict=True) if low < s <= high]
        if inside:
            assert value == pytest.approx(sum(inside) / len(inside))
        else:
            assert np.isnan(value)


@pytest.mark.parametrize("ending", STARTS)
def test_figures_are_written(tmp_path, ending):
    runs = [run_directory(tmp_path / f"{a}{e}{s}", a, e, s) for a in ("ppo", "toppo") for e in "XY" for s in (0, 1)]
    out = tmp_path / "deep" / f"curves{ending}"
    learning_curves(runs, out)
    assert out.read_bytes().startswith(STARTS[ending])
    assert out.stat().st_size > 5000


def test_a_picture_that_cannot_be_written_is_one_sentence(tmp_path):
    root = run_directory(tmp_path / "run")
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "a.nonsense", tmp_path / "file" / "a.png"):
        with pytest.raises(ToppoError, match="cannot be written") as refusal:
            learning_curves([root], out)
        assert refusal.value.code == IO_ERROR


def test_runs_of_one_algorithm_are_averaged_over_their_seeds(tmp_path):
    curves = [run_curve(run_directory(tmp_path / str(s), seed=s)) for s in (0, 4)]
    _, axes = figure(1, 1)
    draw_group(axes[0, 0], curves, 10)
    thin, other, mean = axes[0, 0].get_lines()
    np.testing.assert_allclose((thin.get_ydata() + other.get_ydata()) / 2, mean.get_ydata())
    np.testing.assert_allclose(mean.get_xdata(), np.arange(50, 1000, 100))
    assert mean.get_label() == "toppo (2 runs)"


def test_reading_a_run_needs_only_its_files(tmp_path):
    root = run_directory(tmp_path / "run")
    spec = json.loads((root / "spec.json").read_text())
    (root / "spec.json").write_text(json.dumps({**spec, "env": "Unheard-of-v7"}))
    assert run_curve(root).env == "Unheard-of-v7"
