"""The training loop.  It knows no files and no algorithm by name."""

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from scipy.signal import lfilter

from toppo.collect.episodes import Finished, advance, no_episode
from toppo.collect.pool import Pool
from toppo.collect.worker import Buffers, Plan
from toppo.envs import Spaces
from toppo.errors import LearnerFault
from toppo.maths.moments import Moments, merge, no_data, standard_deviation
from toppo.nets import acting_weights, categorical_net, gaussian_net
from toppo.optimise import adam_init
from toppo.streams import Purpose, seed_for, stream
from toppo.types import (
    Algorithm,
    Ascent,
    Common,
    Improved,
    Learner,
    Memory,
    Net,
    Params,
    Scale,
    Segment,
    State,
)
from toppo.update import RawBatch, compile_programs


class Episode(NamedTuple):
    """A finished episode: the step at which it ended, where, and what it earned."""

    step: int
    env: int
    ret: float
    length: int


class Iteration(NamedTuple):
    """What one turn of the loop leaves: the state to continue from, and what happened."""

    state: State
    metrics: dict[str, float | list[float] | list[int]]
    episodes: list[Episode]
    seconds: dict[str, float]


class Setup(NamedTuple):
    """A run's fixed parts."""

    algorithm: Algorithm
    config: Any
    common: Common
    spaces: Spaces
    steps: int  # in all
    seed: int


def network(common: Common, spaces: Spaces) -> Net:
    """Policy and critic for the environment's spaces."""
    if spaces.discrete:
        return categorical_net(spaces.obs_size, spaces.action_size, common.hidden)
    return gaussian_net(spaces.obs_size, spaces.action_size, common.hidden, common.log_std)


def check(setup: Setup) -> None:
    """Refuse an algorithm with settings or actions that it cannot serve."""
    setup.algorithm.check(setup.config, setup.common, setup.spaces.discrete)


def plan(setup: Setup) -> Plan:
    """What the workers must know."""
    common, spaces = setup.common, setup.spaces
    params = network(common, spaces).init(0)
    shapes = tuple(w.shape for w in acting_weights(params.policy))
    return Plan(
        setup.seed,
        setup.config.n // common.envs,
        common.envs,
        spaces.obs_size,
        spaces.action_size,
        spaces.discrete,
        common.reset_each_batch,
        shapes,
    )


def initial_learner(setup: Setup) -> Learner:
    """Parameters and optimisers before the first update."""
    params = network(setup.common, setup.spaces).init(seed_for(setup.seed, Purpose.NETWORK))
    policy_opt = setup.algorithm.init_opt(setup.config, setup.common, params.policy)
    return Learner(params, policy_opt, adam_init(setup.common, params.value), jnp.ones(()))


def initial_state(setup: Setup) -> State:
    """Before the first step."""
    check(setup)
    size = setup.spaces.obs_size
    episodes = (no_episode(plan(setup)),) * setup.common.envs
    return State(initial_learner(setup), no_data((size,)), no_data(()), (), episodes, 0, 0, 0)


def train(setup: Setup, state: State, pool: Pool) -> Iterator[Iteration]:
    """Iterations until ``setup.steps`` steps are done.  The same state and setup give the same bytes."""
    loop = _Loop(setup, pool)
    while state.batches * setup.config.n < setup.common.noop_steps:
        state = loop.warm_up(state)
    if state.steps < setup.steps:
        loop.start(state)
    while state.steps < setup.steps:
        iteration = loop.iterate(state)
        state = iteration.state
        yield iteration


