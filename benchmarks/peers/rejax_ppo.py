"""rejax's PPO, a repetition for every line of the input.  Runs in an environment of its own."""

import argparse
import json
import sys
import time

import jax
from rejax import PPO


def main() -> None:
    """Compile, then go on training once per line and print seconds and processor seconds as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--env", required=True)
    parser.add_argument("--n-envs", type=int, required=True)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--batches", type=int, required=True)
    a = parser.parse_args()
    algo = PPO.create(
        env=a.env,
        agent_kwargs={"activation": "tanh"},
        num_envs=a.n_envs,
        num_steps=a.rows,
        num_epochs=4,
        num_minibatches=8,
        max_grad_norm=0.5,
    )

    @jax.jit
    def train(state):
        return jax.lax.scan(lambda s, _: (algo.train_iteration(s), None), state, None, a.batches)[0]

    state = jax.block_until_ready(train(algo.init_state(jax.random.PRNGKey(0))))
    print("ready", flush=True)
    for _ in sys.stdin:
        seconds, processor = time.perf_counter(), time.process_time()
        state = jax.block_until_ready(train(state))
        print(json.dumps([time.perf_counter() - seconds, time.process_time() - processor]), flush=True)


if __name__ == "__main__":
    main()
