import gymnasium as gym
import numpy as np
import pytest

from tests.support.collecting import plan_of
from toppo.collect.episodes import advance, no_episode
from toppo.collect.plan import buffers_in, buffers_size
from toppo.envs.spaces import describe_spaces


def plan(steps, envs, discrete=False, reset_each_batch=False):
    action = gym.spaces.Discrete(2) if discrete else gym.spaces.Box(-1, 1, (1,))
    spaces = describe_spaces(gym.spaces.Box(-1, 1, (2,)), action, False, None)
    return plan_of(spaces, envs, steps, reset_each_batch=reset_each_batch)


def random_buffers(shape, rng, rate):
    buffers = buffers_in(shape, bytearray(buffers_size(shape)))
    buffers.obs[:] = rng.normal(size=buffers.obs.shape)
    buffers.next_obs[:] = rng.normal(size=buffers.obs.shape)
    buffers.reward[:] = rng.normal(size=buffers.reward.shape)
    buffers.action[:] = rng.normal(size=buffers.action.shape)
    buffers.over[:] = rng.random(buffers.over.shape) < rate
    return buffers


class Naive:
    """One environment, step by step: what a person would write down."""

    def __init__(self):
        self.started = 0
        self.running = False
        self.actions = []
        self.rewards = []

    def step(self, action, reward, ended):
        if not self.running:
            self.started = self.started + 1
            self.running = True
            self.actions = []
            self.rewards = []
        self.actions.append(action)
        self.rewards.append(reward)
        if ended:
            self.running = False
            return np.array(self.rewards)
        return None


@pytest.mark.parametrize("reset_each_batch", [False, True])
@pytest.mark.parametrize("rate", [0.0, 0.05, 0.4, 1.0])
@pytest.mark.parametrize(("steps", "envs"), [(1, 1), (7, 1), (12, 3)])
def test_the_books_are_those_of_a_step_by_step_account(reset_each_batch, rate, steps, envs):
    rng = np.random.default_rng(int(rate * 20) + steps)
    shape = plan(steps, envs, False, reset_each_batch)
    episodes = (no_episode(shape),) * envs
    naive = [Naive() for _ in range(envs)]
    for _ in range(6):
        buffers = random_buffers(shape, rng, rate)
        expected = []
        for book in naive:
            book.running = book.running and not reset_each_batch
        buffers.begun[:] = [not book.running for book in naive]
        for t in range(steps):
            for e, book in enumerate(naive):
                rewards = book.step(buffers.action[t, e], buffers.reward[t, e], buffers.over[t, e])
                if rewards is not None:
                    expected.append((t, e, rewards))
        buffers.started[:] = [book.started for book in naive]
        episodes, finished = advance(episodes, buffers, reset_each_batch)
        assert [(f.t, f.env) for f in finished] == [(t, e) for t, e, _ in expected]
        for f, (_, _, rewards) in zip(finished, expected, strict=True):
            assert f.rewards.tolist() == rewards.tolist()
        for e, (episode, book) in enumerate(zip(episodes, naive, strict=True)):
            assert episode.started == book.started
            if reset_each_batch or not book.running:
                assert len(episode.actions) == len(episode.rewards) == 0
            else:
                assert episode.actions.tolist() == np.array(book.actions).tolist()
                assert episode.rewards.tolist() == np.array(book.rewards).tolist()
                assert episode.obs.tobytes() == buffers.next_obs[-1, e].tobytes()


def test_what_is_kept_does_not_lie_in_the_workers_memory():
    shape = plan(4, 1)
    buffers = random_buffers(shape, np.random.default_rng(0), 0.0)
    episodes, _ = advance((no_episode(shape),), buffers, False)
    kept = [x.copy() for x in (episodes[0].actions, episodes[0].rewards, episodes[0].obs)]
    for array in buffers.batch():
        array[:] = 0
    for before, after in zip(kept, (episodes[0].actions, episodes[0].rewards, episodes[0].obs), strict=True):
        assert before.tobytes() == after.tobytes()


def test_discrete_actions_are_whole_numbers():
    assert no_episode(plan(1, 1, discrete=True)).actions.dtype == np.int32
