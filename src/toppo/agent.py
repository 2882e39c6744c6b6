"""The Python API: ``ToPPO("HalfCheetah-v5").learn(1_000_000)``."""

import secrets
import signal
import warnings
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from inspect import Parameter, Signature
from os import cpu_count
from pathlib import Path
from typing import ClassVar, Self, get_type_hints

import numpy as np

from toppo import hub
from toppo.algos.settings import help_texts
from toppo.callbacks import Callback, in_order
from toppo.collect.actor import Actor, noise_for
from toppo.collect.faults import OnNan, checked_fault_policy
from toppo.display.progress import run_display
from toppo.envs import EnvSource, Source, Spaces, open_player, resolve
from toppo.envs.actions import action_to_env
from toppo.envs.gym_spaces import gym_action_space, gym_observation_space
from toppo.envs.observations import rows_of
from toppo.envs.spaces import Space, refuse_other_spaces
from toppo.envs.spaces_json import spaces_from_json
from toppo.errors import ToppoError, refuse_below
from toppo.learn.setup import Setup, initial_state
from toppo.learn.state import State
from toppo.learn.xla import prepare
from toppo.rng import Stream, rng_for
from toppo.rundir.checkpoint import Declared, Facts, newest_checkpoint, read_checkpoint, steps_of_newest
from toppo.rundir.layout import Layout, read_json
from toppo.runs.callback_loop import train
from toppo.runs.evaluate import Evaluation, evaluate_policy, frozen_actor
from toppo.runs.presets import defaults, spec_for
from toppo.runs.run import RunOptions, check_run, registered_source, resume, setup_from, source_for, start
from toppo.runs.signals import Interrupted
from toppo.runs.spec import Spec, algorithm, from_json
from toppo.runs.state_io import check_arrays, save_agent, state_from_arrays
from toppo.runs.training import Training


