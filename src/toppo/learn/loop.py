"""The training loop: collect, label, draw, improve, keep.  It knows no files and no algorithm by name."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from toppo.algos.contract import AdamResult, Draw, Memory, PolicyUpdate, Sample, Segment, Tree
from toppo.collect.faults import SurvivedFault
from toppo.collect.pinning import cores_used_by, pin, pinned_to, threads_of_xla
from toppo.learn.collector import BatchStatistics, Collector
from toppo.learn.critic import Background, CriticTask
from toppo.learn.metrics import Episode, Metrics, metrics_of
from toppo.learn.normaliser import normaliser_of, with_statistics
from toppo.learn.programs import Programs
from toppo.learn.setup import Setup, learning_rate, progress, scheduled
from toppo.learn.state import State
from toppo.maths.moments import no_data
from toppo.rng import Stream, rng_for

MAX_SINGLE_THREAD_PRODUCT = 1_500_000  # multiplications; with 2,400,000 XLA shares a product between two threads


class Iteration(NamedTuple):
    """What one iteration leaves: the state to continue from, and what happened."""

    state: State
    metrics: Metrics
    episodes: list[Episode]
    seconds: dict[str, float]
    faults: list[SurvivedFault]  # of environments


def train(setup: Setup, state: State, collector: Collector) -> Iterator[Iteration]:
    """Iterate until ``setup.total_timesteps`` steps are done.  The same state and setup give the same bytes."""
    loop = Loop(setup, collector)
    while state.batches * setup.config.n_steps < setup.common.warmup_steps:
        state = loop.warm_up(state)
    if state.steps < setup.total_timesteps:
        collector.start(state)
    while state.steps < setup.total_timesteps:
        iteration = loop.iterate(state)
        state = iteration.state
        yield iteration


class Loop:
    """One iteration, step by step, in the order in which the data flow."""

    def __init__(self, setup: Setup, collector: Collector) -> None:
        """Compile the programs, and decide who runs on which core; critic.py has the table."""
        self.setup = setup
        self.collector = collector
        self.traits = setup.algorithm.traits(setup.config)
        self.programs = Programs(setup)
        self.prepared_minibatches: dict[tuple[int, tuple[float, ...]], np.ndarray] = {}
        self.warm_up_faults: list[SurvivedFault] = []
        busy_cores = cores_used_by(collector.processes())
        self.all_cores_busy = bool(busy_cores)
        self.cores = busy_cores if has_single_thread_products(setup) else []
        self.xla_threads = threads_of_xla()
        self.critic_thread = ThreadPoolExecutor(1, initializer=pin, initargs=(self.cores[-1:],))

    def warm_up(self, state: State) -> State:
        """Collect a batch that moves the statistics and nothing else; the policy acts in it without them."""
        self.collector.start(state._replace(obs_moments=no_data(state.obs_moments.mean.shape)))
        self.warm_up_faults += self.collector.finish()
        is_last = (state.batches + 1) * self.setup.config.n_steps >= self.setup.common.warmup_steps
        use_open_episodes = is_last and state.return_moments.n == 0
        return with_statistics(state, self.collector.statistics(state, use_open_episodes))

    def iterate(self, state: State) -> Iteration:
        """Collect, label, draw, improve, keep."""
        clock = Stopwatch()
        faults = self.finish_collecting()
        clock.lap("collect")
        with pinned_to(self.cores[:1]):
            segment, values, explained = self.label(state)
            memory, gaps = self.relabel(state, (*state.memory, segment))
            clock.lap("label")
            draw = self.draw(state, memory, gaps)
            with pinned_to(self.cores[:1], self.xla_threads):
                update, background = self.improve(state, draw, values)
        statistics = background.statistics()  # before the workers write into the buffers
        clock.lap("update")
        state = self.with_policy(with_statistics(state, statistics), update)
        if state.steps < self.setup.total_timesteps:
            self.collector.start(state)
        clock.lap("start")
        kl = self.mean_kls(update, draw, memory)
        kept = self.setup.algorithm.keep(self.setup.config, memory, list(kl.values()))
        clock.lap("select")
        critic = background.critic()
        state = with_critic(state._replace(memory=kept), critic)
        episodes = statistics.finished
        metrics = metrics_of(self.setup, state, episodes, draw, kl, update, critic, explained)
        clock.lap("value")
        return Iteration(state=state, metrics=metrics, episodes=episodes, seconds=clock.laps, faults=faults)

    def finish_collecting(self) -> list[SurvivedFault]:
        """Wait for the batch, and return the faults that it and the warm-up survived."""
        faults = self.warm_up_faults + self.collector.finish()
        self.warm_up_faults = []
        return faults

    def label(self, state: State) -> tuple[Segment, Array, Array]:
        """Make the batch that was collected a Segment, labelled by the critic as it is now."""
        batch = self.collector.batch()
        return self.programs.label(state.learner.params, batch, normaliser_of(state), np.int32(state.iteration))

    def relabel(self, state: State, memory: Memory) -> tuple[Memory, list[float]]:
        """Label old batches again if the algorithm does; also return mean |1 - pi_k/mu| of every batch, else 0."""
        if len(memory) == 1 or not self.traits.relabels:
            return memory, [0.0] * len(memory)
        newest = memory[-1]
        across = self.traits.traces_cross_batches and not self.setup.common.reset_each_batch
        after = newest.adv[0] if across else jnp.zeros_like(newest.adv[0])
        batches = [newest]
        gaps = [jnp.zeros(())]
        for old in reversed(memory[:-1]):
            normaliser = newest.normaliser if self.traits.traces_cross_batches else old.normaliser
            batch, gap, before = self.programs.relabel(state.learner.params, old, normaliser, after)
            after = before if across else after
            batches.append(batch)
            gaps.append(gap)
        return tuple(reversed(batches)), [float(gap) for gap in reversed(gaps)]

    def draw(self, state: State, memory: Memory, gaps: list[float]) -> Draw:
        """Return what this iteration trains on."""
        rng = rng_for(self.setup.seed, Stream.MEMORY_CHOICE, state.iteration)
        done = progress(self.setup, state.steps)
        return self.setup.algorithm.draw(self.setup.config, memory, gaps, done, rng)

    def improve(self, state: State, draw: Draw, values: Array) -> tuple[PolicyUpdate, Background[BatchStatistics]]:
        """Improve the policy; the critic and the statistics, which run beside it, may take longer."""
        learner = state.learner
        k = state.iteration
        sample, critic_sample = self.samples(state, draw, values)
        lr = learning_rate(self.setup, state.steps)
        now = scheduled(self.setup, state.steps)

        def fit(params: Tree, opt: Tree, minibatches: np.ndarray, epochs: int) -> AdamResult:
            critic: AdamResult = self.programs.fit_critic(
                params, opt, critic_sample, minibatches, lr, np.int32(epochs), now
            )
            critic.epochs.block_until_ready()
            return critic

        def statistics() -> BatchStatistics:
            self.prepared_minibatches = {(k + 1, draw.weights): self.minibatches(k + 1, draw.weights)}
            return self.collector.statistics(state)

        minibatches = self.minibatches(k, draw.weights)
        of_critic = minibatches if self.traits.critic_on_old else self.minibatches(k, draw.weights[:1])
        task = CriticTask(fit=fit, params=learner.params.value, opt=learner.value_opt, minibatches=of_critic)
        background = Background[BatchStatistics](
            self.critic_thread,
            None if self.setup.common.shared_trunk else task,
            None if self.traits.stops_early else self.setup.common.n_epochs,
        )
        background.start(statistics, beside_policy=self.all_cores_busy)
        try:
            update: PolicyUpdate = self.programs.improve(
                learner.params.policy,
                learner.policy_opt,
                sample,
                minibatches,
                lr,
                learner.lr_scale,
                np.float32(draw.clip_eps),
                now,
            )
            background.policy_took(int(update.epochs))  # waits for the policy
        finally:
            background.give_up()
        return update, background

    def samples(self, state: State, draw: Draw, values: Array) -> tuple[Sample, Sample]:
        """Return what the policy trains on and what the critic trains on."""
        parts = tuple(
            self.programs.prepare(state.learner.params, batch, np.float32(weight), values if i == 0 else None)
            for i, (batch, weight) in enumerate(zip(draw.segments, draw.weights, strict=True))
        )
        sample = parts[0] if len(parts) == 1 else self.programs.concatenate(parts)
        jax.block_until_ready(sample)  # otherwise a thread of XLA's waits for it, and runs what follows
        return sample, sample if self.traits.critic_on_old else parts[0]

    def minibatches(self, k: int, weights: tuple[float, ...]) -> np.ndarray:
        """Return the samples of every minibatch of iteration k, for a draw with these weights."""
        prepared = self.prepared_minibatches.get((k, weights))
        if prepared is not None:
            return prepared
        rng = rng_for(self.setup.seed, Stream.MINIBATCHES, k)
        return self.setup.algorithm.minibatches(self.setup.config, self.setup.common, weights, rng)

    def with_policy(self, state: State, update: PolicyUpdate) -> State:
        """Return the state after an update of the policy."""
        params = state.learner.params._replace(policy=update.policy)
        learner = state.learner._replace(params=params, policy_opt=update.opt, lr_scale=update.lr_scale)
        steps = state.steps + self.setup.config.n_steps
        return state._replace(learner=learner, iteration=state.iteration + 1, steps=steps)

    def mean_kls(self, update: PolicyUpdate, draw: Draw, memory: Memory) -> dict[int, float]:
        """Return the mean KL(mu || pi) on every batch, by its iteration; the update knows some of them already."""
        places = {int(batch.iteration): place for place, batch in reversed(list(enumerate(draw.segments)))}
        found = {}
        for batch in memory:
            place = places.get(int(batch.iteration))
            if place is not None and len(draw.segments) == 1:
                kl = update.report["train/approx_kl"]  # pi_k has collected it: there, mu is pi_k
            elif place is not None and update.dist is not None:
                kl = self.programs.known_mean_kl(update.dist, np.int32(place), batch)
            else:
                kl = self.programs.mean_kl(update.policy, batch)
            found[int(batch.iteration)] = float(kl)
        return found


class Stopwatch:
    """Seconds of the parts of an iteration."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        """Write down the time since the last lap."""
        now = time.perf_counter()
        self.laps[name] = now - self._last
        self._last = now


def with_critic(state: State, critic: AdamResult | None) -> State:
    """Return the state after an update of the critic, if it had one of its own."""
    if critic is None:
        return state
    params = state.learner.params._replace(value=critic.params)
    return state._replace(learner=state.learner._replace(params=params, value_opt=critic.opt))


def has_single_thread_products(setup: Setup) -> bool:
    """Return whether XLA leaves the products of a minibatch to the thread that asks for them; it shares longer ones."""
    rows: int = setup.config.n_steps // setup.common.n_minibatches
    common = setup.common
    networks = [(setup.spaces.obs_size, *hidden) for hidden in (common.hidden, common.hidden_critic)]
    largest = max((n_in * n_out for widths in networks for n_in, n_out in pairwise(widths)), default=0)
    return rows * largest <= MAX_SINGLE_THREAD_PRODUCT
