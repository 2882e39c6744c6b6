"""The training loop.  It knows no files and no algorithm by name."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.dtypes import canonicalize_dtype

from toppo.algos.contract import AdamResult, Draw, Memory, Params, PolicyUpdate, Scale, Segment
from toppo.collect.episodes import Finished, advance
from toppo.collect.faults import SurvivedFault
from toppo.collect.pinning import cores_used_by, pin, pinned_to, threads_of_xla
from toppo.collect.plan import Buffers
from toppo.collect.pool import Pool
from toppo.envs.observations import numbers_in
from toppo.errors import LearnerFault
from toppo.learn import metrics
from toppo.learn.metrics import Episode, Metrics
from toppo.learn.nets import acting_weights
from toppo.learn.programs import compile_programs
from toppo.learn.setup import Setup, network
from toppo.learn.state import State
from toppo.maths.moments import Moments, merge, no_data, shift_and_factor
from toppo.rng import Stream, rng_for

SHORT = 1_500_000  # multiplications; with 2,400,000 two threads take part


class Iteration(NamedTuple):
    """What one turn of the loop leaves: the state to continue from, and what happened."""

    state: State
    metrics: Metrics
    episodes: list[Episode]
    seconds: dict[str, float]
    faults: list[SurvivedFault]  # of environments, survived


def train(setup: Setup, state: State, pool: Pool) -> Iterator[Iteration]:
    """Iterations until ``setup.total_timesteps`` steps are done.  The same state and setup give the same bytes."""
    loop = _Loop(setup, pool)
    while state.batches * setup.config.n_steps < setup.common.warmup_steps:
        state = loop.warm_up(state)
    if state.steps < setup.total_timesteps:
        loop.start(state)
    while state.steps < setup.total_timesteps:
        iteration = loop.iterate(state)
        state = iteration.state
        yield iteration


class _Loop:
    """One iteration, step by step, in the order in which the data flow."""

    def __init__(self, setup: Setup, pool: Pool) -> None:
        self.setup, self.pool = setup, pool
        self.faults: list[SurvivedFault] = []
        self.programs = compile_programs(
            setup.algorithm, setup.config, setup.common, network(setup.common, setup.spaces)
        )
        taken = cores_used_by(len(pool.pids()))
        self.workers_take_all = bool(taken)
        # The first for the policy, the last for the critic; none where each of them can use all.
        self.cores = taken if _has_short_products(setup) else []
        self.helpers = threads_of_xla()
        self.critic = ThreadPoolExecutor(1, initializer=pin, initargs=(self.cores[-1:],))
        self.order = lru_cache(4)(self._order)  # so that the next one can be made before it is needed

    def warm_up(self, state: State) -> State:
        """A no-op batch: it moves the statistics and nothing else, and is acted in without them."""
        self.start(state._replace(obs_moments=no_data(state.obs_moments.mean.shape)))
        self.faults += self.pool.finish()
        return self._observed(state, self.pool.buffers, use_cut_episodes=True)[0]

    def start(self, state: State) -> None:
        """Hand the policy and the normaliser to the workers and let them collect."""
        buffers = self.pool.buffers
        buffers.mean[:], buffers.inv_std[:] = shift_and_factor(state.obs_moments)
        weights = acting_weights(state.learner.params.policy, self.setup.spaces.action_size)
        for target, weight in zip(buffers.weights, weights, strict=True):
            if not np.isfinite(weight).all():
                raise LearnerFault(
                    f"iteration {state.iteration}: the policy's parameters are not finite; lower --learning-rate or look at the "
                    "rewards of the environment"
                )
            target[:] = weight
        self.pool.start(state.batches, state.episodes)

    def iterate(self, state: State) -> Iteration:
        """Collect, label, draw, improve, keep; the critic learns beside the policy or beside the next collection."""
        setup, clock, k = self.setup, _Stopwatch(), state.iteration
        algorithm, config, learner = setup.algorithm, setup.config, state.learner
        faults, self.faults = self.faults + self.pool.finish(), []
        clock.lap("collect")
        with pinned_to(self.cores[:1]):
            segment, value, explained = self._label(state)
            memory, gaps = self._relabel(learner.params, (*state.memory, segment))
            clock.lap("label")
            drawn = algorithm.draw(config, memory, gaps, rng_for(setup.seed, Stream.MEMORY_CHOICE, k))
            lr = np.float32(algorithm.lr(config, setup.common, state.steps / setup.total_timesteps))
            with pinned_to(self.cores[:1], self.helpers):
                improved, fit, books = self._learn(state, drawn, value, lr)
        observed, finished = books.result()  # before the workers write into the buffers
        clock.lap("update")
        learner = learner._replace(
            params=learner.params._replace(policy=improved.policy), policy_opt=improved.opt, lr_scale=improved.lr_scale
        )
        state = observed._replace(learner=learner, iteration=k + 1, steps=state.steps + config.n_steps)
        if state.steps < setup.total_timesteps:
            self.start(state)
        clock.lap("start")
        kl = [self._divergence(improved, drawn, batch) for batch in memory]
        state = state._replace(memory=algorithm.keep(config, memory, kl))
        clock.lap("select")
        fitted = fit.result()
        if fitted is not None:
            learner = learner._replace(params=learner.params._replace(value=fitted.params), value_opt=fitted.opt)
            state = state._replace(learner=learner)
        logged: Metrics = {"iteration": k + 1, "time/total_timesteps": state.steps}
        logged |= metrics.of_episodes(finished) | metrics.of_memory(state, memory, kl)
        logged |= metrics.of_update(improved, fitted, setup.common.n_minibatches)
        logged |= metrics.of_rest(state, improved, explained, drawn.clip_eps, lr)
        metrics.refuse_nan(logged, k)
        clock.lap("value")
        episodes = metrics.episodes_of(finished, state.steps - config.n_steps, setup.common.n_envs)
        return Iteration(state, logged, episodes, clock.laps, faults)

    def _learn(
        self, state: State, drawn: Draw, value: Array, lr: np.float32
    ) -> tuple[PolicyUpdate, "Future[AdamResult | None]", "Future[tuple[State, list[Finished]]]"]:
        """The improved policy, there when this returns; the critic and the books, see ``_observed``, may take longer.

        The critic takes as many epochs as the policy.  Where only the policy's end tells how many, it starts after it
        if collecting leaves a core for it, and otherwise beside it, an epoch at a time, until the number is known.
        The books are kept by the critic's thread: a critic with a known number of epochs is done before the policy.
        """
        programs, learner, k = self.programs, state.learner, state.iteration
        algorithm, config, common = self.setup.algorithm, self.setup.config, self.setup.common
        parts = tuple(
            programs.prepare(learner.params, batch, np.float32(weight), value if i == 0 else None)
            for i, (batch, weight) in enumerate(zip(drawn.segments, drawn.weights, strict=True))
        )
        sample = parts[0] if len(parts) == 1 else programs.join(parts)
        jax.block_until_ready(sample)  # otherwise a thread of XLA's waits for it, and runs what follows
        for_critic, weights = (
            (sample, drawn.weights) if algorithm.value_on_old(config) else (parts[0], drawn.weights[:1])
        )

        taken: Future[int] = Future()

        def regress(critic: Any, order: np.ndarray, epochs: int) -> AdamResult:
            fitted: AdamResult = programs.regress(*critic[:2], for_critic, order, lr, np.int32(epochs))
            fitted.epochs.block_until_ready()
            return fitted

        def fit_critic() -> AdamResult | None:
            if common.shared_trunk:
                return None  # the critic learns with the policy
            critic, order = (learner.params.value, learner.value_opt), self.order(k, weights)
            known = taken.done()
            return regress(critic, order, taken.result()) if known else _follow(taken, regress, critic, order)

        def keep_books() -> tuple[State, list[Finished]]:
            self.order(k + 1, drawn.weights)
            self.pool.draw_noise(state.batches + 1)
            return self._observed(state, self.pool.buffers)

        if not algorithm.stops_early(config):
            taken.set_result(common.n_epochs)
        fit = self.critic.submit(fit_critic) if taken.done() else None
        books = self.critic.submit(keep_books)
        if fit is None and self.workers_take_all:
            fit = self.critic.submit(fit_critic)
        order, clip_eps = self.order(k, drawn.weights), np.float32(drawn.clip_eps)
        policy, opt = learner.params.policy, learner.policy_opt
        try:
            improved = programs.improve(policy, opt, sample, order, lr, learner.lr_scale, clip_eps)
            epochs = int(improved.epochs)  # waits
            if not taken.done():
                taken.set_result(epochs)
        finally:
            taken.cancel()  # so that a failure leaves nobody waiting
        return improved, fit or self.critic.submit(fit_critic), books

    def _observed(self, state: State, buffers: Buffers, use_cut_episodes: bool = False) -> tuple[State, list[Finished]]:
        """The state with the batch's episodes accounted for and its data in the statistics."""
        common = self.setup.common
        episodes, finished = advance(state.episodes, buffers, common.reset_each_batch)
        state = state._replace(episodes=episodes, batches=state.batches + 1)
        size = self.setup.spaces.obs_size
        if common.normalise_obs and size:
            data = numbers_in(buffers.obs, size).reshape(-1, size)
            state = state._replace(obs_moments=merge(state.obs_moments, data))
        if common.normalise_reward:
            rewards = [f.rewards for f in finished]
            last_noop = state.batches * self.setup.config.n_steps >= common.warmup_steps
            if use_cut_episodes and last_noop and not rewards and state.return_moments.n == 0:
                rewards = list(buffers.reward.T)
            rewards = [np.sign(r) for r in rewards] if common.sign_reward else rewards
            state = state._replace(return_moments=_merge_returns(state.return_moments, rewards, common.gamma))
        return state, finished

    def _divergence(self, improved: PolicyUpdate, drawn: Draw, batch: Segment) -> float:
        """Mean KL(mu || pi) on a batch of memory; where ``improve`` tells what it saw of it, without a second look."""
        places = [i for i, segment in enumerate(drawn.segments) if segment is batch]
        if places and len(drawn.segments) == 1:
            return float(improved.report["train/approx_kl"])  # pi_k has collected it: there, mu is pi_k
        if places and improved.dist is not None:
            return float(self.programs.known_divergence(improved.dist, np.int32(places[0]), batch))
        return float(self.programs.divergence(improved.policy, batch))

    def _label(self, state: State) -> tuple[Segment, Array, Array]:
        """The batch in the workers' buffers as a Segment, labelled by the critic as it is now; see ``label``."""
        # A copy: the workers write the next batch into these arrays while this one is still in use.
        raw = jax.tree.map(lambda x: np.array(x, canonicalize_dtype(x.dtype)), self.pool.batch())
        return self.programs.label(state.learner.params, raw, _scale(state), np.int32(state.iteration))

    def _relabel(self, params: Params, memory: Memory) -> tuple[Memory, list[float]]:
        """Older batches labelled anew, and mean |1 - pi_k/mu| of every batch; 0 where nothing is labelled anew."""
        algorithm, newest = self.setup.algorithm, memory[-1]
        if len(memory) == 1 or not algorithm.relabel(self.setup.config):
            return memory, [0.0] * len(memory)
        across = algorithm.traces_cross_batches and not self.setup.common.reset_each_batch
        after = newest.adv[0] if across else jnp.zeros_like(newest.adv[0])
        batches, gaps = [newest], [jnp.zeros(())]
        for batch in reversed(memory[:-1]):
            scale = newest.scale if algorithm.traces_cross_batches else batch.scale
            batch, gap, before = self.programs.relabel(params, batch, scale, after)
            after = before if across else after
            batches.append(batch)
            gaps.append(gap)
        return tuple(reversed(batches)), [float(gap) for gap in reversed(gaps)]

    def _order(self, k: int, weights: tuple[float, ...]) -> np.ndarray:
        """The samples of every minibatch of every epoch."""
        setup, rng = self.setup, rng_for(self.setup.seed, Stream.MINIBATCHES, k)
        return setup.algorithm.order(setup.config, setup.common, weights, rng)


def _has_short_products(setup: Setup) -> bool:
    """Does XLA leave the products of a minibatch to the thread that asks for them?  Longer ones it shares out."""
    rows: int = setup.config.n_steps // setup.common.n_minibatches
    widths = (setup.spaces.obs_size, *setup.common.hidden)
    return rows * max((n_in * n_out for n_in, n_out in pairwise(widths)), default=0) <= SHORT


def _follow(taken: "Future[int]", regress: Callable[..., AdamResult], critic: Any, order: np.ndarray) -> AdamResult:
    """The critic after as many epochs as the policy has ``taken``, one at a time until that number is known."""
    after = [critic]
    while len(after) <= (taken.result() if taken.done() else len(order)):
        after.append(regress(after[-1], order[len(after) - 1 :][:1], 1))
    found: AdamResult = after[taken.result()]
    return found


def _scale(state: State) -> Scale:
    """The normaliser as it stands."""
    parts: Any = (*shift_and_factor(state.obs_moments), shift_and_factor(state.return_moments)[1])
    return Scale(*parts)


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
    to_go = [x for r in rewards for x in accumulate(r[::-1].tolist(), lambda later, now: now + gamma * later)]
    return merge(moments, np.array(to_go))
