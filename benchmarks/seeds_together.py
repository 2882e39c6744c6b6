"""Several seeds in one program, or one process per seed?  The policy's update of PPO on HalfCheetah, both ways.

    python -m benchmarks.seeds_together [--seeds 2] [--repeats 5]

One program: ``jax.vmap`` of the update over the seeds, with all cores.  One process per seed: as many processes as
seeds at once, each bound to a core.  Both run the same minibatches; milliseconds per seed are shown.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time


def inputs_of_an_update():
    """The program that improves the policy, and its inputs in the second iteration of a run."""
    from toppo.learn.loop import Loop
    from toppo.learn.session import open_session
    from toppo.learn.setup import initial_state
    from toppo.learn.xla import prepare
    from toppo.runs.presets import spec_for
    from toppo.runs.run import setup_for

    prepare()
    setup = setup_for(spec_for("HalfCheetah-v5", "ppo", 10**6, 0, "paper"), "HalfCheetah-v5")
    seen = []
    with open_session(setup, "HalfCheetah-v5") as session:
        loop = Loop(setup, session.collector)
        improve = loop.programs.improve

        def spy(*inputs):
            seen.append(inputs)
            return improve(*inputs)

        loop.programs.improve = spy
        state = loop.warm_up(initial_state(setup))
        session.collector.start(state)
        for _ in range(2):
            state = loop.iterate(state).state
    return improve, seen[-1]


def time_update(seeds: int, calls: int = 20) -> float:
    """Milliseconds of one update of that many seeds in one program."""
    import jax
    import jax.numpy as jnp

    improve, inputs = inputs_of_an_update()
    if seeds > 1:
        inputs = jax.tree.map(lambda x: jnp.stack([jnp.asarray(x)] * seeds), inputs)
        improve = jax.jit(jax.vmap(improve))
    jax.block_until_ready(improve(*inputs))
    times = []
    for _ in range(calls):
        began = time.perf_counter()
        jax.block_until_ready(improve(*inputs))
        times.append(1e3 * (time.perf_counter() - began))
    return statistics.median(times)


def run(seeds: int, processes: int) -> float:
    """Milliseconds per seed: ``processes`` at once, each with so many seeds in one program."""
    command = [sys.executable, "-m", "benchmarks.seeds_together", "--one", str(seeds)]
    cores = sorted(os.sched_getaffinity(0))
    pinned = [["taskset", "-c", str(cores[i % len(cores)])] if processes > 1 else [] for i in range(processes)]
    children = [subprocess.Popen([*pin, *command], stdout=subprocess.PIPE, text=True) for pin in pinned]
    times = [float(child.communicate()[0].strip().splitlines()[-1]) for child in children]
    return statistics.mean(times) / (seeds if processes == 1 else processes)


def main() -> None:
    """Alternate both ways."""
    if sys.argv[1:2] == ["--one"]:
        print(time_update(int(sys.argv[2])))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    a = parser.parse_args()
    together = []
    apart = []
    for _ in range(a.repeats):
        together.append(run(a.seeds, 1))
        apart.append(run(1, a.seeds))
        print(
            f"{a.seeds} seeds: one program {together[-1]:.1f} ms per seed, apart {apart[-1]:.1f} ms per seed",
            flush=True,
        )
    ratio = statistics.median(together) / statistics.median(apart)
    print(
        f"median {statistics.median(together):.1f} and {statistics.median(apart):.1f} ms: {ratio:.2f} times the price"
    )


if __name__ == "__main__":
    main()
