"""The one loop that plays episodes outside of training."""

import gymnasium as gym
import numpy as np
import pytest

from tests.support import probes
from toppo.envs import open_player, resolve
from toppo.rng import Stream, seed_for
from toppo.runs.evaluate import EpisodeResult, play_episodes, rollout


class Counting(probes.Probe):
    """The reward is the number of the step; the episode terminates after 9 steps."""

    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
    seeds = None

    def reset(self, *, seed=None, options=None):
        self.seeds.append(seed)
        return super().reset(seed=seed, options=options)

    def begin(self):
        return np.zeros(1, np.float32)

    def act(self, action):
        return np.full(1, self.t, np.float32), float(self.t), self.t >= 9, False


def limited():
    return gym.wrappers.TimeLimit(Counting(), 5)


@pytest.fixture
def player(monkeypatch):
    monkeypatch.setattr(Counting, "seeds", [])
    player = open_player(resolve(limited))
    player.reset(0)
    return player


def no_action(row):
    return np.zeros(1, np.float32)


@pytest.mark.parametrize(
    ("max_steps", "ignore_time_limit", "expected"),
    [
        (100, False, EpisodeResult(15.0, 5, True)),
        (3, False, EpisodeResult(6.0, 3, False)),
        (100, True, EpisodeResult(45.0, 9, True)),
        (7, True, EpisodeResult(28.0, 7, False)),
    ],
)
def test_an_episode_ends_by_itself_by_its_time_limit_or_by_the_cut(player, max_steps, ignore_time_limit, expected):
    rewards = []
    result = rollout(player, no_action, max_steps, rewards.append, ignore_time_limit)
    assert result == expected
    assert rewards == list(range(1, result.length + 1))


def test_every_episode_has_its_own_reset_and_its_own_random_numbers(player):
    Counting.seeds.clear()
    drawn = []

    def act_with(rng):
        drawn.append(rng.random())
        return no_action

    results = play_episodes(player, act_with, episodes=3, seed=4, max_steps=100)
    assert results == [EpisodeResult(15.0, 5, True)] * 3
    assert Counting.seeds == [seed_for(4, Stream.EVALUATION, episode, 0) for episode in range(3)]
    assert len(set(drawn)) == 3
    again = [*drawn]
    drawn.clear()
    play_episodes(player, act_with, episodes=3, seed=4, max_steps=100)
    assert drawn == again
