"""What a policy earns that knows nothing: the zero of the scores that are compared across tasks."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from math import inf
from pathlib import Path

import numpy as np

from toppo.envs import open_player
from toppo.envs.atari import is_atari
from toppo.envs.check import random_action
from toppo.envs.observations import mask_in
from toppo.rng import Stream, rng_for, seed_for
from toppo.rundir.layout import read_json, write_json

SCHEMA = 1
EPISODES, MAX_STEPS = 50, 2_000
GAMES = 10  # of Atari: some take thousands of steps
FILE = "random.json"


def random_return(env_id: str) -> float:
    """Mean return of episodes with allowed actions drawn uniformly, the same every time."""
    player, returns = open_player(env_id), []
    spaces = player.spaces
    episodes, most_steps = (GAMES, inf) if is_atari(env_id) else (EPISODES, MAX_STEPS)
    for episode in range(episodes):
        rng = rng_for(0, Stream.EVALUATION, episode, 1)
        player.reset(seed_for(0, Stream.EVALUATION, episode, 0))
        total, steps, ended = 0.0, 0, False
        while not ended and steps < most_steps:
            reward, terminated, truncated = player.step(random_action(spaces, mask_in(player.row, spaces), rng))
            total, steps, ended = total + reward, steps + 1, terminated or truncated
        returns.append(total)
    player.close()
    return float(f"{np.mean(returns):.6g}")


def keep_random_returns(folder: Path, envs: list[str], jobs: int, tell: Callable[[str], None]) -> None:
    """Measure what ``random.json`` does not hold yet, so many environments at once, and tell how that went."""
    path = folder / FILE
    known: dict[str, float] = read_json(path).get("returns", {}) if path.is_file() else {}
    missing = [env for env in envs if env not in known]
    if missing:
        tell(f"a random policy plays {len(missing)} environment{'s' * (len(missing) > 1)}, for comparison")
    # Simulators and emulators are not Python's: threads will do.  Ctrl-C waits for what has begun and no more.
    threads = ThreadPoolExecutor(jobs)
    try:
        for env, played in [(env, threads.submit(random_return, env)) for env in missing]:
            try:
                known[env] = played.result()
            except Exception as error:  # whatever an environment raises: the runs are finished and stay so
                tell(f"note: no return of a random policy on {env}: {type(error).__name__}: {error}")
                continue
            write_json(path, {"schema": SCHEMA, "episodes": EPISODES, "games": GAMES, "returns": known})
    finally:
        threads.shutdown(cancel_futures=True)
