import json
from itertools import pairwise

import numpy as np
import pytest

from toppo.rundir.curve import bin_means, compact
from toppo.rundir.versions import PACKAGES, differences, instructions, versions


def test_bin_means_are_naive_means():
    rng = np.random.default_rng(0)
    steps, values, edges = rng.integers(0, 110, 60), rng.normal(size=60), np.linspace(0, 100, 11)
    expected = []
    for low, high in pairwise(edges):
        inside = [v for s, v in zip(steps, values, strict=True) if low < s <= high]
        expected.append(sum(inside) / len(inside) if inside else None)
    found = bin_means(steps, values, edges)
    assert [x is None for x in found] == [x is None for x in expected]
    assert [x for x in found if x is not None] == pytest.approx([x for x in expected if x is not None], rel=1e-5)


def test_the_compact_curve_of_a_run():
    episodes = [{"step": s, "return": float(s)} for s in (5, 10, 11, 20, 24)]
    metrics = [{"time/total_timesteps": s, "memory/size": s // 8, "train/tv": 0.5} for s in (8, 16, 24)]
    spec = {"total_timesteps": 20, "algo": "toppo"}
    curve = compact(spec, {"jax": "1"}, episodes, metrics, points=2)
    assert curve["grid"] == [10, 20]
    assert curve["return"] == [
        7.5,
        pytest.approx((11 + 20 + 24) / 3, rel=1e-5),
    ]  # the last batch reaches beyond the budget
    assert curve["memory/size"] == [1.0, 2.5]
    assert curve["train/explained_variance"] == [None, None]
    assert curve["spec"] == spec
    json.dumps(curve, allow_nan=False)


def test_other_versions_are_named():
    now = versions()
    assert {"toppo", "jax", "numpy", "gymnasium", "python"} <= set(now)
    assert differences(now) == []
    assert differences({**now, "python": "2.7"}) == []  # the language does not change the numbers
    for name in {*PACKAGES, "machine"} & set(now):
        assert differences({**now, name: "0.1"}) == [f"{name} 0.1 -> {now[name]}"]
    assert differences({k: v for k, v in now.items() if k != "numpy"}) == [f"numpy None -> {now['numpy']}"]
    assert differences({k: v for k, v in now.items() if k != "mujoco"}) == []  # installed after the run began


@pytest.mark.parametrize(
    ("cpuinfo", "said"),
    [
        ("vendor_id\t: GenuineIntel\nflags\t\t: fpu avx avx2 avx512f\n\nvendor_id\t: Other\n", "GenuineIntel avx512f"),
        (
            "vendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: AMD\nflags\t\t: avx avx2_like\n",
            "AuthenticAMD 25/17 avx",
        ),
        ("processor\t: 0\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n", "0xd0c asimd"),
        ("", ""),
    ],
)
def test_a_processor_is_known_by_its_maker_its_model_and_its_vectors(cpuinfo, said):
    assert instructions(cpuinfo) == said
