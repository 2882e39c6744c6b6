"""Small environments with known values, known best actions and known faults; each is importable by a worker process."""

import os
import signal
import time
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.wrappers import TimeLimit


class Probe(gym.Env[np.ndarray, Any]):
    """Gymnasium's interface around ``begin`` and ``act``."""

    observation_space: gym.spaces.Box = gym.spaces.Box(-10.0, 10.0, (1,), np.float32)
    action_space: gym.Space[Any] = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.t = 0
        return self.begin(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.t += 1
        obs, reward, terminated, truncated = self.act(action)
        return obs, reward, terminated, truncated, {}

    def begin(self) -> np.ndarray:
        raise NotImplementedError

    def act(self, action: Any) -> tuple[np.ndarray, float, bool, bool]:
        raise NotImplementedError


class OneReward(Probe):
    """One step, one observation, reward 1: V = 1."""

    def begin(self) -> np.ndarray:
        return np.ones(1, np.float32)

    def act(self, action: Any) -> tuple[np.ndarray, float, bool, bool]:
        return np.ones(1, np.float32), 1.0, True, False


class Match(Probe):
    """One step; the observation is -1 or 1, and the action must say which: the best return is 1."""

    def begin(self) -> np.ndarray:
        self.sign = 1.0 if self.np_random.random() < 0.5 else -1.0
        return np.full(1, self.sign, np.float32)

    def act(self, action: Any) -> tuple[np.ndarray, float, bool, bool]:
        return np.zeros(1, np.float32), float((self.sign > 0) == (int(action) == 1)), True, False


class Reach(Probe):
    """One step; reward -(a - target)^2 with an action in [0, 4]: the best action is 3, in the policy's scale 0.5."""

    action_space = gym.spaces.Box(0.0, 4.0, (1,), np.float32)

    def begin(self) -> np.ndarray:
        return np.ones(1, np.float32)

    def act(self, action: Any) -> tuple[np.ndarray, float, bool, bool]:
        return np.ones(1, np.float32), -float((action[0] - 3.0) ** 2), True, False


class Endless(Probe):
    """Reward 1 for ever behind a time limit: V = 1 / (1 - gamma), because a time limit is not a death."""

    def begin(self) -> np.ndarray:
        return np.ones(1, np.float32)

    def act(self, action: Any) -> tuple[np.ndarray, float, bool, bool]:
        return np.ones(1, np.float32), 1.0, False, False


class Walk(Probe):
    """A random walk in two dimensions with continuous actions, deaths and time limits: every kind of ending."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = gym.spaces.Box(np.array([-1.0, 0.0]), np.array([1.0, 4.0]), (2,), np.float64)
    limit = 13

    def begin(self) -> np.ndarray:
        self.place = self.np_random.normal(size=2)
        return self.place.copy()

    def act(self, action: Any) -> tuple[np.ndarray, float, bool, bool]:
        self.place = self.place + 0.3 * np.asarray(action) + 0.3 * self.np_random.normal(size=2)
        return self.place.copy(), float(self.place[0] - 0.1), bool(self.place[0] > 1.5), self.t >= self.limit


class Flip(Probe):
    """Discrete actions 3, 4, 5; dies by chance."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (3,), np.float32)
    action_space = gym.spaces.Discrete(3, start=3)

    def begin(self) -> np.ndarray:
        return self.np_random.uniform(-1, 1, 3).astype(np.float32)

    def act(self, action: Any) -> tuple[np.ndarray, float, bool, bool]:
        assert self.action_space.contains(action)
        return self.begin(), float(action) - 3.5, bool(self.np_random.random() < 0.1), False


class Hidden(Probe):
    """Randomness that no seed governs, like a real robot."""

    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def begin(self) -> np.ndarray:
        return np.zeros(1, np.float32)

    def act(self, action: Any) -> tuple[np.ndarray, float, bool, bool]:
        noise = int.from_bytes(os.urandom(4), "little") / 2**32
        return np.full(1, noise, np.float32), 1.0, False, self.t >= 23


class Windfall(Probe):
    """Shows what a seed governs; what it gives for it, none does."""

    def begin(self) -> np.ndarray:
        return self.np_random.uniform(-1, 1, 1).astype(np.float32)

    def act(self, action: Any) -> tuple[np.ndarray, float, bool, bool]:
        return self.begin(), int.from_bytes(os.urandom(4), "little") / 2**32, False, self.t >= 23


class Faulty(Probe):
    """Gives one bad value at one step of its first episode."""

    def __init__(self, field: str, step: int, value: float) -> None:
        self.field = field
        self.bad_step = step
        self.value = value

    def begin(self) -> np.ndarray:
        bad = self.field == "observation" and self.bad_step == 0
        return np.full(1, self.value if bad else 0.0, np.float32)

    def act(self, action: Any) -> tuple[np.ndarray, float, bool, bool]:
        now = self.t == self.bad_step
        obs = np.full(1, self.value if now and self.field == "observation" else 0.0, np.float32)
        return obs, self.value if now and self.field == "reward" else 0.0, False, False


FIRST_LOOK = 1000  # the look before training has smaller seeds


class FaultyInTraining(Faulty):
    """Keeps its word as long as it is only looked at."""

    def act(self, action: Any) -> tuple[np.ndarray, float, bool, bool]:
        obs, reward, terminated, truncated = super().act(action)
        return obs, reward if self.np_random_seed > FIRST_LOOK else 0.0, terminated, truncated


class Rude(Probe):
    """Fails in the first steps of all, in the way that the variable FAULT says."""

    def begin(self) -> np.ndarray:
        return np.zeros(1, np.float32)

    def act(self, action: Any) -> tuple[np.ndarray, float, bool, bool]:
        how = os.environ["FAULT"]
        if self.t == 2 and how == "exit":
            os._exit(3)
        if self.t == 2 and how == "hang":
            time.sleep(1000)
        if self.t == 2 and how.startswith("SIG"):
            os.kill(os.getpid(), getattr(signal, how))
        return np.zeros(1, np.float32), 0.0, False, False


class Suicidal(Probe):
    """Kills its own process at step 7, as a simulator with a bug in its C code does."""

    def begin(self) -> np.ndarray:
        return np.zeros(1, np.float32)

    def act(self, action: Any) -> tuple[np.ndarray, float, bool, bool]:
        if self.t == 7:
            os.kill(os.getpid(), signal.SIGKILL)
        return np.zeros(1, np.float32), 0.0, False, False


class Clumsy(Walk):
    """Cannot be closed."""

    def close(self) -> None:
        raise ZeroDivisionError("in close")


class Failing(Walk):
    """A walk that fails at step 3 of every third episode or so of training, in the way that the variable FAULT says.

    That is a way to fail (``raise``, ``hang``, ``SIGSEGV``; ``orphan``: killed, while a child of its own lives on for
    ten seconds), after ``reset:`` if it is the reset that fails, or a field and its value (``reward:nan``,
    ``observation:inf``, ``final:-inf``, ``reset:nan``).  If the variable MARK names a file, it fails only while that
    file is not there, and makes it: a fault of the moment.  If WHEN names a file, it writes the time of every fault
    there.
    """

    def begin(self) -> np.ndarray:
        place = super().begin()
        self.bad = self.np_random.random() < 0.3 and self.np_random_seed > FIRST_LOOK
        self.field, _, self.how = os.environ["FAULT"].rpartition(":")
        return np.full(2, float(self.how)) if self.field == "reset" and self.bad and self.fail() else place

    def act(self, action: Any) -> tuple[np.ndarray, float, bool, bool]:
        obs, reward, terminated, truncated = super().act(action)
        if self.bad and self.t == 3 and self.field != "reset" and self.fail():
            if self.field == "reward":
                return obs, float(self.how), terminated, truncated
            return np.full(2, float(self.how)), reward, terminated, truncated or self.field == "final"
        return obs, reward, terminated, truncated

    def fail(self) -> bool:
        """Fail, or say whether a value is to be spoiled."""
        mark = os.environ.get("MARK")
        when = os.environ.get("WHEN")
        if mark:
            if os.path.exists(mark):
                return False
            open(mark, "w").close()
        if when:
            with open(when, "w") as file:
                file.write(str(time.monotonic()))
        if self.how == "raise":
            raise ZeroDivisionError("a bug\nin two lines")
        if self.how == "hang":
            time.sleep(1000)
        if self.how == "orphan":
            if os.fork() == 0:
                time.sleep(10)
                os._exit(0)
            os.kill(os.getpid(), signal.SIGKILL)
        if self.how.startswith("SIG"):
            os.kill(os.getpid(), getattr(signal, self.how))
        return self.how != "nothing"


def limited(env: gym.Env, steps: int) -> gym.Env:
    return TimeLimit(env, steps)


def one_reward() -> gym.Env:
    return OneReward()


def match() -> gym.Env:
    return Match()


def reach() -> gym.Env:
    return Reach()


def endless() -> gym.Env:
    return limited(Endless(), 5)


class Ending(Walk):
    """A walk that never ends, dies in every step, or runs out of time in every step."""

    def __init__(self, how: str) -> None:
        self.how = how

    def act(self, action: Any) -> tuple[np.ndarray, float, bool, bool]:
        obs, reward, _, _ = super().act(action)
        return np.tanh(obs), reward, self.how == "death", self.how == "time"


def walk() -> gym.Env:
    return Walk()


def flip() -> gym.Env:
    return Flip()


def hidden() -> gym.Env:
    return Hidden()


def clumsy() -> gym.Env:
    return Clumsy()


def failing() -> gym.Env:
    return Failing()


def rude() -> gym.Env:
    return Rude()


def suicidal() -> gym.Env:
    return Suicidal()


def unmade() -> gym.Env:
    raise OSError("no such\nrobot")


def faulty_reward() -> gym.Env:
    return FaultyInTraining("reward", 4, float("nan"))
