"""The same bytes come out on any number of cores: XLA shares work among as many threads as this variable says."""

import os
import subprocess
import sys
from pathlib import Path

THREADS = (1, 16)
IMAGES = """
import hashlib, jax, numpy as np
from toppo.learn.nets import Inputs
from toppo.learn.programs import DETERMINISTIC_SUMS
from toppo.learn.vision import vision_body

for shape, size in (((4, 84, 84), 256), ((7, 7, 3), 64), ((56, 56, 3), 64)):
    rng = np.random.default_rng(0)
    body = vision_body([shape], 3, (64,))
    params = body.init(jax.random.key(0), [(6, 0.01), (1, 1.0)])
    pixels = rng.integers(256, size=(size, int(np.prod(shape))), dtype=np.uint8)
    seen = Inputs(rng.standard_normal((size, 3), dtype=np.float32), np.zeros((size, 0), bool), pixels)
    loss = lambda params: jax.numpy.square(body.apply(params, seen) - 1).mean()
    gradient = jax.jit(jax.grad(loss), compiler_options=DETERMINISTIC_SUMS)(params)
    print([hashlib.sha256(np.asarray(x).tobytes()).hexdigest()[:8] for x in jax.tree.leaves(gradient)])
"""
# More rows, or more numbers, than XLA's libraries leave to one thread: in a batch, a minibatch, a network.
RUNS = """
import hashlib, jax, numpy as np
from tests.support.probes import walk
from tests.support.training import record

for algo, settings in (
    ("trpo", {"n_steps": 1024, "hidden": (64,)}),
    ("ppo", {"n_steps": 2048, "n_minibatches": 2, "hidden": (64,)}),
    ("ppo", {"n_steps": 64, "hidden": (200, 200)}),
):
    run = record(algo, walk, 2, n_epochs=2, **{"n_minibatches": 4, **settings})
    leaves = jax.tree.leaves(run.states[-1].learner)
    print(algo, hashlib.sha256(b"".join(np.asarray(x).tobytes() for x in leaves)).hexdigest()[:8])
"""


def printed(program: str, threads: int) -> list[str]:
    given = {**os.environ, "PJRT_NPROC": str(threads)}
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=given, cwd=root).stdout.splitlines()


def test_gradients_on_images():
    one, *others = [printed(IMAGES, threads) for threads in THREADS]
    assert len(one) == 3
    assert others == [one] * len(others)


def test_runs_with_long_sums():
    one, *others = [printed(RUNS, threads) for threads in THREADS]
    assert len(one) == 3
    assert others == [one] * len(others)
