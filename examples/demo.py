"""ToPPO learns to run: train on HalfCheetah for about a minute, draw the learning curve, film the result."""

import shutil
from pathlib import Path

from toppo.cli import main

RUN = Path("runs/demo")


def demo(steps: int = 300_000) -> None:
    shutil.rmtree(RUN, ignore_errors=True)
    main(
        [
            "train",
            "HalfCheetah-v5",
            "--algo",
            "toppo",
            "--total-timesteps",
            str(steps),
            "--seed",
            "0",
            "--out",
            str(RUN),
        ]
    )
    main(["plot", str(RUN), "--out", str(RUN / "curve.png")])
    try:
        main(["evaluate", str(RUN), "--episodes", "3", "--video", str(RUN / "film.mp4")])
    except SystemExit:
        print("The run and its curve are complete; only the film is missing.")


if __name__ == "__main__":
    demo()
