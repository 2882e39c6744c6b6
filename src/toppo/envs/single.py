"""One environment on the hot path: it passed the check, so each step repeats only the cheap tests."""

import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy as np
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

from toppo.envs.actions import action_to_env, mask_reader, random_action
from toppo.envs.mujoco import FastStep, control_costs, fast_step
from toppo.envs.mujoco_batch import EnvError, fast_steps
from toppo.envs.observations import MAX_FLOAT32, fits_float32, live_rows, mask_in, numbers_in, row_encoder
from toppo.envs.source import Source, VecEnv, make, open_vec_env
from toppo.envs.spaces import BadValue, Env, Obs, describe, shortened
from toppo.envs.vector import ResetSpec
from toppo.errors import ENV_EXCEPTIONS, EnvironmentFault, NotFinite, in_one_line

MAX_SQUARE = MAX_FLOAT32**2
NAMES = {"reward": "a reward", "obs": "an observation"}

BatchStep = Callable[[np.ndarray], tuple[Sequence[float], list[tuple[int, bool]]]]
"""Actions [E, A] in; all rewards before control costs out, and for every episode that ended its environment and
whether it terminated."""


class Environment:
    """Steps one environment with the policy's actions; counts the time limit itself.

    The observation lies in ``row``, and the next step overwrites it: nothing is allocated and copied.
    """

    def __init__(
        self, env: Env, name: str, masked: bool | None = None, row: np.ndarray | None = None, owned: bool = True
    ) -> None:
        """Strip the checking wrappers; ``name`` stands in messages, and observations go to ``row``.

        An environment that is not ``owned`` is left open at the end.
        """
        self.name = name
        self._owned = owned
        self.env, limit = strip(env)
        self.limit = float("inf") if limit is None else limit
        self.spaces = spaces = describe(env, masked)
        self.row = live_rows(spaces.row_size, spaces.row_dtype)[0] if row is None else row
        self._numbers = numbers_in(self.row, spaces.obs_size)
        self.to_env = action_to_env(spaces)
        self._encode = row_encoder(spaces)
        self._mask = mask_reader(env, spaces)
        self.fast: FastStep | None = fast_step(self.env, self.row)
        self.t = 0  # steps of this episode
        self._seed = 0

    def reset(self, seed: int) -> None:
        """Start an episode."""
        self.t = 0
        self._seed = seed
        try:
            obs, info = self.env.reset(seed=seed)
            self.row[:] = self._encode(obs, self._mask(info, False))
        except ENV_EXCEPTIONS as error:
            raise self.fault(error) from error
        self.refuse_not_finite(obs=self._numbers)

    def step(self, action: np.ndarray) -> tuple[float, bool, bool]:
        """Take one step: reward, terminated, truncated."""
        reward, terminated, truncated = self.step_before_cost(action)
        return reward - float(self.control_costs(action)), terminated, truncated

    def control_costs(self, actions: np.ndarray) -> np.ndarray | float:
        """The part of the rewards that ``step_before_cost`` leaves out.  [..., A] -> [...]"""
        if self.fast is None or not self.fast.control_cost_weight:
            return 0.0
        return control_costs(self.to_env(actions), self.fast.control_cost_weight)

    def step_before_cost(self, action: np.ndarray) -> tuple[float, bool, bool]:
        """``step`` without the action's cost: to subtract those of a whole batch at once is cheaper."""
        env_action = self.to_env(action)
        numbers = self._numbers
        truncated = False
        self.t += 1
        try:
            if self.fast is None:
                reward, terminated, truncated = self._full_step(env_action)
            else:
                reward, terminated = self.fast.step(env_action)
        except ENV_EXCEPTIONS as error:
            raise self.fault(error, action=env_action) from error
        # The product with itself is infinite or NaN if any entry is: a tenth of the price of testing each.
        if not (-MAX_FLOAT32 <= reward <= MAX_FLOAT32 and float(numbers.dot(numbers)) < MAX_SQUARE):
            self.refuse_not_finite(reward=reward, obs=numbers, action=env_action)
        return reward, terminated, truncated or self.t >= self.limit

    def close(self) -> None:
        """Close the environment; an error here cannot spoil anything."""
        with suppress(Exception):
            if self._owned:
                self.env.close()

    def _full_step(self, action: object) -> tuple[float, bool, bool]:
        obs, reward, terminated, truncated, info = self.env.step(action)
        # Python's own types are the usual case, and cost the least to recognise.
        if type(reward) is not float:
            reward = number_or_refuse(reward)
        if type(terminated) is not bool or type(truncated) is not bool:
            terminated = flag_or_refuse("terminated", terminated)
            truncated = flag_or_refuse("truncated", truncated)
        self.row[:] = self._encode(obs, self._mask(info, terminated or truncated))
        return reward, terminated, truncated

    def refuse_not_finite(self, **values: object) -> None:
        """Raise ``NotFinite`` if one of the call's values is not finite in float32."""
        for field, value in values.items():
            if field != "action" and not fits_float32(value):
                where = describe_call(self.name, self._seed, self.t)
                after = f" after action {values['action']}" if "action" in values else ""
                raise NotFinite(
                    f"{where} gave {NAMES[field]} that is not finite ({value}){after}; fix the environment, or "
                    "end the episode before that with --on-nan truncate",
                    self._details(**values) | {"field": NAMES[field].split()[1]},
                )

    def fault(self, error: BaseException, **values: object) -> EnvironmentFault:
        """The fault that an exception of the environment's is, with the call it came from."""
        details = self._details(**values) | {"traceback": traceback.format_exception(error)}
        said = f": {error}" if isinstance(error, BadValue) else f" raised {in_one_line(error)}"
        return EnvironmentFault(f"{describe_call(self.name, self._seed, self.t)}{said}", details)

    def _details(self, **values: object) -> dict[str, object]:
        plain = {name: np.asarray(value).astype(str).tolist() for name, value in values.items()}
        return {"environment": self.name, "seed": self._seed, "step": self.t, **plain}