class Agent:
    """A policy, its critic, its normaliser and its memory, with the environment it learns in."""

    algo: ClassVar[str] = ""  # every algorithm has a subclass of its own
    __signature__: ClassVar[Signature]
    _checked_source: Source | None = None

    def __init_subclass__(cls, algo: str = "") -> None:
        """Show the algorithm's settings in the signature and the help of its class."""
        if algo:
            cls.algo = algo
            _document(cls)

    def __init__(
        self,
        *given: EnvSource,
        env: EnvSource | None = None,
        seed: int | None = 0,
        preset: str = "default",
        env_kwargs: Mapping[str, object] | None = None,
        **settings: object,
    ) -> None:
        """Make a new agent for an environment; every setting of the algorithm can be given by name.

        The rest is the preset's: ``default``, the best settings that we know, or ``paper``.

        With ``seed=None`` the agent draws a seed, which its ``spec`` and its ``repr`` show.
        """
        name = type(self).__name__
        if not self.algo:
            raise ToppoError(f"{name} has no algorithm: use toppo.ToPPO, another class of the package, or toppo.load")
        environments = given if env is None else (*given, env)
        if len(environments) != 1:
            raise ToppoError(
                f"{name} takes the environment and then settings by name, such as {name}('CartPole-v1', seed=1): "
                "it chooses the network from the environment's spaces, so there is no policy to name"
            )
        if seed is not None:
            refuse_below(0, "seed", seed)
        source = resolve(environments[0], env_kwargs)
        spec = spec_for(source, self.algo, 1, secrets.randbits(31) if seed is None else int(seed), preset, **settings)
        setup, notes = check_run(spec, source)
        for note in notes:
            warnings.warn(f"{spec.env}: {note}", stacklevel=2)
        self._assemble(spec, source, setup, initial_state(setup))
        self._checked_source = source

    def _assemble(self, spec: Spec, source: Source | None, setup: Setup, state: State) -> None:
        self.spec = spec
        self.source = source
        self.setup = setup
        self.state = state
        self.evaluations: list[Evaluation] = []  # what ``Evaluate`` found, in the last training and those it continued
        self._learning = False
        self._rng = rng_for(spec.seed, Stream.EVALUATION, 0, 2)
        self._actors: dict[int, Actor] = {}  # by number of rows, of the policy in _actors_state
        self._actors_state = state

    @classmethod
    def load(cls, path: str | Path, env: EnvSource | None = None) -> Self:
        """Load what ``save`` wrote, the newest checkpoint of a run directory, or ``hf://owner/name`` from the hub.

        Nothing in the files is executed.  The environment is made only if its id is registered or ``env`` is given.
        """
        if str(path).startswith(hub.PREFIX):
            with hub.downloaded(str(path)) as folder:
                return cls.load(folder, env)

        def spec_and_setup(facts: Facts) -> tuple[Spec, Setup]:
            spec = from_json(facts.get("spec"))
            return spec, setup_from(spec, spaces_from_json(facts.get("spaces")))

        def fits(facts: Facts, arrays: Mapping[str, Declared]) -> None:
            check_arrays(spec_and_setup(facts)[1], arrays, facts.get("state", {}))

        layout = Layout(Path(path))
        is_run = layout.spec.is_file()
        checkpoint = newest_checkpoint(layout.checkpoints, fits)[0] if is_run else read_checkpoint(layout.root, fits)
        spec, setup = spec_and_setup(checkpoint.facts)
        kind = next((kind for kind in (cls, *cls.__subclasses__()) if kind.algo == spec.algo), None)
        if kind is None:
            raise ToppoError(
                f"{path} holds a {algorithm(spec.algo).title} agent: load it with toppo.load({str(path)!r})"
            )
        state = state_from_arrays(setup, checkpoint.arrays, checkpoint.facts.get("state", {}))
        source = None if env is None else source_for(spec, env)
        if source is None:
            with suppress(ToppoError):
                source = registered_source(spec)
        agent = kind.__new__(kind)
        agent._assemble(spec, source, setup, state)
        return agent

    def __repr__(self) -> str:
        """Say which algorithm learned on which environment, from which seed, for how long."""
        return f"{type(self).__name__}({self.spec.env!r}, seed={self.spec.seed}, num_timesteps={self.num_timesteps})"

    @property
    def spaces(self) -> Spaces:
        """What the agent knows of its environment's spaces."""
        return self.setup.spaces

    @property
    def observation_space(self) -> Space:
        """The observations that ``predict`` takes, as a Gymnasium space; its numbers have no bounds."""
        return gym_observation_space(self.spaces)

    @property
    def action_space(self) -> Space:
        """The actions that ``predict`` gives, as a Gymnasium space."""
        return gym_action_space(self.spaces)

    @property
    def num_timesteps(self) -> int:
        """Environment steps used for training so far."""
        return self.state.steps

    def learn(
        self,
        total_timesteps: float,
        callback: Callback | Sequence[Callback] | None = None,
        workers: int | None = None,
        on_nan: OnNan = "raise",
        env_timeout: float = 60.0,
        env_restarts: int = 0,
        progress_bar: bool = False,
        log_dir: str | Path | None = None,
    ) -> Self:
        """Train for so many further steps; a callback that returns False ends the training.

        ``callback`` is a function of the training, an object of ``toppo.callbacks``, or a list of these.  With
        ``log_dir`` the training leaves a run directory, as ``toppo train`` does.  docs/callbacks.md explains both.
        docs/reliability.md explains ``on_nan``, ``env_timeout`` and ``env_restarts``, which say what is done about
        environments that fail.
        """
        if isinstance(total_timesteps, float) and total_timesteps.is_integer():  # 1e6
            total_timesteps = int(total_timesteps)
        refuse_below(1, "total_timesteps", total_timesteps)
        if workers is not None:
            refuse_below(0, "workers", workers)
        if self.source is None:
            raise ToppoError("this agent has no environment to learn in: load it with env=...")
        options = RunOptions(
            workers=default_workers(self.spec) if workers is None else workers,
            fault_policy=checked_fault_policy(on_nan, env_timeout, env_restarts),
            callbacks=[*in_order(callback), _Follower(self)],
        )
        self._learning = True
        try:
            title = f"{algorithm(self.algo).title} on {self.spec.env}, seed {self.spec.seed}"
            with run_display(title, progress_bar) as observe:
                if log_dir is None:
                    self._learn(self.source, int(total_timesteps), options, observe)
                else:
                    self._learn_in(Path(log_dir), self.source, int(total_timesteps), options, observe)
        except Interrupted as stop:
            signal.raise_signal(stop.number)  # the run is saved: now the signal means what it means elsewhere
        finally:
            self._learning = False
        return self

    def _learn(self, source: Source, steps: int, options: RunOptions, observe: Callback) -> None:
        """Train without a run directory."""
        prepare()
        if self._checked_source is not source:
            refuse_other_spaces(source.name, check_run(self.spec, source)[0].spaces, self.spaces)
            self._checked_source = source
        training = Training(
            spec=self.spec,
            source=source,
            setup=self.setup._replace(total_timesteps=self.num_timesteps + steps),
            state=self.state,
            workers=options.workers,
            fault_policy=options.fault_policy,
            tell=_warn,
            evaluations=self.evaluations,
        )
        train(training, in_order(options.callbacks), observe)

    def _learn_in(self, root: Path, source: Source, steps: int, options: RunOptions, observe: Callback) -> None:
        """Train in a new run directory, or continue the run of this agent."""
        total = self.num_timesteps + steps
        spec = replace(self.spec, total_timesteps=total)
        layout = Layout(root)
        if not (self.num_timesteps and layout.spec.is_file()):
            start(spec, source, root, options, observe, _warn, self.state)
            return
        if replace(from_json(read_json(layout.spec)), total_timesteps=total) != spec:
            raise ToppoError(f"{root} holds a run with other settings than this agent's: choose another log_dir")
        if (done := steps_of_newest(layout.checkpoints)) > self.num_timesteps:
            raise ToppoError(
                f"{root} holds a run of {done} steps, but this agent has learned for {self.num_timesteps}: load that "
                "run with toppo.load, or choose another log_dir"
            )
        resume(root, source, options, observe, _warn, total_timesteps=total)

    def predict(
        self,
        observation: object,
        state: tuple[np.ndarray, ...] | None = None,
        episode_start: np.ndarray | None = None,
        deterministic: bool = False,
        action_masks: object = None,
    ) -> tuple[np.ndarray, tuple[np.ndarray, ...] | None]:
        """Actions for one observation or a batch of them, in the environment's own bounds.

        Follows Stable-Baselines3's convention, so its ``evaluate_policy`` accepts the agent.
        """
        spaces = self.spaces
        rows, single = rows_of(spaces, observation, action_masks)
        noise = noise_for(self._rng, len(rows), spaces.action_size, spaces.discrete) * (not deterministic)
        to_env = action_to_env(spaces)
        actions = np.stack([np.asarray(to_env(action)) for action in self._actor(len(rows))(rows, noise)])
        return (actions[0] if single else actions), state

    def _actor(self, rows: int) -> Actor:
        """The policy as it is now for so many rows; made once, since whoever predicts does so at every step."""
        if self._actors_state is not self.state:
            self._actors.clear()
            self._actors_state = self.state
        if rows not in self._actors:
            self._actors[rows] = frozen_actor(self.state, self.setup, rows)
        return self._actors[rows]

    def evaluate(self, episodes: int = 10, deterministic: bool = True, env: EnvSource | None = None) -> list[float]:
        """Undiscounted returns of whole episodes with the frozen normaliser."""
        source = self.source if env is None else resolve(env)
        if source is None:
            raise ToppoError("this agent has no environment to play in: give env=...")
        if self._learning and source.is_object and self.source is not None and source.given is self.source.given:
            raise ToppoError(
                f"the agent is learning in this {type(source.given).__name__}, and would lose its episode: "
                "give env=... to evaluate while learning"
            )
        refuse_below(1, "episodes", episodes)
        with closing(open_player(source)) as player:
            results = evaluate_policy(self.state, self.setup, player, episodes, self.spec.seed, deterministic)
        return [result.episode_return for result in results]

    def save(self, path: str | Path) -> None:
        """Write everything the agent is into a directory: it can be loaded to act or to learn on."""
        save_agent(Path(path), self.spec, self.setup, self.state)