class _Loop:
    """One iteration, step by step, in the order in which the data flow."""

    def __init__(self, setup: Setup, pool: Pool) -> None:
        self.setup, self.pool = setup, pool
        self.net = network(setup.common, setup.spaces)
        self.programs = compile_programs(setup.algorithm, setup.config, setup.common, self.net)

    def warm_up(self, state: State) -> State:
        """A no-op batch: it moves the statistics and nothing else."""
        self.start(state)
        self.pool.finish()
        return self._observed(state, self.pool.buffers, use_cut_episodes=True)[0]

    def start(self, state: State) -> None:
        """Hand the policy and the normaliser to the workers and let them collect."""
        buffers, scale = self.pool.buffers, self._scale(state)
        buffers.shift[:], buffers.factor[:] = scale.obs_shift, scale.obs_factor
        for target, weight in zip(buffers.weights, acting_weights(state.learner.params.policy), strict=True):
            if not np.isfinite(weight).all():
                raise LearnerFault(
                    f"iteration {state.iteration}: the policy's parameters are not finite; lower --lr or look at the "
                    "rewards of the environment"
                )
            target[:] = weight
        self.pool.start(state.batches)

    def iterate(self, state: State) -> Iteration:
        """Collect, label, draw, improve, keep."""
        setup, common, clock = self.setup, self.setup.common, _Stopwatch()
        algorithm, config, learner, k = setup.algorithm, setup.config, state.learner, state.iteration
        self.pool.finish()
        clock.lap("collect")
        observed, finished = self._observed(state, self.pool.buffers)
        segment, explained = self._label(state)
        memory, gaps = self._relabel(learner.params, (*state.memory, segment))
        clock.lap("label")

        drawn = algorithm.draw(config, memory, gaps, stream(setup.seed, Purpose.DRAW, k))
        lr = jnp.float32(algorithm.lr(config, common, state.steps / setup.steps))
        improved, sample = self.programs.improve(
            learner.params.policy,
            learner.policy_opt,
            tuple(
                self.programs.prepare(learner.params, batch, jnp.float32(weight), newest=i == 0)
                for i, (batch, weight) in enumerate(zip(drawn.segments, drawn.weights, strict=True))
            ),
            self._order(k, drawn.weights),
            lr,
            learner.lr_scale,
            jnp.float32(drawn.clip_eps),
        )
        params = learner.params._replace(policy=improved.policy)
        state = observed._replace(
            learner=Learner(params, improved.opt, learner.value_opt, improved.lr_scale),
            iteration=k + 1,
            steps=state.steps + config.n,
        )
        int(improved.epochs)  # wait for the program to end
        clock.lap("update")
        if state.steps < setup.steps:
            self.start(state)
        clock.lap("start")

        fitted = self.programs.regress(
            learner.params.value,
            learner.value_opt,
            sample,
            self._order(k, drawn.weights if algorithm.value_on_old(config) else drawn.weights[:1]),
            lr,
            improved.epochs,
        )
        kl = [float(self.programs.divergence(improved.policy, batch)) for batch in memory]
        kept = algorithm.keep(config, memory, kl)
        clock.lap("select")
        learner = state.learner._replace(
            params=state.learner.params._replace(value=fitted.params), value_opt=fitted.opt
        )
        state = state._replace(learner=learner, memory=kept)
        metrics = self._metrics(state, memory, kl, improved, fitted, finished)
        metrics |= {
            "train/explained_variance": _number(explained),
            **({"train/clip_range": drawn.clip_eps} if drawn.clip_eps else {}),
            "train/learning_rate": _number(lr * learner.lr_scale),
            "train/learning_rate_value": _number(lr),
        }
        clock.lap("value")
        self._check(metrics, k)
        first = state.steps - config.n
        episodes = [
            Episode(first + f.t * common.envs + f.env + 1, f.env, float(f.rewards.sum()), len(f.rewards))
            for f in finished
        ]
        return Iteration(state, metrics, episodes, clock.laps)

    def _observed(self, state: State, buffers: Buffers, use_cut_episodes: bool = False) -> tuple[State, list[Finished]]:
        """The state with the batch's episodes accounted for and its data in the statistics."""
        common = self.setup.common
        episodes, finished = advance(state.episodes, buffers, common.reset_each_batch)
        state = state._replace(episodes=episodes, batches=state.batches + 1)
        if common.normalise_obs:
            data = buffers.obs.reshape(-1, buffers.obs.shape[-1])
            state = state._replace(obs_moments=merge(state.obs_moments, data))
        if common.normalise_reward:
            rewards = [f.rewards for f in finished]
            last_noop = state.batches * self.setup.config.n >= common.noop_steps
            if use_cut_episodes and last_noop and not rewards and state.return_moments.n == 0:
                rewards = list(buffers.reward.T)
            state = state._replace(return_moments=_merge_returns(state.return_moments, rewards, common.gamma))
        return state, finished

    def _label(self, state: State) -> tuple[Segment, Any]:
        """The batch in the workers' buffers as a Segment, labelled by the critic as it is now."""
        # A copy: the workers write the next batch into these arrays while this one is still in use.
        raw = RawBatch(*(jnp.array(x, copy=True) for x in self.pool.buffers[:6]))
        raw = raw._replace(reward=raw.reward.astype(jnp.float32))
        return self.programs.label(state.learner.params, raw, self._scale(state), jnp.int32(state.iteration))

    def _relabel(self, params: Params, memory: Memory) -> tuple[Memory, list[float]]:
        """Older batches labelled anew, and mean |1 - pi_k/mu| of every batch; 0 where nothing is labelled anew."""
        algorithm, newest = self.setup.algorithm, memory[-1]
        if len(memory) == 1 or not algorithm.relabel(self.setup.config):
            return memory, [0.0] * len(memory)
        across = algorithm.one_stream and not self.setup.common.reset_each_batch
        after = newest.adv[0] if across else jnp.zeros_like(newest.adv[0])
        batches, gaps = [newest], [jnp.zeros(())]
        for batch in reversed(memory[:-1]):
            scale = newest.scale if algorithm.one_stream else batch.scale
            batch, gap, before = self.programs.relabel(params, batch, scale, after)
            after = before if across else after
            batches.append(batch)
            gaps.append(gap)
        return tuple(reversed(batches)), [float(gap) for gap in reversed(gaps)]

    def _scale(self, state: State) -> Scale:
        moments, returns = state.obs_moments, state.return_moments
        return Scale(
            jnp.asarray(moments.mean, jnp.float32),
            jnp.asarray(1.0 / standard_deviation(moments), jnp.float32),
            jnp.asarray(1.0 / standard_deviation(returns), jnp.float32),
        )

    def _order(self, k: int, weights: tuple[float, ...]) -> Any:
        """The samples of every minibatch of every epoch."""
        setup, rng = self.setup, stream(self.setup.seed, Purpose.SHUFFLE, k)
        return jnp.asarray(setup.algorithm.order(setup.config, setup.common, weights, rng))

    def _metrics(
        self,
        state: State,
        memory: Memory,
        kl: list[float],
        improved: Improved,
        fitted: Ascent,
        finished: list[Finished],
    ) -> dict[str, Any]:
        common, k = self.setup.common, state.iteration
        kept = [i for i, batch in enumerate(memory) if any(batch is b for b in state.memory)]
        metrics: dict[str, Any] = {"iteration": k, "time/total_timesteps": state.steps}
        if finished:
            metrics["rollout/ep_rew_mean"] = _number(np.mean([f.rewards.sum() for f in finished]))
            metrics["rollout/ep_len_mean"] = _number(np.mean([len(f.rewards) for f in finished]))
        metrics |= {
            "memory/size": len(memory),
            "memory/kept": len(kept),
            "memory/ages": [k - int(memory[i].iteration) for i in kept],
            "memory/kl": [_number(kl[i]) for i in kept],
            "memory/kl_newest": _number(kl[-1]),
            "train/tv": _number(improved.tv),
            "train/epochs": int(improved.epochs),
            "train/n_updates": int(improved.epochs) * common.minibatches,
            "train/value_loss": _number(-fitted.objective),
            "train/grad_norm_value": _number(fitted.grad_norm),
            "normaliser/return_std": _number(standard_deviation(state.return_moments)),
        }
        return metrics | {name: _number(value) for name, value in sorted(improved.report.items())}

    def _check(self, metrics: dict[str, Any], k: int) -> None:
        for name, value in metrics.items():
            if not np.isfinite(value).all():
                raise LearnerFault(
                    f"iteration {k}: {name} is {value}; lower --lr or look at the rewards of the environment"
                )


class _Stopwatch:
    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.laps[name] = now - self._last
        self._last = now


def _merge_returns(moments: Moments, rewards: list[np.ndarray], gamma: float) -> Moments:
    """Merge the raw discounted reward-to-go of every step of the given episodes."""
    if not rewards:
        return moments
    return merge(moments, np.concatenate([lfilter([1.0], [1.0, -gamma], r[::-1]) for r in rewards]))


def _number(x: Any) -> float:
    """Seven significant digits: what a float32 holds, and a log that stays small."""
    return float(f"{float(x):.7g}")
