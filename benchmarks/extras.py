"""Install toppo with one extra at a time, each in a fresh environment, and use what the extra is for.

    python -m benchmarks.extras [--only mujoco atari] [--newest]

Each is installed from the wheel with the versions of constraints.txt, or with the newest that pip finds; then come
`pip check` and the commands below.  The table goes to docs/results/extras: packages, megabytes, seconds of pip.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path
from typing import NamedTuple

from benchmarks.page import RESULTS, write_page

ROOT = Path(__file__).resolve().parent.parent
NOTHING = "none"
NOT_IN_CONSTRAINTS = ("trackio",)  # it needs pillow below 13
SHORT = "--algo ppo --n-envs 1 --n-steps 256 --warmup-steps 256 --total-timesteps 512 --workers 0 --out run"
TRAIN = f"toppo train CartPole-v1 {SHORT}"
ENCODE = """
import numpy as np, pathlib
from toppo.runs.video import open_encoder
picture = np.zeros((64, 64, 3), np.uint8)
encoder = open_encoder(pathlib.Path('video.mp4'), picture, 30)
for _ in range(30): encoder.send(picture)
encoder.close()
assert pathlib.Path('video.mp4').stat().st_size > 0
"""
STUDY = """
import json, pathlib
grid = {'arms': [{'algo': 'ppo'}], 'envs': ['CartPole-v1'], 'total_timesteps': 512, 'seeds': 1}
pathlib.Path('study.json').write_text(json.dumps({'schema': 2, 'grids': [grid]}))
"""
CHECKS = {
    NOTHING: [
        TRAIN,
        "toppo evaluate run --episodes 1",
        "toppo plot run --out curve.png",
        "toppo report run --out page",
        "toppo export run --format numpy",
        "toppo theory --mdps 20",
        "python -m toppo --version",
    ],
    "mujoco": [f"toppo train InvertedPendulum-v5 {SHORT} --no-reset-each-batch"],
    "atari": ["toppo train BreakoutNoFrameskip-v4 --algo ppo --n-envs 2 --n-steps 128 --total-timesteps 128 --out run"],
    "video": [f"python -c {shlex.quote(ENCODE)}"],
    "ray": [f"python -c {shlex.quote(STUDY)}", "toppo study study.json --ray local --out study"],
    "onnx": [TRAIN, "toppo export run --format onnx"],
    "tune": ["toppo tune CartPole-v1 --algo ppo --trials 2 --total-timesteps 4096 --jobs 1 --out search"],
    "hub": [TRAIN, "toppo card run --episodes 2", "python -c 'import huggingface_hub'"],
    "wandb": [f"{TRAIN} --track wandb"],
    "mlflow": [f"{TRAIN} --track mlflow"],
    "trackio": [f"{TRAIN} --track trackio"],
    **{
        task.partition(":")[0]: [f"toppo train {task} {SHORT.replace('--n-envs 1', '--n-envs 8')}"]
        for task in (
            "gymnax:CartPole-v1",
            "playground:CartpoleBalance",
            "brax:inverted_pendulum",
            "navix:Navix-Empty-5x5-v0",
            "craftax:Craftax-Classic-Symbolic-v1",
        )
    },
    "worlds": [f"toppo train minigrid:MiniGrid-Empty-5x5-v0 {SHORT}", f"toppo train LunarLander-v3 {SHORT}2"],
    "docs": [f"python {ROOT}/docs/site/build.py site"],
    "dev": [f"pytest -q -p no:cacheprovider {ROOT}/tests/maths", "ruff --version", "mypy --version"],
}
"""The commands that use an extra; NOTHING is toppo without any."""


class Installed(NamedTuple):
    """What it took to install toppo with an extra."""

    packages: int
    megabytes: float
    seconds: float
    python: str


def main() -> None:
    """Install and use every extra, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=list(CHECKS), choices=list(CHECKS))
    parser.add_argument("--newest", action="store_true", help="no exact versions")
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, str(ROOT)]
        subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
        [wheel] = Path(folder).glob("*.whl")
        for extra in flags.only:
            write_table(extra, tried(extra, wheel, newest=flags.newest))


def write_table(extra: str, installed: Installed) -> None:
    """Put a row into the table; the rows of other extras stay as they were measured."""
    kept = RESULTS / "extras" / "results.json"
    before = json.loads(kept.read_text()) if kept.is_file() else {}
    found = {name: (before | {extra: installed._asdict()})[name] for name in CHECKS if name in {*before, extra}}
    text = "Each row is a fresh environment. In each, `pip check` is clean and the commands that use the extra succeed."
    head = ["| extra | packages | MB | seconds of pip |", "|---|---:|---:|---:|"]
    rows = [f"| {n} | {i['packages']} | {i['megabytes']:.0f} | {i['seconds']:.0f} |" for n, i in found.items()]
    write_page("extras", "Extras", [text, "", *head, *rows], found)


def tried(extra: str, wheel: Path, *, newest: bool) -> Installed:
    """Install and use one extra."""
    with tempfile.TemporaryDirectory() as folder:
        installed = install(extra, wheel, Path(folder), newest=newest)
        use(extra, Path(folder))
    return installed


def install(extra: str, archive: Path, folder: Path, *, newest: bool = False) -> Installed:
    """Make an environment with toppo and one extra in ``folder/venv``."""
    venv.create(folder / "venv", with_pip=True)
    what = str(archive) if extra == NOTHING else f"{archive}[{extra}]"
    versions = [] if newest or extra in NOT_IN_CONSTRAINTS else ["--constraint", str(ROOT / "constraints.txt")]
    began = time.perf_counter()
    run("python -m pip install --quiet", folder, *versions, what)
    seconds = time.perf_counter() - began
    run("python -m pip check", folder)
    [packages] = (folder / "venv" / "lib").glob("python*/site-packages")
    megabytes = sum(path.lstat().st_size for path in packages.rglob("*")) / 1e6
    return Installed(len(list(packages.glob("*.dist-info"))), megabytes, seconds, packages.parent.name)


def use(extra: str, folder: Path) -> None:
    """Run the commands that use an extra in an environment that has it."""
    for command in CHECKS[extra]:
        run(command, folder)


def run(command: str, folder: Path, *further: str) -> None:
    """Run a command of the environment in ``folder``; stop with what it printed if it fails."""
    binaries = folder / "venv" / "bin"
    words = [*shlex.split(command), *further]
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    path = f"{binaries}{os.pathsep}{own['PATH']}"
    done = subprocess.run(
        [binaries / words[0], *words[1:]],
        cwd=folder,
        env=own | {"PATH": path, "WANDB_MODE": "offline"},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise SystemExit(f"{command} fails:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    main()
