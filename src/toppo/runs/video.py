"""A short video of a trained policy."""

import os
import warnings
from collections.abc import Callable, Generator
from itertools import count
from pathlib import Path
from typing import NamedTuple

import numpy as np

from toppo.envs import Environment, Player, Source, make, open_player
from toppo.envs.atari import FRAMES
from toppo.errors import IO_ERROR, EnvironmentFault, ToppoError, install_command
from toppo.learn.setup import Setup
from toppo.learn.state import State
from toppo.runs.evaluate import evaluate_policy

Encoder = Generator[None, np.ndarray | None, None]
RENDERER_HINT = "install a renderer (Debian: apt-get install libegl1 libgl1, or libosmesa6)"


class VideoError(ToppoError):
    """The video cannot be made."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence, IO_ERROR)


class VideoOptions(NamedTuple):
    """How an episode is recorded."""

    seconds: int = 8
    height: int | None = None  # in pixels; as the environment draws it if None


def record_video(state: State, setup: Setup, source: Source, path: Path, seed: int, options: VideoOptions) -> float:
    """Record the beginning of an episode with the most likely actions; return what it has earned by then."""
    env, render, fps = open_rendered(source, options.height)
    every = max(1, round(fps / 30))
    steps = count()
    encoder: Encoder | None = None

    def add_frame(reward: float) -> None:
        nonlocal encoder
        if next(steps) % every == 0:
            picture = draw(source.name, render)
            encoder = encoder or open_encoder(path, picture, fps / every, options.height)
            encoder.send(picture)

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        [result] = evaluate_policy(state, setup, env, 1, seed, max_steps=options.seconds * fps, after_step=add_frame)
    except OSError as error:
        raise VideoError(f"{path} cannot be written: {str(error).splitlines()[0]}") from error
    finally:
        if encoder is not None:
            encoder.close()
        env.close()
    return result.episode_return


def open_encoder(path: Path, first: np.ndarray, fps: float, height: int | None = None) -> Encoder:
    """Open an mp4 file for pictures of the size of the first, scaled to another height if asked to.  [H, W, 3]"""
    try:
        from imageio_ffmpeg import write_frames
    except ImportError as error:
        raise VideoError(f"a video needs imageio-ffmpeg: {install_command('video')}") from error
    scale = ["-vf", f"scale=-2:{height - height % 2}"] if height else []  # the encoder needs even sides
    encoder: Encoder = write_frames(str(path), first.shape[1::-1], fps=fps, macro_block_size=2, output_params=scale)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # JAX warns of forks, but this one only starts ffmpeg
        encoder.send(None)
    return encoder


def draw(env_id: str, render: Callable[[], object]) -> np.ndarray:
    """Draw the environment; height and width are even, as the encoder needs.  [H, W, 3]"""
    try:
        picture = np.asarray(render())
    except NotImplementedError as error:
        raise VideoError(f"{env_id} cannot be recorded: it defines no render()") from error
    except Exception as error:  # drawing fails in as many ways as there are drivers
        raise VideoError(f"{env_id} cannot be drawn here ({type(error).__name__}): {RENDERER_HINT}") from error
    if picture.ndim != 3:
        raise VideoError(f"{env_id} cannot be recorded: its render() gives no picture [height, width, 3]")
    height, width = (2 * (size // 2) for size in picture.shape[:2])
    return np.ascontiguousarray(picture[:height, :width])


def open_rendered(source: Source, height: int | None = None) -> tuple[Player, Callable[[], object], int]:
    """Open an environment that can be drawn, with its render function and its frames per second."""
    if source.kind == "atari":  # the newest frame that the policy sees, four times as large for human eyes
        player = open_player(source)
        pixel = np.ones((4, 4, 3), np.uint8)
        return player, lambda: np.kron(player.row[-84 * 84 :].reshape(84, 84, 1), pixel), 60 // FRAMES
    for device in ("SDL_VIDEODRIVER", "SDL_AUDIODRIVER"):  # pygame complains of a screen and of loudspeakers otherwise
        os.environ.setdefault(device, "dummy")
    try:
        env = Environment(make(source, "rgb_array", height), source.name)
    except EnvironmentFault as error:
        raise VideoError(f"{source.name} cannot be recorded: with render_mode='rgb_array', {error}") from error
    inner = env.env  # without the wrapper that forbids drawing before its own reset
    return env, inner.render, int(inner.metadata.get("render_fps", 30))
