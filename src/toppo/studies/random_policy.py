"""What a policy earns that knows nothing: the zero of the scores that are compared across tasks."""

from pathlib import Path

import numpy as np

from toppo.envs import make, open_player
from toppo.envs.atari import is_atari
from toppo.errors import ToppoError
from toppo.rundir.layout import read_json, write_json
from toppo.streams import Purpose, seed_for, stream

SCHEMA = 1
EPISODES, MOST_STEPS = 50, 2_000
GAMES = 10  # of Atari: some take thousands of steps
FILE = "random.json"


def random_return(env_id: str) -> float:
    """Mean return of episodes with actions drawn uniformly from the action space, the same every time."""
    if is_atari(env_id):
        return random_score(env_id)
    env, returns = make(env_id), []
    for episode in range(EPISODES):
        seed = seed_for(0, Purpose.EVALUATION, episode, 0)
        env.reset(seed=seed)
        env.action_space.seed(seed)
        total, steps, ended = 0.0, 0, False
        while not ended and steps < MOST_STEPS:
            _, reward, terminated, truncated, _ = env.step(env.action_space.sample())
            total, steps, ended = total + float(reward), steps + 1, terminated or truncated
        returns.append(total)
    env.close()
    return float(f"{np.mean(returns):.6g}")


def random_score(env_id: str) -> float:
    """Mean score of whole games with random actions, preprocessed as for training."""
    player, returns = open_player(env_id), []
    for game in range(GAMES):
        rng = stream(0, Purpose.EVALUATION, game, 1)
        player.reset(seed_for(0, Purpose.EVALUATION, game, 0))
        total, ended = 0.0, False
        while not ended:
            action = np.asarray(rng.integers(player.spaces.action_size))
            reward, terminated, truncated = player.step(action)
            total, ended = total + reward, terminated or truncated
        returns.append(total)
    player.close()
    return float(f"{np.mean(returns):.6g}")


def keep_random_returns(folder: Path, envs: list[str]) -> None:
    """Measure what ``random.json`` does not hold yet."""
    path = folder / FILE
    known: dict[str, float] = read_json(path)["returns"] if path.is_file() else {}
    new = [env for env in envs if env not in known]
    for env in new:
        try:
            known[env] = random_return(env)
        except ToppoError:
            continue  # the runs on it have said why it cannot be made
    if not new:
        return
    write_json(path, {"schema": SCHEMA, "episodes": EPISODES, "returns": known})
