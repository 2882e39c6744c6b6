"""The check before training: does the environment do what its spaces and Gymnasium's interface say?

What cannot be trained in is refused in one sentence with the way out.  What is odd but harmless is noted.
"""

from collections.abc import Callable
from contextlib import suppress

import gymnasium as gym
import numpy as np

from toppo.envs.actions import action_to_env, mask_reader, random_action
from toppo.envs.observations import check_observation, fits_float32, mask_in, part_of
from toppo.envs.single import flag_or_refuse, number_or_refuse
from toppo.envs.source import Source, VecEnv, make, open_vec_env
from toppo.envs.spaces import BadValue, Env, EnvAction, Info, Obs, Spaces, describe, shortened
from toppo.envs.vector import LATE_MASK, GymVecEnv, ResetSpec
from toppo.errors import ENV_EXCEPTIONS, EnvironmentFault, in_one_line, prefixed

STEPS = 20
NOT_REPEATED = (
    "it does not repeat itself after reset(seed=...) with the same actions, so resuming will not be bit-exact"
)
RUNNING_STATISTICS = (
    gym.wrappers.NormalizeObservation,
    gym.wrappers.NormalizeReward,
    gym.wrappers.vector.NormalizeObservation,
    gym.wrappers.vector.NormalizeReward,
)
LEFT_OUT = "the observation's entry {!r} is text and is left out"

ReportCall = Callable[[str], None]


def check_env(source: Source, report_call: ReportCall = lambda call: None) -> tuple[Spaces, list[str]]:
    """The spaces of an environment that passes the check, and notes on what is odd about it.

    ``report_call`` gets the name of every call before it is made, for the case that it never returns.
    """
    if source.is_vector:
        return _check_vector(source)
    env = make(source)
    try:
        with prefixed(source.name):
            return check_single(env, report_call)
    finally:
        if not source.is_object:
            with suppress(*ENV_EXCEPTIONS):
                env.close()


def check_single(env: Env, report_call: ReportCall = lambda call: None) -> tuple[Spaces, list[str]]:
    """``check_env`` for one environment."""
    for name in ("observation_space", "action_space"):
        if not isinstance(found := getattr(env, name, None), gym.Space):
            raise EnvironmentFault(
                f"{name} is {shortened(found)}, but must be a space: define self.{name} = gymnasium.spaces..."
            )
    calls = CallReporter(env, report_call)
    _, info = calls.reset(0)
    spaces = describe(env)
    notes = [LEFT_OUT.format(name) for name in spaces.left_out]
    if not spaces.discrete and "action_mask" in info:
        notes.append("its action_mask is not used, because its actions are numbers")
    try:
        if _play(calls, spaces, notes) != _play(calls, spaces, []):
            notes.append(f"{NOT_REPEATED}: {_why_not_repeated(env)}")
    except BadValue as error:
        raise EnvironmentFault(str(error)) from error
    return spaces, list(dict.fromkeys(notes))


def _why_not_repeated(*envs: object) -> str:
    """Name the wrapper that remembers earlier episodes, if there is one, and what to do."""
    for env in envs:
        layer = env
        while isinstance(layer, gym.Wrapper | gym.vector.VectorWrapper):
            if isinstance(layer, RUNNING_STATISTICS):
                return (
                    f"{type(layer).__name__} carries its statistics from episode to episode; leave it out, because "
                    "toppo normalises by itself (normalise_obs, normalise_reward)"
                )
            layer = layer.env
    return "draw all randomness from self.np_random"


def _play(calls: "CallReporter", spaces: Spaces, notes: list[str]) -> list[bytes]:
    """Check every one of a few random steps; the bytes of all observations and rewards."""
    space = calls.env.observation_space
    rng = np.random.default_rng(0)
    to_env = action_to_env(spaces)
    read_mask = mask_reader(calls.env, spaces)
    found = []
    obs, info = calls.reset(1)
    for t in range(STEPS):
        check_observation(obs, spaces, space, "reset()" if t == 0 else "step()", notes)
        found.append(b"".join(np.ascontiguousarray(part_of(obs, part)).tobytes() for part in spaces.parts))
        action = _probing_action(spaces, read_mask(info, False), rng)
        obs, reward, ended, info = calls.step(to_env(action))
        if spaces.discrete and not spaces.masked and "action_mask" in info:
            raise EnvironmentFault(LATE_MASK)
        found.append(np.float64(reward).tobytes())
        if ended:
            check_observation(obs, spaces, space, "step()", notes)
            obs, info = calls.reset(2 + t)
    return found


