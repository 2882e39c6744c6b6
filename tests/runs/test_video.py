import sys

import gymnasium as gym
import pytest

import toppo
from tests.support import probes
from toppo.errors import IO_ERROR
from toppo.runs.video import VideoError, VideoOptions, record_video

A_SECOND = VideoOptions(seconds=1)


def record(env_id, path, options=A_SECOND):
    agent = toppo.PPO(env_id, seed=0, hidden=(8,))
    return record_video(agent.state, agent.setup, agent.source, path, 0, options)


def test_a_video_of_an_episode(tmp_path):
    ffmpeg = pytest.importorskip("imageio_ffmpeg", reason="no ffmpeg: pip install 'toppo[video]'")
    pytest.importorskip("mujoco", reason="no MuJoCo")
    try:
        record("Reacher-v5", tmp_path / "deep" / "video.mp4")
    except VideoError as error:
        pytest.skip(f"no renderer: {error}")
    frames, seconds = ffmpeg.count_frames_and_secs(str(tmp_path / "deep" / "video.mp4"))
    assert frames >= 10
    assert seconds > 0


def test_a_video_has_the_length_and_the_height_that_are_asked_for(tmp_path):
    ffmpeg = pytest.importorskip("imageio_ffmpeg", reason="no ffmpeg: pip install 'toppo[video]'")
    pytest.importorskip("pygame", reason="no pygame")
    found = []
    for name, options in (("small", VideoOptions(seconds=1, height=120)), ("long", VideoOptions(seconds=3))):
        record("Pendulum-v1", tmp_path / f"{name}.mp4", options)
        reader = ffmpeg.read_frames(str(tmp_path / f"{name}.mp4"))
        about = next(reader)
        reader.close()
        found.append((about["size"], round(about["duration"])))
    assert found == [((120, 120), 1), ((500, 500), 3)]


def test_what_cannot_be_drawn_is_one_sentence(tmp_path, monkeypatch):
    pytest.importorskip("imageio_ffmpeg", reason="no ffmpeg: pip install 'toppo[video]'")
    monkeypatch.setitem(sys.modules, "pygame", None)  # as on a machine without it
    with pytest.raises(VideoError, match="CartPole-v1 cannot be drawn here") as refusal:
        record("CartPole-v1", tmp_path / "video.mp4")
    assert refusal.value.code == IO_ERROR
    assert "\n" not in str(refusal.value)


class Blind(probes.Flip):
    """Has no picture, in one of three ways."""

    def __init__(self, render_mode=None):
        self.render_mode = render_mode


class Empty(Blind):
    def render(self):
        return None


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        (Blind, "cannot be recorded: it defines no render()"),
        (Empty, "cannot be recorded: its render() gives no picture"),
        (probes.Flip, "cannot be recorded: with render_mode='rgb_array', Unseen-v0 cannot be made"),
    ],
)
def test_what_has_no_picture_is_one_sentence(tmp_path, monkeypatch, entry, sentence):
    pytest.importorskip("imageio_ffmpeg", reason="no ffmpeg: pip install 'toppo[video]'")
    monkeypatch.setitem(gym.registry, "Unseen-v0", gym.envs.registration.EnvSpec("Unseen-v0", entry_point=entry))
    with pytest.raises(VideoError, match="Unseen-v0 cannot be recorded") as refusal:
        record("Unseen-v0", tmp_path / "video.mp4")
    assert sentence in str(refusal.value)
    assert "\n" not in str(refusal.value)
