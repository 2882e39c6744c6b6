"""Small environments written in JAX with known values, known endings and known faults."""

from typing import Any, NamedTuple

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

LIMIT = 13


class Mind(NamedTuple):
    """A state with arrays of many types, some not finite, a random key and a number of Python."""

    place: Any
    t: Any
    key: Any
    old_key: Any
    half: Any
    brain: Any
    count: Any
    bits: Any
    flag: Any
    never: Any


class Walk:
    """A random walk with deaths and time limits; its state is a ``Mind``, and all of it moves."""

    observation_space: gym.Space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space: gym.Space = gym.spaces.Box(np.array([-1.0, 0.0]), np.array([1.0, 4.0]), (2,), np.float64)
    episode_limit: int | None = LIMIT

    def reset(self, key):
        place = jax.random.normal(key, (2,))
        state = Mind(
            place=place,
            t=0,
            key=jax.random.fold_in(key, 1),
            old_key=jax.random.key_data(key),
            half=jnp.float16(1.5),
            brain=jnp.zeros(3, jnp.bfloat16),
            count=jnp.int8(0),
            bits=jnp.zeros((2, 2), jnp.uint16),
            flag=True,
            never=jnp.array([jnp.inf, jnp.nan]),
        )
        return state, place

    def step(self, key, state, action):
        after, own = jax.random.split(state.key)
        noise = jax.random.normal(key, (2,)) + 0.1 * jax.random.normal(own, (2,))
        place = state.place + 0.3 * action + 0.3 * noise
        state = state._replace(
            place=place,
            t=state.t + 1,
            key=after,
            half=state.half + 1,
            brain=state.brain + place[0].astype(jnp.bfloat16),
            count=state.count - 1,
            bits=state.bits + 3,
            flag=~jnp.asarray(state.flag),
        )
        return state, place, place[0] - 0.1, place[0] > 1.5, state.t >= LIMIT


class Flip(Walk):
    """The same with choices 3, 4 and 5."""

    action_space = gym.spaces.Discrete(3, start=3)

    def step(self, key, state, action):
        return super().step(key, state, (action - 4) * jnp.ones(2))


class Counter(Walk):
    """Shows how often it was stepped since its reset, and ends after three steps: by death or by time."""

    observation_space = gym.spaces.Box(0.0, 99.0, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, dies: bool = False) -> None:
        self.dies = dies

    def reset(self, key):
        return jnp.int32(0), jnp.zeros(1)

    def step(self, key, state, action):
        state += 1
        over = state == 3
        return state, state[None].astype(float), jnp.float32(1.0), over & self.dies, over & (not self.dies)


class Faulty(Counter):
    """Gives one value that is not finite in the third episode of environment 1."""

    observation_space = gym.spaces.Box(0.0, 99.0, (1,), np.float32)

    def __init__(self, field: str, bad_step: int, is_bad_key) -> None:
        super().__init__()
        self.field = field
        self.bad_step = bad_step
        self.is_bad_key = is_bad_key

    def reset(self, key):
        state = (jnp.int32(0), self.is_bad_key(key))
        return state, self.spoil(state, jnp.zeros(1), "observation")

    def step(self, key, state, action):
        count, obs, reward, terminated, truncated = super().step(key, state[0], action)
        state = (count, state[1])
        obs = self.spoil(state, obs, "observation")
        return state, obs, self.spoil(state, reward, "reward"), terminated, truncated

    def spoil(self, state, value, field):
        bad = state[1] & (state[0] == self.bad_step) & (field == self.field)
        return jnp.where(bad, jnp.nan, value)


class Glance(Walk):
    """One step: the picture is lit on the left or on the right, and the action must say where."""

    observation_space = gym.spaces.Dict(
        {"image": gym.spaces.Box(0, 255, (8, 8, 1), np.uint8), "shift": gym.spaces.Discrete(2, start=1)}
    )
    action_space = gym.spaces.Discrete(2)
    episode_limit = 2

    def reset(self, key):
        state = (jax.random.bernoulli(key), jnp.int32(0))
        return state, self.see(state)

    def step(self, key, state, action):
        right = (action == 1) == state[0]
        state = (jax.random.bernoulli(key), state[1] + 1)
        over = state[1] == 2
        return state, self.see(state), right.astype(float), over & state[0], over & ~state[0]

    def see(self, state):
        lit = (jnp.arange(8) >= 4) == state[0]
        image = jnp.broadcast_to(lit[None, :, None], (8, 8, 1)).astype(jnp.uint8) * (250 + state[1]).astype(jnp.uint8)
        return {"image": image, "shift": 1 + state[1] % 2}
