"""The collector of environments written in JAX: one compiled program, spread over all devices.

Steps stay on the devices.  Only rewards, ends of episodes and the moments of observations come to the host.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import zip_longest
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from toppo.collect.faults import FailedReplays, FaultPolicy, SurvivedFault
from toppo.collect.plan import RawBatch
from toppo.envs import Source
from toppo.envs.source import jax_env
from toppo.errors import BAD_DATA, NotFinite, ToppoError
from toppo.learn.collector import BatchStatistics
from toppo.learn.compiled import Collected, collect, zero_worlds
from toppo.learn.host_collector import refuse_not_finite
from toppo.learn.jax_episodes import (
    FinishedEpisodes,
    JaxEpisodes,
    Worlds,
    advance_sums,
    no_sums,
    returns_summary,
    rows_summary,
)
from toppo.learn.metrics import Episode
from toppo.learn.nets import actor_weights
from toppo.learn.setup import Setup
from toppo.learn.state import State
from toppo.learn.xla import keep_freed_memory
from toppo.maths.moments import mean_and_inv_std

FIELDS = ("an observation", "an observation", "a reward")
OTHER_KIND = "its episodes were those of an environment that is not written in JAX"

MAX_STORED_TWICE = 64  # entries; larger observations are stored once
Run = Callable[..., tuple[Worlds, Collected]]
"""policy, mean, inv_std, environments, batch -> environments after it, and the batch"""


class OnHost(NamedTuple):
    """What the host learns of a batch's steps.  Each [T, E]"""

    reward: np.ndarray
    terminated: np.ndarray
    ended: np.ndarray


class CompiledCollector:
    """Runs the program of ``learn/compiled.py`` on a thread of its own, so that the critic may learn beside it."""

    def __init__(self, setup: Setup, source: Source, fault_policy: FaultPolicy) -> None:
        """Compile nothing yet."""
        refuse_faults_of_one(fault_policy)
        keep_freed_memory()
        self.setup = setup
        self.name = source.name
        self.label = source.label
        env = jax_env(source)
        self._run = run_on(devices_for(setup.common.n_envs), partial(collect, setup, env))
        self._new_worlds: Callable[[], Worlds] = partial(zero_worlds, setup, env)
        self._template = jax.eval_shape(self._new_worlds)
        self._thread = ThreadPoolExecutor(1)
        self._batch = 0
        self._started: Future[tuple[Worlds, Collected]]
        self._worlds: Worlds
        self._collected: Collected
        self._seen: OnHost

    def start(self, state: State) -> None:
        """Let the thread run the program."""
        policy = state.learner.params.policy
        for weights in actor_weights(policy):
            refuse_not_finite(weights, state.iteration)
        self._worlds_before = self._episodes(state.episodes).worlds
        normaliser = mean_and_inv_std(state.obs_moments)
        self._batch = state.batches
        batch = np.int32(state.batches)
        self._started = self._thread.submit(self._run, policy, *normaliser, self._worlds_before, batch)

    def finish(self) -> list[SurvivedFault]:
        """Wait for the program, and refuse what is not finite."""
        self._worlds, self._collected = self._started.result()
        raw = self._collected.raw
        self._seen = OnHost(*(np.asarray(x) for x in (raw.reward, raw.terminated, raw.ended)))
        self._refuse_not_finite()
        return []

    def batch(self) -> RawBatch[Array]:
        """Return the batch on the device that learns."""
        raw = self._collected.raw
        if self.setup.spaces.row_size <= MAX_STORED_TWICE:
            return raw
        final = np.flatnonzero(self._seen.ended & ~self._seen.terminated)
        # Padded to a power of two, so that few shapes have to be compiled.
        count = 1 << (len(final) - 1).bit_length() if len(final) else 0
        padded = np.concatenate([final, np.repeat(final[-1:], count - len(final))])
        return raw._replace(next_obs=last_and_chosen(raw.next_obs, padded))

    def statistics(self, state: State, use_open_episodes: bool = False) -> BatchStatistics:
        """Account for the batch on the host, in double precision."""
        setup = self.setup
        common = setup.common
        reward = self._seen.reward.astype(float)
        learnt = np.sign(reward) if common.sign_reward else reward
        before = self._episodes(state.episodes).sums
        sums, finished, at_end = advance_sums(before, reward, learnt, self._seen.ended, common.gamma)
        counted = sums if use_open_episodes and not len(finished.t) else at_end
        mean = np.asarray(self._collected.obs_mean, float)
        squares = np.asarray(self._collected.obs_squares, float)
        observed = common.normalise_obs and setup.spaces.obs_size
        return BatchStatistics(
            episodes=JaxEpisodes(self._worlds, no_sums(common.n_envs) if common.reset_each_batch else sums),
            finished=episodes_of(setup, state, finished),
            obs=rows_summary(mean, squares, len(reward)) if observed else None,
            returns=returns_summary(counted) if common.normalise_reward else None,
        )

    def restore(self, episodes: object) -> tuple[JaxEpisodes, FailedReplays]:
        """Go on from the states that a checkpoint holds; nothing is replayed."""
        if not isinstance(episodes, JaxEpisodes):
            return self._episodes(episodes), dict.fromkeys(range(self.setup.common.n_envs), OTHER_KIND)
        leaves = episodes.worlds.leaves
        wanted = self._template.leaves
        if len(leaves) == len(wanted):
            leaves = tuple(with_type(x, template.dtype) for x, template in zip(leaves, wanted, strict=True))
        refuse_other_states(self.name, leaves, wanted)
        worlds = episodes.worlds._replace(leaves=jax.tree.map(jnp.asarray, leaves))
        return episodes._replace(worlds=worlds), {}

    def progress(self) -> tuple[int, int | None]:
        """Return the number of the newest batch; its program does not say how far it is."""
        return self._batch, None

    def processes(self) -> int:
        """Return 0: all happens in this process."""
        return 0

    def close(self) -> None:
        """Wait for the thread."""
        self._thread.shutdown()

    def _episodes(self, episodes: object) -> JaxEpisodes:
        """Return the episodes to go on from; new ones if those of a state are of another kind."""
        if isinstance(episodes, JaxEpisodes):
            return episodes
        return JaxEpisodes(self._new_worlds(), no_sums(self.setup.common.n_envs))

    def _refuse_not_finite(self) -> None:
        """Name the first environment, step and field of the batch that no float32 can hold."""
        reward = self._seen.reward
        fits = np.concatenate([np.asarray(self._collected.finite), np.isfinite(reward)[..., None]], axis=-1)
        if fits.all():
            return
        t, env, field = (int(x) for x in np.argwhere(~fits)[0])
        ends = np.flatnonzero(self._seen.ended[:t, env])
        worlds = self._worlds_before
        continues = not (self.setup.common.reset_each_batch or bool(worlds.due[env]))
        episode = int(worlds.started[env]) - continues + len(ends)
        first_row = int(ends[-1]) + 1 if len(ends) else -continues * int(worlds.step[env])
        step = t - first_row + (field != 0)
        call = f"step {step} of episode {episode}" if step else f"the reset of episode {episode}"
        what = FIELDS[field]
        raise NotFinite(
            f"{self.label(env)}: {call} gave {what} that is not finite; fix the environment",
            {"environment": self.label(env), "episode": episode, "step": step, "field": what.split()[1]},
        )