class _Follower:
    """Keeps an agent in step with its training, and warns of faults that it survived."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent

    def on_training_start(self, training: Training) -> None:
        """Let the training and the agent know each other."""
        training.agent = self.agent
        self.agent.state = training.state
        self.agent.evaluations = training.evaluations

    def __call__(self, training: Training) -> None:
        """Warn of faults."""
        for fault in training.faults:
            _warn(fault.sentence)


def _warn(sentence: str) -> None:
    """Pass on what the training says, except the notes on the environment, which the agent gave when it was made."""
    if not sentence.startswith("note: "):
        warnings.warn(sentence.removeprefix("warning: "), stacklevel=2)


def _document(kind: type[Agent]) -> None:
    """Put every setting with its text and default into the signature and the docstring of an agent's class."""
    rows = [
        ("seed", int, 0, "Seed of everything random."),
        ("preset", str, "default", "Where the other settings start: default or paper."),
        ("env_kwargs", Mapping[str, object] | None, None, "Arguments of the environment, as JSON data."),
    ]
    for settings in reversed(defaults(kind.algo, "")):
        hints = get_type_hints(type(settings))
        texts = help_texts(type(settings))
        rows += [(name, hints[name], getattr(settings, name), text) for name, text in texts.items()]
    env = Parameter("env", Parameter.POSITIONAL_OR_KEYWORD, annotation="EnvSource")
    others = [Parameter(name, Parameter.KEYWORD_ONLY, default=value, annotation=hint) for name, hint, value, _ in rows]
    kind.__signature__ = Signature([env, *others])
    lines = "\n".join(f"    {name}: {text} Default: {value!r}." for name, _, value, text in rows)
    kind.__doc__ = (
        f"{kind.__doc__}\n\nSettings and their defaults; MuJoCo tasks and Atari games have some defaults of their own, "
        f"which `toppo train ENV --help` shows.\n\n{lines}"
    )


class ToPPO(Agent, algo="toppo"):
    """Transductive Off-policy PPO: PPO that also learns from batches of earlier policies."""


class PPO(Agent, algo="ppo"):
    """Proximal Policy Optimisation."""


class TRPO(Agent, algo="trpo"):
    """Trust Region Policy Optimisation."""


class GePPO(Agent, algo="geppo"):
    """Generalised PPO: PPO on the last batches, with optimal weights and V-trace."""


class OffPolicyTRPO(Agent, algo="otrpo"):
    """TRPO on the newest and older batches."""


class OffPolicyPPO(Agent, algo="oppo"):
    """PPO on the newest and older batches, with V-trace."""


class DISC(Agent, algo="disc"):
    """Dimension-wise Importance Sampling weight Clipping."""


load = Agent.load


def default_workers(spec: Spec) -> int:
    """One process per environment, as far as there are cores."""
    return min(spec.common.n_envs, cpu_count() or 1)