def _probing_action(spaces: Spaces, mask: np.ndarray | None, rng: np.random.Generator) -> np.ndarray:
    """An allowed action; the numbers of a Box are at a bound half of the time, where a policy often is."""
    action = random_action(spaces, mask, rng)
    return action if spaces.discrete else 2 * action


class CallReporter:
    """Reports every call of an environment before it is made, and checks the form of the answer."""

    def __init__(self, env: Env, report_call: ReportCall) -> None:
        self.env = env
        self._report_call = report_call
        self._t = 0

    def reset(self, seed: int) -> tuple[Obs, Info]:
        """Observation and info of a reset."""
        self._t = 0
        self._report_call(f"reset(seed={seed})")
        try:
            answer = self.env.reset(seed=seed)
        except ENV_EXCEPTIONS as error:
            if isinstance(error, TypeError) and "reset() got an unexpected keyword argument" in str(error):
                raise EnvironmentFault(
                    f"reset(seed=...) cannot be called ({error}): define reset(self, *, seed=None, options=None)"
                ) from error
            raise EnvironmentFault(f"reset(seed={seed}) raised {in_one_line(error)}") from error
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise EnvironmentFault(f"reset() returned {shortened(answer)}, but must return (observation, info)")
        if not isinstance(answer[1], dict):
            raise EnvironmentFault(f"reset() returned {shortened(answer[1])} as info, but info must be a dictionary")
        return answer

    def step(self, action: EnvAction) -> tuple[Obs, float, bool, Info]:
        """Observation, reward, whether the episode ended, and info of a step."""
        self._t += 1
        self._report_call(f"step {self._t}")
        try:
            answer: object = self.env.step(action)
        except ENV_EXCEPTIONS as error:
            raise EnvironmentFault(f"step({action!r}) raised {in_one_line(error)}") from error
        if not isinstance(answer, tuple) or len(answer) != 5:
            old = " (the four values of Gym before 0.26)" if isinstance(answer, tuple) and len(answer) == 4 else ""
            raise EnvironmentFault(
                f"step() returned {shortened(answer)}{old}, but must return (observation, reward, terminated, "
                "truncated, info)"
            )
        obs, reward, terminated, truncated, info = answer
        reward = number_or_refuse(reward)
        ended = flag_or_refuse("terminated", terminated) | flag_or_refuse("truncated", truncated)
        if not fits_float32(reward):
            raise EnvironmentFault(f"step() returned the reward {reward}, but rewards must be finite in float32")
        if not isinstance(info, dict):
            raise EnvironmentFault(f"step() returned {shortened(info)} as info, but info must be a dictionary")
        return obs, reward, ended, info


def _check_vector(source: Source) -> tuple[Spaces, list[str]]:
    """``check_env`` for environments that one call steps."""
    try:
        vec_env = open_vec_env(source, source.num_envs or 2)
        notes = [LEFT_OUT.format(name) for name in vec_env.spaces.left_out]
        if isinstance(vec_env, GymVecEnv):
            vec_env.notes = notes
        if _play_vector(vec_env) != _play_vector(vec_env):
            given = source.given if isinstance(source.given, gym.vector.VectorEnv) else None
            notes.append(f"{NOT_REPEATED}: {_why_not_repeated(given, _one_of(source))}")
    except EnvironmentFault:
        # The fault of one environment is easier to understand than what the vector environment made of it.
        if (one := _one_of(source)) is not None:
            with prefixed(source.label(0)):
                check_single(one)
        raise
    vec_env.close()
    return vec_env.spaces, list(dict.fromkeys(notes))


def _play_vector(vec_env: VecEnv) -> list[bytes]:
    """Take a few random steps after a reset of all, and reset the first one alone; the bytes of rows and rewards."""
    rng = np.random.default_rng(0)
    spaces = vec_env.spaces
    found = []
    rows = vec_env.reset({i: ResetSpec(1 + i) for i in range(vec_env.n_envs)})
    for t in range(STEPS):
        step = vec_env.step(np.stack([_probing_action(spaces, mask_in(row, spaces), rng) for row in rows]))
        found += [step.rows.tobytes(), step.reward.tobytes()]
        due = {int(i): ResetSpec(t) for i in np.flatnonzero(step.over)} | ({0: ResetSpec(0)} if t == 0 else {})
        rows = vec_env.reset(due) if due else step.rows
    return found


def _one_of(source: Source) -> Env | None:
    """One of the environments inside a vector environment, if it can be reached."""
    inner = source.given.unwrapped if isinstance(source.given, gym.vector.VectorEnv) else None
    if isinstance(inner, gym.vector.AsyncVectorEnv):
        return inner.env_fns[0]()
    return inner.envs[0] if isinstance(inner, gym.vector.SyncVectorEnv) else None
