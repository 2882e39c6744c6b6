"""Returns of a random policy: they have the score 0 when tasks are compared."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from math import inf
from pathlib import Path

import numpy as np

from toppo.envs import open_player, resolve
from toppo.envs.actions import random_action
from toppo.envs.observations import mask_in
from toppo.rundir.layout import read_json, write_json
from toppo.runs.evaluate import Act, play_episodes

SCHEMA = 1
EPISODES = 50
MAX_STEPS = 2_000
GAMES = 10  # episodes of Atari: some have thousands of steps
FILE = "random.json"


def random_return(env_id: str) -> float:
    """Return the mean return of episodes with allowed actions drawn uniformly, from a fixed seed."""
    source = resolve(env_id)
    player = open_player(source)
    spaces = player.spaces

    def act_with(rng: np.random.Generator) -> Act:
        return lambda row: random_action(spaces, mask_in(row, spaces), rng)

    atari = source.kind == "atari"
    results = play_episodes(player, act_with, GAMES if atari else EPISODES, 0, inf if atari else MAX_STEPS)
    player.close()
    return float(f"{np.mean([result.episode_return for result in results]):.6g}")


def keep_random_returns(folder: Path, envs: list[str], jobs: int, tell: Callable[[str], None]) -> None:
    """Measure what ``random.json`` does not hold yet, ``jobs`` environments at once."""
    path = folder / FILE
    known: dict[str, float] = read_json(path).get("returns", {}) if path.is_file() else {}
    missing = [env for env in envs if env not in known]
    if missing:
        tell(f"a random policy plays {len(missing)} environment{'s' * (len(missing) > 1)}, for comparison")
    # Simulators and emulators release the GIL, so threads are enough.  Ctrl-C waits only for those that have begun.
    threads = ThreadPoolExecutor(jobs)
    try:
        for env, played in [(env, threads.submit(random_return, env)) for env in missing]:
            try:
                known[env] = played.result()
            except Exception as error:  # an environment may raise anything, and the runs are finished
                tell(f"note: no return of a random policy on {env}: {type(error).__name__}: {error}")
                continue
            write_json(path, {"schema": SCHEMA, "episodes": EPISODES, "games": GAMES, "returns": known})
    finally:
        threads.shutdown(cancel_futures=True)
