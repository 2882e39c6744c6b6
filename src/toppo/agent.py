"""The Python API: ``ToPPO("HalfCheetah-v5").learn(1_000_000)``."""

import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from os import cpu_count
from pathlib import Path
from typing import Any, Self

import numpy as np

from toppo.collect.actor import Actor, noise_for
from toppo.collect.episodes import after_replay, describe_failed_replays
from toppo.collect.faults import OnNan, checked_fault_policy
from toppo.collect.pool import open_pool
from toppo.envs import EnvSource, Source, Spaces, open_player, resolve
from toppo.envs.actions import action_to_env
from toppo.envs.observations import rows_of
from toppo.envs.spaces import refuse_other_spaces
from toppo.envs.spaces_json import spaces_from_json, spaces_to_json
from toppo.errors import ToppoError
from toppo.learn.loop import Iteration, train
from toppo.learn.setup import Setup, acting, initial_state, plan
from toppo.learn.state import State
from toppo.learn.xla import prepare
from toppo.rng import Stream, rng_for
from toppo.rundir.checkpoint import Declared, Facts, newest_checkpoint, read_checkpoint, write_checkpoint
from toppo.rundir.layout import Layout
from toppo.runs import run as runs
from toppo.runs.evaluate import evaluate_policy, policy_of
from toppo.runs.presets import spec_for
from toppo.runs.spec import Spec, from_json, to_json
from toppo.runs.state_io import check_facts, state_from_arrays, state_to_arrays

Callback = Callable[[Iteration], bool | None]


class Agent:
    """A policy, its critic, its normaliser and its memory, with the environment it learns in."""

    def __init__(self, spec: Spec, source: Source | None, setup: Setup, state: State) -> None:
        """Use the class methods, or one of the named algorithms such as ``toppo.ToPPO``."""
        self.spec, self.source, self.setup, self.state = spec, source, setup, state
        self._learning = False
        self._looked_at: Source | None = None
        self._rng = rng_for(spec.seed, Stream.EVALUATION, 0, 2)
        self._actors: tuple[State, dict[int, Actor]] = (state, {})

    @property
    def spaces(self) -> Spaces:
        """What the agent knows of its environment's spaces."""
        return self.setup.spaces

    @property
    def num_timesteps(self) -> int:
        """Environment steps used for training so far."""
        return self.state.steps

    def learn(
        self,
        total_timesteps: int,
        callback: Callback | None = None,
        workers: int | None = None,
        on_nan: OnNan = "raise",
        env_timeout: float = 60.0,
        env_restarts: int = 0,
    ) -> Self:
        """Train for so many further steps; a callback that returns False ends the training.

        The last three say what is done about environments that fail, as docs/reliability.md explains.
        """
        if self.source is None:
            raise ToppoError("this agent has no environment to learn in: load it with env=...")
        prepare()
        self._look()
        setup = self.setup._replace(total_timesteps=self.state.steps + total_timesteps)
        workers = default_workers(self.spec) if workers is None else workers
        bears = checked_fault_policy(on_nan, env_timeout, env_restarts)
        pool = open_pool(plan(setup), self.source, workers, bears, acting(setup))
        self._learning = True
        try:
            if self.state.batches:
                lost = pool.restore(self.state.episodes)
                self.state = self.state._replace(episodes=after_replay(self.state.episodes, lost))
                if lost:
                    warnings.warn(f"{describe_failed_replays(lost)}: continued, not bit-exact", stacklevel=2)
            for iteration in train(setup, self.state, pool):
                self.state = iteration.state
                for fault in iteration.faults:
                    warnings.warn(fault.sentence, stacklevel=2)
                if callback is not None and callback(iteration) is False:
                    break
        finally:
            self._learning = False
            pool.close()
        return self

    def _look(self) -> None:
        """Refuse an environment that does not keep its word, or is another one than the agent knows; once."""
        if self._looked_at is not self.source and self.source is not None:
            spaces = runs.setup_for(self.spec, self.source).spaces
            refuse_other_spaces(self.source.name, spaces, self.spaces)
            self._looked_at = self.source

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
        action_masks: Any = None,
    ) -> tuple[np.ndarray, Any]:
        """Actions for one observation or a batch of them, in the environment's own bounds.

        Follows Stable-Baselines3's convention, so its ``evaluate_policy`` accepts the agent.
        """
        rows, single = rows_of(self.spaces, observation, action_masks)
        noise = noise_for(self._rng, len(rows), self.spaces.action_size, self.spaces.discrete) * (not deterministic)
        to_env, actor = action_to_env(self.spaces), self._actor(len(rows))
        actions = np.stack([np.asarray(to_env(action)) for action in actor(rows, noise)])
        return (actions[0] if single else actions), state

    def _actor(self, rows: int) -> Actor:
        """What acts on so many rows; made once for a state, since whoever predicts does so at every step."""
        if self._actors[0] is not self.state:
            self._actors = (self.state, {})
        known = self._actors[1]
        if rows not in known:
            known[rows] = policy_of(self.state, self.setup).actor(rows)
        return known[rows]

    def evaluate(self, episodes: int = 10, deterministic: bool = True, env: EnvSource | None = None) -> list[float]:
        """Undiscounted returns of whole episodes with the frozen normaliser."""
        source = self.source if env is None else resolve(env)
        if source is None:
            raise ToppoError("this agent has no environment to play in: give env=...")
        if self._learning and source.is_object and self.source is not None and source.given is self.source.given:
            raise ToppoError(
                f"the agent is learning in this {type(source.given).__name__}, whose episode would be played out under "
                "it: give env=... to evaluate while learning"
            )
        world = open_player(source)
        try:
            results = evaluate_policy(policy_of(self.state, self.setup), world, episodes, self.spec.seed, deterministic)
        finally:
            world.close()
        return [result.episode_return for result in results]

    def save(self, path: str | Path) -> None:
        """Write everything the agent is into a directory: it can be loaded to act or to learn on."""
        arrays, counters = state_to_arrays(self.state)
        facts = {"spec": to_json(self.spec), "spaces": spaces_to_json(self.spaces), "state": counters}
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists() and not (target / "manifest.json").is_file():
            raise ToppoError(f"{target} exists and is not a saved agent: choose another name")
        write_checkpoint(target, arrays, facts)