def devices_for(n_envs: int) -> list[jax.Device]:
    """Return the devices that the environments are spread over: as many as can have equal shares."""
    devices: list[jax.Device] = jax.local_devices()
    count = max(n for n in range(1, len(devices) + 1) if n_envs % n == 0)
    return devices[:count]


def run_on(devices: list[jax.Device], program: Run) -> Run:
    """Return the compiled program, which spreads environments over these devices; its batch lies on the first."""
    if len(devices) == 1:
        compiled = jax.jit(program)
        return lambda *inputs: jax.block_until_ready(compiled(*inputs))
    of_env: Any = PartitionSpec("env")
    of_row: Any = PartitionSpec(None, "env")
    whole = PartitionSpec()
    results = Collected(raw=of_row, finite=of_row, obs_mean=of_env, obs_squares=of_env)
    mesh = Mesh(np.array(devices), ("env",))
    specs = (whole, whole, whole, of_env, whole)
    spread = jax.jit(jax.shard_map(program, mesh=mesh, in_specs=specs, out_specs=(of_env, results), check_vma=False))
    places = tuple(NamedSharding(mesh, spec) for spec in specs)

    def run(*inputs: Any) -> tuple[Worlds, Collected]:
        worlds, collected = spread(*(jax.device_put(x, place) for x, place in zip(inputs, places, strict=True)))
        found: tuple[Worlds, Collected] = jax.block_until_ready((worlds, jax.device_put(collected, devices[0])))
        return found

    return run


def refuse_faults_of_one(fault_policy: FaultPolicy) -> None:
    """Refuse what can only be done about environments that step one by one."""
    why = "but environments written in JAX step together, in one program"
    if fault_policy.on_nan == "truncate":
        raise ToppoError(f"on_nan is 'truncate', {why}: use --on-nan raise, and fix the environment")
    if fault_policy.env_restarts:
        raise ToppoError(f"env_restarts is {fault_policy.env_restarts}, {why}: use --env-restarts 0")


def with_type(stored: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return a stored array; bytes in place of a type that safetensors has not become numbers again."""
    is_bytes = stored.dtype == np.uint8 != dtype and stored.shape[-1:] == (dtype.itemsize,)
    return np.ascontiguousarray(stored).view(dtype)[..., 0] if is_bytes else stored


def refuse_other_states(name: str, found: Sequence[Array], template: Sequence[Array]) -> None:
    """Refuse the states of another environment, or of another version of it."""
    shapes = ([(np.dtype(x.dtype), x.shape) for x in leaves] for leaves in (found, template))
    for i, (a, b) in enumerate(zip_longest(*shapes)):
        if a != b:
            raise ToppoError(
                f"the checkpoint's environments are not those of {name}: array {i} of their state is {in_words(a)}, "
                f"but must be {in_words(b)}",
                BAD_DATA,
            )


def in_words(array: "tuple[np.dtype, tuple[int, ...]] | None") -> str:
    """Describe an array's type and shape."""
    return "not there" if array is None else f"{array[0]}{list(array[1])}"


@jax.jit
def last_and_chosen(rows: Array, chosen: Array) -> Array:
    """Return the last rows of all environments, then the chosen ones.  [T, E, row], [F] -> [E + F, row]"""
    return jnp.concatenate([rows[-1], rows.reshape(-1, rows.shape[-1])[chosen]])


def episodes_of(setup: Setup, state: State, finished: FinishedEpisodes) -> list[Episode]:
    """Return the finished episodes with the training steps at which they ended."""
    steps = state.steps + finished.t * setup.common.n_envs + finished.env + 1
    columns = (steps, finished.env, finished.total, finished.length)
    return [Episode(*row) for row in zip(*(x.tolist() for x in columns), strict=True)]
