"""A training as its callbacks see it, and what they may do with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from toppo.collect.faults import FaultPolicy, SurvivedFault
from toppo.envs import EnvSource, Source, open_player, resolve
from toppo.errors import ToppoError
from toppo.learn.loop import Iteration
from toppo.learn.metrics import Episode, Metrics
from toppo.learn.session import Session
from toppo.learn.setup import Setup
from toppo.learn.state import State
from toppo.rundir.checkpoint import refuse_to_replace
from toppo.rundir.jsonl import Row
from toppo.runs.directory import RunDirectory
from toppo.runs.evaluate import Evaluation, evaluate_policy
from toppo.runs.spec import Spec, to_json
from toppo.runs.state_io import describe_agent, save_agent

if TYPE_CHECKING:
    from toppo.agent import Agent

Tell = Callable[[str], object]  # takes a note or a warning in one sentence
Values = dict[str, float | list[float] | list[int]]


@dataclass
class Training:
    """A training as its callbacks see it; it has the attributes of the newest ``Iteration``."""

    spec: Spec
    source: Source
    setup: Setup
    state: State
    workers: int
    fault_policy: FaultPolicy
    tell: Tell
    directory: RunDirectory | None = None
    agent: Agent | None = None  # of ``learn``; the command line trains without
    evaluations: list[Evaluation] = field(default_factory=list)  # the tests so far, of earlier sessions too
    repeats: bool = True  # does reset(seed=...) lead to the same episode again?
    exact: bool = True  # are the numbers those of a run without stops and faults?
    iteration: Iteration | None = None  # the newest
    timing: dict[str, float] = field(default_factory=dict)  # of the newest iteration
    elapsed: float = 0.0  # seconds since this session began to train
    activity: str = ""  # what takes the training's time now, if it is not learning
    stopped_by: str = ""  # the callback that ended the training before its time
    first_step: int = 0  # where this session begins
    steps_before: int = 0  # the newest iteration
    session: Session | None = None

    @property
    def num_timesteps(self) -> int:
        """Environment steps used for training so far."""
        return self.state.steps

    @property
    def total_timesteps(self) -> int:
        """Environment steps at which the training ends."""
        return self.setup.total_timesteps

    @property
    def metrics(self) -> Metrics:
        """What the newest iteration leaves in metrics.jsonl."""
        return self.iteration.metrics if self.iteration else {}

    @property
    def episodes(self) -> list[Episode]:
        """The episodes that ended in the newest iteration."""
        return self.iteration.episodes if self.iteration else []

    @property
    def seconds(self) -> dict[str, float]:
        """The seconds of the parts of the newest iteration."""
        return self.iteration.seconds if self.iteration else {}

    @property
    def faults(self) -> list[SurvivedFault]:
        """The faults of environments that the newest iteration survived."""
        return self.iteration.faults if self.iteration else []

    @property
    def evaluation(self) -> Evaluation | None:
        """The test of the newest iteration, if it has one."""
        newest = self.evaluations[-1:]
        return newest[0] if newest and newest[0].step == self.num_timesteps else None

    @property
    def root(self) -> Path | None:
        """The run directory, if there is one."""
        return self.directory.layout.root if self.directory else None

    @property
    def name(self) -> str:
        """A name of the training for people."""
        return self.root.name if self.root else f"{self.spec.env}__{self.spec.algo}__{self.spec.seed}"

    def settings(self) -> dict[str, object]:
        """Return all that defines the training, by name."""
        spec = to_json(self.spec)
        nested = [spec.pop("common"), spec.pop("config")]
        return spec | {
            name: value for settings in nested if isinstance(settings, dict) for name, value in settings.items()
        }

    def values(self) -> Values:
        """Return the metrics, the timing and the test of the newest iteration."""
        return {**self.metrics, **self.timing, **(self.evaluation.values() if self.evaluation else {})}

    def logged(self) -> Iterable[tuple[int, Row]]:
        """Return the values of all earlier steps that the run directory has, by step."""
        return self.directory.rows() if self.directory else ()

    def collected(self) -> tuple[int, int | None]:
        """Return the number of the newest batch, and about how many of its steps are done, if that is known."""
        return self.session.collector.progress() if self.session else (0, 0)

    def is_due(self, every: int) -> bool:
        """Return whether the newest iteration reached a multiple of ``every`` steps, or is the last one."""
        return self.is_last() or self.num_timesteps // every > self.steps_before // every

    def is_last(self) -> bool:
        """Return whether the training has done all its steps."""
        return self.num_timesteps >= self.total_timesteps

    def evaluate(self, episodes: int, env: EnvSource | None = None) -> Evaluation:
        """Play episodes with the most likely actions and the normaliser frozen, from the same starts every time."""
        self.activity = f"testing: {episodes} episodes"
        with closing(open_player(self.source_to_play_in(env))) as player:
            results = evaluate_policy(self.state, self.setup, player, episodes, self.spec.seed)
        self.activity = ""
        returns = [result.episode_return for result in results]
        cut = sum(not result.ended for result in results)
        test = Evaluation(step=self.num_timesteps, mean=sum(returns) / episodes, returns=returns, cut=cut)
        self.evaluations.append(test)
        if self.directory:
            self.directory.write_evaluation(test)
        return test

    def source_to_play_in(self, env: EnvSource | None) -> Source:
        """Return the environment for tests, or refuse the object that the training itself steps."""
        source = self.source if env is None else resolve(env)
        if source.is_object and source.given is self.source.given:
            raise ToppoError(
                f"the agent is learning in this {type(source.given).__name__}, and would lose its episode: "
                "give Evaluate(env=...)"
            )
        return source

    def save(self, target: str | Path) -> None:
        """Save the agent for ``toppo.load``."""
        save_agent(Path(target), self.spec, self.setup, self.state)

    def refuse_to_replace(self, target: Path) -> None:
        """Refuse a target for ``save`` that exists and is not an agent."""
        refuse_to_replace(target)

    def checkpoint(self) -> None:
        """Save all that resuming needs into the run directory."""
        if self.directory:
            arrays, facts = describe_agent(self.spec, self.setup, self.state)
            self.directory.save(self.num_timesteps, arrays, {**facts, "exact": self.exact})
