import sys

import gymnasium as gym
import pytest

import toppo
from tests.support import probes
from toppo.errors import IO_ERROR
from toppo.runs.video import VideoError, record_video


def record(env_id, path):
    agent = toppo.PPO(env_id, seed=0, hidden=(8,))
    return record_video(agent.state, agent.setup, agent.source, path, 0, seconds=1)


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