def number_or_refuse(reward: Obs) -> float:
    """The reward as a float; what is not one number is a ``BadValue``."""
    array = isinstance(reward, np.ndarray) and reward.shape == () and reward.dtype.kind in "iuf"
    if isinstance(reward, bool) or not (array or isinstance(reward, int | float | np.integer | np.floating)):
        raise BadValue(f"the reward is {shortened(reward)}, but must be one number")
    return float(reward)


def flag_or_refuse(name: str, flag: object) -> bool:
    """The flag as Python's bool; what is not True or False is a ``BadValue``."""
    if not isinstance(flag, bool | np.bool_):
        raise BadValue(f"the flag {name} is {shortened(flag)}, but must be True or False")
    return bool(flag)


def batch_step(envs: Sequence[Environment], rows: np.ndarray) -> BatchStep | None:
    """``step_before_cost`` of several environments in one call, whose rows are ``rows`` [E, row].

    None for one environment, or if one is not a MuJoCo task of Gymnasium's, or if their actions cost differently.
    """
    fast = [env.fast for env in envs if env.fast is not None]
    if len(envs) == 1 or len(fast) < len(envs) or len({one.control_cost_weight for one in fast}) > 1:
        return None
    to_env = envs[0].to_env
    numbers = rows.ravel()
    move = fast_steps([env.env for env in envs], fast, rows)

    def step(actions: np.ndarray) -> tuple[Sequence[float], list[tuple[int, bool]]]:
        # The simulator computes in double precision: one conversion here is cheaper than one per environment.
        env_actions = to_env(actions).astype(float)
        for env in envs:
            env.t += 1
        try:
            rewards, terminated = move(env_actions)
        except EnvError as failed:
            j, error = failed.args
            raise envs[j].fault(error, action=env_actions[j]) from error
        if not float(numbers.dot(numbers)) < MAX_SQUARE:  # rewards are finite if the observations are
            for env, action, reward in zip(envs, env_actions, rewards, strict=True):
                env.refuse_not_finite(reward=reward, obs=env.row, action=action)
        return rewards, [(j, terminated[j]) for j, env in enumerate(envs) if terminated[j] or env.t >= env.limit]

    return step


def strip(env: Env) -> tuple[Env, int | None]:
    """The environment without Gymnasium's checks, and its time limit if that was the outermost wrapper.

    Checks that have passed once cost a tenth of every step; ``Environment`` counts the limit instead.
    """
    limit = None
    while isinstance(env, OrderEnforcing | PassiveEnvChecker | TimeLimit):
        if isinstance(env, TimeLimit):
            if limit is not None:
                break
            limit = env._max_episode_steps
        env = env.env
    return env, limit


def describe_call(name: str, seed: int, step: int) -> str:
    """The words for a call of an environment; step 0 is the reset."""
    return f"{name}: step {step} of the episode with seed {seed}" if step else f"{name}: reset(seed={seed})"


def open_environment(
    source: Source, index: int, masked: bool | None = None, row: np.ndarray | None = None
) -> Environment:
    """Open environment number ``index`` of a run."""
    return Environment(make(source), source.label(index), masked, row, owned=not source.is_object)


class FirstEnv:
    """The first of several environments, alone; with the interface of ``Environment``."""

    def __init__(self, vec_env: VecEnv) -> None:
        self.name = vec_env.name
        self.spaces = vec_env.spaces
        self._vec_env = vec_env
        self._rows = np.zeros((vec_env.n_envs, self.spaces.row_size), self.spaces.row_dtype)
        self.row = self._rows[0]
        self._rng = np.random.default_rng(0)

    def reset(self, seed: int) -> None:
        """Start an episode."""
        self._rows[:] = self._vec_env.reset(dict.fromkeys(range(self._vec_env.n_envs), ResetSpec(seed)))

    def step(self, action: np.ndarray) -> tuple[float, bool, bool]:
        """Take one step, in which the others act randomly; an ending is that of the whole episode."""
        others = [random_action(self.spaces, mask_in(row, self.spaces), self._rng) for row in self._rows[1:]]
        step = self._vec_env.step(np.stack([action, *others]))
        ended = {int(i): ResetSpec(0) for i in np.flatnonzero(step.over) if i > 0}
        self._rows[:] = self._vec_env.reset(ended) if ended else step.rows
        over = bool(step.over[0])
        terminated = bool(step.terminated[0])
        return float(step.reward[0]), over and terminated, over and not terminated

    def close(self) -> None:
        """Close all of them."""
        self._vec_env.close()


Player = Environment | FirstEnv


def open_player(source: Source) -> Player:
    """Open one environment to play whole episodes in."""
    if source.is_vector:
        return FirstEnv(open_vec_env(source, source.num_envs or 1))
    return open_environment(source, 0)
