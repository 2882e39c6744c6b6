"""Run directories and compact curves as training leaves them, without the training."""

import json
from pathlib import Path

from toppo.report.compare import Group
from toppo.report.curves import run_from_curve
from toppo.rundir.jsonl import JsonLines
from toppo.rundir.layout import write_json
from toppo.runs.spec import to_json
from toppo.studies.study import jobs_of


def run_directory(root, algo="toppo", env="Pendulum-v1", seed=0, episodes=40, shift=0.0):
    """A run directory as training leaves it, without the training."""
    root.mkdir(parents=True)
    write_json(root / "spec.json", {"schema": 2, "algo": algo, "env": env, "seed": seed, "total_timesteps": 1000})
    write_json(root / "versions.json", {"schema": 1, "jax": "1"})
    logs = {name: JsonLines(root / f"{name}.jsonl") for name in ("episodes", "metrics", "timing")}
    for i in range(1, episodes + 1):
        logs["episodes"].append({"step": i * 25, "env": 0, "return": float(i + seed + shift), "length": 25})
        logs["metrics"].append({"time/total_timesteps": i * 25, "memory/size": min(i, 5)})
        logs["timing"].append({"time/total_timesteps": i * 25, "time/fps": 9.0, "time/update": 0.2, "time/label": 0.05})
    for log in logs.values():
        log.close()
    return root


def curve(name="toppo-E-0", algo="toppo", env="E", seed=0, returns=(1.0, 2.0), **more):
    spec = {
        "schema": 2,
        "algo": algo,
        "env": env,
        "seed": seed,
        "total_timesteps": 100,
        "common": {"learning_rate": 0.1},
        "config": {"n_steps": 8},
    }
    grid = [100 * (i + 1) // len(returns) for i in range(len(returns))]
    return {"spec": spec, "versions": {"jax": "1"}, "grid": grid, "return": list(returns), **more}


def curve_of(root, **more):
    """The compact curve of a run directory."""
    spec = json.loads((root / "spec.json").read_text())
    return curve() | {"spec": spec, "grid": [spec["total_timesteps"] // 2, spec["total_timesteps"]]} | more


def group(returns, arm="toppo", env="E"):
    runs = [run_from_curve(curve(env=env, seed=s, returns=r), f"{arm}-{env}-{s}") for s, r in enumerate(returns)]
    return Group(arm, env, runs)


def study_curves(folder: Path, arms=("toppo", "ppo"), envs=("E", "F"), seeds=2) -> Path:
    folder.mkdir(exist_ok=True)
    for arm in arms:
        for env in envs:
            for seed in range(seeds):
                data = curve(algo=arm, env=env, seed=seed, returns=[float(i + seed) for i in range(20)])
                more = {"test_returns": [1.0, 2.0], "evaluations": [[50, 1.0], [100, 2.0]], "memory/size": [2.0] * 20}
                (folder / f"{arm}-{env}-{seed}.json").write_text(json.dumps(data | more))
    (folder / "random.json").write_text(json.dumps({"returns": dict.fromkeys(envs, 0.0)}))
    return folder


def finished_curves(folder, study):
    """The curves that the runs of a study would have left."""
    folder.mkdir(parents=True)
    for i, job in enumerate(jobs_of(study)):
        rows = {"return": [float(i), float(i + 1)], "memory/size": [1.0, 3.0]}
        data = {
            "spec": to_json(job.spec),
            "versions": {},
            "grid": [job.spec.total_timesteps // 2, job.spec.total_timesteps],
            **rows,
        }
        (folder / f"{job.name}.json").write_text(json.dumps(data))
    envs = {job.spec.env for job in jobs_of(study)}
    (folder / "random.json").write_text(json.dumps({"returns": dict.fromkeys(envs, -1.0)}))