def create(algo: str, env: EnvSource, seed: int = 0, **settings: Any) -> Agent:
    """A new agent of an algorithm, with any of its settings by name."""
    source = resolve(env)
    if source.num_envs is not None:
        settings = {"n_envs": source.num_envs, **settings}
    spec = spec_for(source, algo, 1, seed, **settings)
    setup = runs.setup_for(spec, source)
    agent = Agent(spec, source, setup, initial_state(setup))
    agent._looked_at = source
    return agent


def load(path: str | Path, env: EnvSource | None = None) -> Agent:
    """An agent from what ``Agent.save`` wrote, or from the newest checkpoint of a run directory.

    Nothing in the files is executed.  The environment is made only if its id is registered or ``env`` is given.
    """
    layout = Layout(Path(path))

    def fits(facts: Facts, arrays: Mapping[str, Declared]) -> None:
        check_facts(_setup_from(facts)[1], facts, arrays)

    is_run = layout.spec.is_file()
    checkpoint = newest_checkpoint(layout.checkpoints, fits)[0] if is_run else read_checkpoint(layout.root, fits)
    spec, setup = _setup_from(checkpoint.facts)
    state = state_from_arrays(setup, checkpoint.arrays, checkpoint.facts.get("state", {}))
    source = None if env is None else resolve(env)
    if source is None:
        with suppress(ToppoError):
            source = runs.registered_source(spec)
    return Agent(spec, source, setup, state)


def _setup_from(facts: Facts) -> tuple[Spec, Setup]:
    """The fixed parts of an agent, as its file says."""
    spec, spaces = from_json(facts.get("spec")), spaces_from_json(facts.get("spaces"))
    return spec, runs.setup_from(spec, spaces)


def default_workers(spec: Spec) -> int:
    """One process per environment, as far as there are cores."""
    return min(spec.common.n_envs, cpu_count() or 1)
