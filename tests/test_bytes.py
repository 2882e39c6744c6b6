"""The byte guard: three iterations of every algorithm must give the bytes that they gave before.

The numbers of a run depend on the kind of processor and on the versions of the libraries, so the digests in
``bytes.json`` are kept for each.  On an unknown one the test is skipped; ``python -m tests.test_bytes`` adds it.
A refactoring leaves the file alone.  A change that moves the numbers on purpose writes it again, and says so in the
changelog.
"""

import hashlib
import json
from pathlib import Path

import jax
import numpy as np
import pytest

import toppo
from tests.support.settings import tiny
from tests.support.worlds import Glance
from toppo.algos import REGISTRY
from toppo.rundir.versions import versions

FILE = Path(__file__).with_name("bytes.json")
NAMES = {
    "toppo": "ToPPO",
    "ppo": "PPO",
    "trpo": "TRPO",
    "geppo": "GePPO",
    "otrpo": "OffPolicyTRPO",
    "oppo": "OffPolicyPPO",
    "disc": "DISC",
}
ENVS = {
    "Hopper-v5": ("Hopper-v5", {"reset_each_batch": False}),
    "CartPole-v1": ("CartPole-v1", {}),
    "image": (lambda: Glance(12, with_dictionary=True), {}),
}
CASES = [f"{algo} {env}" for algo in NAMES for env in ENVS if (algo, env) != ("disc", "CartPole-v1")]
CASES.remove("disc image")


def here() -> str:
    """What the bytes depend on in addition to the code."""
    found = versions()
    return ", ".join([found["machine"], *(f"{name} {found[name]}" for name in ("jaxlib", "numpy", "mujoco"))])


def digest(case: str) -> str:
    algo, env = case.split()
    source, settings = ENVS[env]
    told = hashlib.sha256()

    def tell(iteration):
        rows = [iteration.metrics, *(list(map(float, episode)) for episode in iteration.episodes)]
        told.update(json.dumps(rows).encode())

    agent = getattr(toppo, NAMES[algo])(source, seed=3, **tiny(hidden=(16, 16), n_envs=2, **settings))
    agent.learn(3 * 64, callback=tell, workers=0)
    for leaf in jax.tree.leaves(agent.state.learner):
        told.update(np.asarray(leaf).tobytes())
    return told.hexdigest()[:16]


def test_every_algorithm_has_its_cases():
    assert set(NAMES) == set(REGISTRY)


@pytest.mark.parametrize("case", CASES)
def test_the_bytes_are_as_before(case):
    known = json.loads(FILE.read_text())
    if here() not in known:
        pytest.skip(f"no digests for {here()}: python -m tests.test_bytes adds them")
    assert digest(case) == known[here()][case]


if __name__ == "__main__":
    known = json.loads(FILE.read_text()) if FILE.exists() else {}
    known[here()] = {case: digest(case) for case in CASES}
    FILE.write_text(json.dumps(known, indent=1) + "\n")
