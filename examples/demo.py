"""ToPPO learns to run: train on HalfCheetah for about a minute, draw the learning curve, record a video."""

import shlex
import shutil
from pathlib import Path

from toppo.cli import main

RUN = Path("runs/demo")


def toppo(command: str) -> None:
    main(shlex.split(command))


def demo(steps: int = 300_000) -> None:
    shutil.rmtree(RUN, ignore_errors=True)
    toppo(f"train HalfCheetah-v5 --algo toppo --total-timesteps {steps} --seed 0 --out {RUN}")
    toppo(f"plot {RUN} --out {RUN}/curve.png")
    try:
        toppo(f"evaluate {RUN} --episodes 3 --video {RUN}/video.mp4")
    except SystemExit:
        print("The run and its curve are complete; only the video is missing.")


if __name__ == "__main__":
    demo()
