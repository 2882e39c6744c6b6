"""A short film of a trained policy."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from toppo.envs import Environment, Player
from toppo.envs.atari import FRAMES, AtariGames, is_atari
from toppo.envs.source import make
from toppo.envs.vector import FirstEnv
from toppo.errors import IO_ERROR, EnvironmentFault, ToppoError
from toppo.runs.evaluate import Policy, play

RENDERER_HINT = "install a renderer (Debian: apt-get install libegl1 libgl1, or libosmesa6)"


class VideoError(ToppoError):
    """No picture could be had; the reason and the way out."""

    def __init__(self, sentence: str) -> None:
        """An output that could not be made."""
        super().__init__(sentence, IO_ERROR)


def record(policy: Policy, env_id: str, path: Path, seed: int, seconds: int = 8) -> float:
    """Film the beginning of an episode with the most likely actions; its return so far."""
    try:
        import imageio_ffmpeg
    except ImportError as error:
        raise VideoError("a video needs imageio-ffmpeg: pip install 'toppo[video]'") from error
    writer: Any = None
    world, draw, fps = screen_of(env_id)
    every = max(1, round(fps / 30))

    def frame() -> np.ndarray:
        try:
            picture = np.asarray(draw())
        except NotImplementedError as error:
            raise VideoError(f"{env_id} cannot be filmed: it defines no render()") from error
        except Exception as error:  # drawing fails in as many ways as there are drivers
            raise VideoError(f"{env_id} cannot be drawn here ({type(error).__name__}): {RENDERER_HINT}") from error
        if picture.ndim != 3:
            raise VideoError(f"{env_id} cannot be filmed: its render() gives no picture [height, width, 3]")
        height, width = (2 * (size // 2) for size in picture.shape[:2])
        return np.ascontiguousarray(picture[:height, :width])

    count = 0

    def film(episode: int) -> None:
        nonlocal writer, count
        if count % every == 0:
            picture = frame()
            if writer is None:
                size = (picture.shape[1], picture.shape[0])
                writer = imageio_ffmpeg.write_frames(str(path), size, fps=fps / every, macro_block_size=2)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", RuntimeWarning)  # JAX's word on forks: this one only runs ffmpeg
                    writer.send(None)
            writer.send(picture)
        count += 1

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        [played] = play(policy, world, 1, seed, max_steps=seconds * fps, after_step=film)
    except OSError as error:
        raise VideoError(f"{path} cannot be written: {str(error).splitlines()[0]}") from error
    finally:
        if writer is not None:
            writer.close()
        world.close()
    return played.ret


def screen_of(env_id: str) -> tuple[Player, Callable[[], Any], int]:
    """An environment to play in, the function that draws it as it is, and pictures per second."""
    if is_atari(env_id):
        player = FirstEnv(AtariGames(env_id, 1))
        return player, lambda: enlarged(player.row[-84 * 84 :].reshape(84, 84)), 60 // FRAMES
    try:
        world = Environment(make(env_id, render_mode="rgb_array"), env_id)
    except EnvironmentFault as error:
        raise VideoError(f"{env_id} cannot be filmed: with render_mode='rgb_array', {error}") from error
    env = world.env  # without the wrapper that forbids drawing before its own reset
    return world, env.render, int(env.metadata.get("render_fps", 30))


def enlarged(grey: np.ndarray, times: int = 4) -> np.ndarray:
    """What the policy sees, large enough for people.  [H, W] -> [H times, W times, 3]"""
    return np.repeat(grey.repeat(times, 0).repeat(times, 1)[..., None], 3, axis=2)
