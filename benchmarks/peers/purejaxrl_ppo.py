"""PureJaxRL's PPO, a repetition for every line of the input.  Runs in an environment of its own."""

import argparse
import json
import sys
import time


def main() -> None:
    """Compile, then train once per line and print seconds and processor seconds as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--clone", required=True)
    parser.add_argument("--env", required=True)
    parser.add_argument("--n-envs", type=int, required=True)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--batches", type=int, required=True)
    a = parser.parse_args()
    sys.path.insert(0, f"{a.clone}/purejaxrl")
    import jax
    from ppo import make_train

    config = {
        "LR": 3e-4,
        "NUM_ENVS": a.n_envs,
        "NUM_STEPS": a.rows,
        "TOTAL_TIMESTEPS": a.batches * a.rows * a.n_envs,
        "UPDATE_EPOCHS": 4,
        "NUM_MINIBATCHES": 8,
        "GAMMA": 0.99,
        "GAE_LAMBDA": 0.95,
        "CLIP_EPS": 0.2,
        "ENT_COEF": 0.01,
        "VF_COEF": 0.5,
        "MAX_GRAD_NORM": 0.5,
        "ACTIVATION": "tanh",
        "ENV_NAME": a.env,
        "ANNEAL_LR": True,
        "DEBUG": False,
    }
    train = jax.jit(make_train(config))
    jax.block_until_ready(train(jax.random.PRNGKey(0)))
    print("ready", flush=True)
    for line in sys.stdin:
        seconds, processor = time.perf_counter(), time.process_time()
        jax.block_until_ready(train(jax.random.PRNGKey(int(line))))
        print(json.dumps([time.perf_counter() - seconds, time.process_time() - processor]), flush=True)


if __name__ == "__main__":
    main()
