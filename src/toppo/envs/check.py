"""Before training: does the environment keep its word?  What is wrong is said in one sentence, with the way out."""

from inspect import Parameter, signature
from typing import Any

import gymnasium as gym
import numpy as np

from toppo.envs.actions import action_to_env, mask_reader
from toppo.envs.observations import entry, held
from toppo.envs.spaces import Env, Part, Spaces, describe
from toppo.errors import ENV_EXCEPTIONS, EnvironmentFault, in_one_line

STEPS = 20
NOT_REPEATED = (
    "it does not repeat itself after reset(seed=...) with the same actions, so resuming will not be bit-exact: draw "
    "all randomness from self.np_random"
)
LATE_MASK = (
    "step() gave an action_mask, but reset() gave none, so the first action would be chosen without: give it with both"
)
UNUSED_MASK = "its action_mask is not used, because its actions are numbers"


def examine(env: Env) -> tuple[Spaces, list[str]]:
    """The environment's spaces, and notes on what is odd but can be lived with; a fault ends in an exception."""
    for name in ("observation_space", "action_space"):
        if not isinstance(found := getattr(env, name, None), gym.Space):
            raise EnvironmentFault(
                f"{name} is {kind(found)}, but must be a space: define self.{name} = gymnasium.spaces... in __init__"
            )
    _, info = reset_and_check(env, 0)
    spaces = describe(env)
    notes = notes_on(spaces)
    if not spaces.discrete and "action_mask" in info:
        notes.append(UNUSED_MASK)
    first = play(env, spaces, notes)
    if first != play(env, spaces, []):
        notes.append(NOT_REPEATED)
    return spaces, list(dict.fromkeys(notes))


def notes_on(spaces: Spaces) -> list[str]:
    """A line for every entry of the observation that no network reads."""
    return [f"the observation's entry {name!r} is text and is left out" for name in spaces.left_out]


def reset_and_check(env: Env, seed: int) -> tuple[Any, dict[str, Any]]:
    """What ``reset`` gives, if it has the right form."""
    try:
        answer = env.reset(seed=seed)
    except ENV_EXCEPTIONS as error:
        if isinstance(error, TypeError) and not takes_seed_and_options(env):
            raise EnvironmentFault(
                f"reset(seed=...) cannot be called ({error}): define reset(self, *, seed=None, options=None)"
            ) from error
        raise EnvironmentFault(f"reset(seed={seed}) raised {in_one_line(error)}") from error
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise EnvironmentFault(f"reset() returned {kind(answer)}, but must return (observation, info)")
    if not isinstance(answer[1], dict):
        raise EnvironmentFault(f"reset() returned {kind(answer[1])} as info, but info must be a dictionary")
    return answer


def takes_seed_and_options(env: Env) -> bool:
    """Can ``reset`` be called as Gymnasium does it, here and in all that is wrapped?"""
    parameters = signature(env.reset).parameters.values()
    anything = any(p.kind is Parameter.VAR_KEYWORD for p in parameters)
    known = anything or {"seed", "options"} <= {p.name for p in parameters}
    return known and (not isinstance(env, gym.Wrapper) or takes_seed_and_options(env.env))


def play(env: Env, spaces: Spaces, notes: list[str]) -> list[bytes]:
    """A few random steps, every one examined; a fingerprint of what was seen."""
    rng, to_env, read_mask, seen = np.random.default_rng(0), action_to_env(spaces), mask_reader(env, spaces), []
    obs, info = reset_and_check(env, 1)
    for t in range(STEPS):
        examine_observation(obs, spaces, env.observation_space, "reset()" if t == 0 else "step()", notes)
        seen.append(b"".join(np.ascontiguousarray(entry(obs, part)).tobytes() for part in spaces.parts))
        try:
            mask = read_mask(info, False)
        except ValueError as error:
            raise EnvironmentFault(str(error)) from error
        obs, reward, ended, info = step_and_check(env, to_env(probing_action(spaces, mask, rng)))
        if spaces.discrete and not spaces.masked and "action_mask" in info:
            raise EnvironmentFault(LATE_MASK)
        seen.append(np.float64(reward).tobytes())
        if ended:
            examine_observation(obs, spaces, env.observation_space, "step()", notes)
            obs, info = reset_and_check(env, 2 + t)
    return seen


def step_and_check(env: Env, action: Any) -> tuple[Any, float, bool, dict[str, Any]]:
    """Observation, reward, ended and info of a step, if they have the right form."""
    try:
        answer = env.step(action)
    except ENV_EXCEPTIONS as error:
        raise EnvironmentFault(f"step({action!r}) raised {in_one_line(error)}") from error
    if not isinstance(answer, tuple) or len(answer) != 5:
        old = " (the four values of Gym before 0.26)" if isinstance(answer, tuple) and len(answer) == 4 else ""
        raise EnvironmentFault(
            f"step() returned {kind(answer)}{old}, but must return (observation, reward, terminated, truncated, info)"
        )
    obs, reward, terminated, truncated, info = answer
    number = isinstance(reward, int | float | np.number) or (isinstance(reward, np.ndarray) and reward.shape == ())
    if not number or isinstance(reward, bool | np.complexfloating):
        raise EnvironmentFault(f"step() returned {kind(reward)} as reward, but a reward must be one number")
    if not held(reward):
        raise EnvironmentFault(f"step() returned the reward {reward}, but rewards must be finite in float32")
    for name, flag in (("terminated", terminated), ("truncated", truncated)):
        if not isinstance(flag, bool | np.bool_):
            raise EnvironmentFault(f"step() returned {kind(flag)} as {name}, but it must be True or False")
    if not isinstance(info, dict):
        raise EnvironmentFault(f"step() returned {kind(info)} as info, but info must be a dictionary")
    return obs, float(reward), bool(terminated or truncated), info


def examine_observation(obs: Any, spaces: Spaces, space: gym.Space[Any], where: str, notes: list[str]) -> None:
    """Refuse an observation that does not fit its space; note one that fits only with a cast or outside its bounds."""
    for part in spaces.parts:
        name = f"the observation's entry {'/'.join(map(str, part.path))!r}" if part.path else "the observation"
        try:
            value = np.asarray(entry(obs, part))
        except (KeyError, IndexError, TypeError) as error:
            raise EnvironmentFault(f"{where} gave {kind(obs)} without {name}, which its space has") from error
        except ValueError as error:
            raise EnvironmentFault(f"{name} that {where} gave is no array ({error})") from error
        oddities = _examine_part(value, part, entry(space, part), f"{name} that {where} gave")
        notes += [f"{name} {oddity}" for oddity in oddities]


def _examine_part(value: np.ndarray, part: Part, space: Any, name: str) -> list[str]:
    if value.dtype.kind not in "biuf":
        raise EnvironmentFault(f"{name} is of type {value.dtype}, but must be numbers")
    if value.shape != part.shape:
        raise EnvironmentFault(f"{name} has shape {value.shape}, but its space has {part.shape}: mend one of them")
    if not held(value):
        why = "more than a float32 can hold" if np.isfinite(value).all() else "not finite"
        raise EnvironmentFault(f"{name} is {why} ({value}): mend what computes it")
    if part.kind != "numbers" and value.dtype.kind == "f":
        raise EnvironmentFault(f"{name} is of type {value.dtype}, but its space has {space.dtype}: convert it")
    if part.kind == "choices":
        values, starts = value.ravel().astype(int), np.array(part.starts, int)
        if np.any(values < starts) or np.any(values >= starts + np.array(part.choices, int)):
            raise EnvironmentFault(f"{name} is {value.tolist()}, which is not in its space {space}: mend one of them")
        return []
    oddities = []
    if np.any(value < space.low) or np.any(value > space.high):
        if part.kind == "image":
            raise EnvironmentFault(f"{name} has values outside of its space {space}: mend one of them")
        oddities.append(f"leaves the bounds of its space {space}")
    if value.dtype != space.dtype:
        oddities.append(f"is of type {value.dtype}, but its space has {space.dtype}: it is converted")
    return oddities


def probing_action(spaces: Spaces, mask: np.ndarray | None, rng: np.random.Generator) -> np.ndarray:
    """An action that is allowed; the numbers of a Box are at a bound half of the time, where a policy often is."""
    action = random_action(spaces, mask, rng)
    return action if spaces.discrete else 2 * action


def random_action(spaces: Spaces, mask: np.ndarray | None, rng: np.random.Generator) -> np.ndarray:
    """An action that is allowed."""
    if not spaces.discrete:
        return rng.uniform(-1, 1, spaces.action_size).astype(np.float32)
    allowed = np.ones(spaces.action_size, bool) if mask is None else mask
    parts = np.split(allowed, np.cumsum(spaces.choices[:-1]))
    chosen = np.array([rng.choice(np.flatnonzero(part)) for part in parts])
    return chosen.reshape(spaces.action_row)


def kind(value: Any) -> str:
    """What a value is, in a few words."""
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    return f"{type(value).__name__} {' '.join(repr(value).split()):.40}" if value is not None else "None"
