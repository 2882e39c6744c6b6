"""The paper's experiments as studies, at the paper's budget and as a rehearsal of minutes."""

from typing import Any, NamedTuple

from toppo.errors import ToppoError
from toppo.runs.presets import PAPER_GAMES, PAPER_TASKS
from toppo.studies.study import Arm, Grid, Study

FAMILY = ("toppo", "ppo", "geppo", "trpo", "otrpo", "oppo", "disc")
DISCRETE = tuple(algo for algo in FAMILY if algo != "disc")
FIVE_TASKS = ("HalfCheetah-v5", "Hopper-v5", "Swimmer-v5", "Walker2d-v5", "Reacher-v5")
THREE_TASKS = ("HalfCheetah-v5", "Hopper-v5", "Swimmer-v5")
HUMANOIDS = ("HumanoidStandup-v5", "Humanoid-v5")
LONG_GAMES = ("BreakoutNoFrameskip-v4", "CrazyClimberNoFrameskip-v4")
SHORT_GAMES = tuple(game for game in PAPER_GAMES if game not in LONG_GAMES)
MINIGRID = "minigrid:MiniGrid-Empty-5x5-v0"
ALPHAS = (0.0, 0.01, 0.03, 0.05, 0.1, 0.3)  # the paper prints no values
MILLION = 1_000_000


def arms(*algos: str) -> tuple[Arm, ...]:
    """Algorithms at their defaults."""
    return tuple(map(Arm.of, algos))


def _selection() -> tuple[Arm, ...]:
    pairs = [(n, select) for n in (5, 6) for select in (True, False)]
    return tuple(
        Arm.of("toppo", f"toppo-N={n}" + ("" if select else "-NOT"), n_policies=n, select=select) for n, select in pairs
    )


def _alpha_n() -> tuple[Arm, ...]:
    return tuple(
        Arm.of("toppo", f"toppo-N={n}-alpha={alpha}", n_policies=n, alpha=alpha) for n in (5, 8) for alpha in ALPHAS
    )


def _adaptive() -> tuple[Arm, ...]:
    return (*arms("toppo"), Arm.of("toppo", "toppo-adaptive-eps", adapt_eps=True))


def _one(name: str, text: str, chosen: tuple[Arm, ...], envs: tuple[str, ...], steps: int, seeds: int) -> Study:
    return Study(name, text, (Grid(chosen, envs, steps, seeds),))


SELECTION_TASKS = ("HalfCheetah-v5", "HumanoidStandup-v5")
EPS_TASKS = ("HalfCheetah-v5", "HumanoidStandup-v5", "Swimmer-v5", "Reacher-v5")
ALPHA_TASKS = ("Swimmer-v5", "HumanoidStandup-v5", "Walker2d-v5")
CONTROLS = (
    *arms("toppo", "ppo"),
    Arm.of("toppo", "toppo-alpha=0", alpha=0.0),
    Arm.of("toppo", "toppo-no-early-stop", early_stop=False),
    Arm.of("ppo", "ppo-early-stop", early_stop=True),
)
MEMORY_ARMS = (Arm.of("toppo"), Arm.of("toppo", "toppo-NOT", select=False))

# Without annealing a run of 500k steps is the first half of one of 1M: only the arm that continues is trained anew.
PROOF = Study(
    "proof",
    "ToPPO, PPO and GePPO on five tasks, 5 seeds; the other four, 3 seeds; batches that reset or continue",
    (
        Grid(arms("toppo", "ppo", "geppo"), FIVE_TASKS, MILLION, 5),
        Grid((Arm.of("toppo", reset_each_batch=False),), THREE_TASKS, MILLION // 2, 5),
        Grid(arms("trpo", "otrpo", "oppo", "disc"), FIVE_TASKS, MILLION, 3),
    ),
)
PROOF_HUMANOIDS = _one(
    "proof-humanoid",
    "ToPPO, PPO and GePPO on the two humanoids",
    arms("toppo", "ppo", "geppo"),
    HUMANOIDS,
    MILLION // 2,
    3,
)
PROOF_GAMES = Study(
    "proof-atari",
    "ToPPO and PPO on two games, 2 seeds; a short run of each on the other thirteen",
    (
        Grid(arms("toppo", "ppo"), LONG_GAMES, MILLION // 4, 2),
        Grid(arms("toppo", "ppo"), SHORT_GAMES, 20_480, 1),
    ),
)
PROOF_DISCRETE = Study(
    "proof-discrete",
    "all algorithms for discrete actions on CartPole, Acrobot, LunarLander and an empty room of MiniGrid, 3 seeds",
    (
        Grid(arms(*DISCRETE), ("CartPole-v1", "Acrobot-v1"), MILLION // 5, 3),
        Grid(arms(*DISCRETE), (MINIGRID,), MILLION // 20, 3),
        Grid(arms(*DISCRETE), ("LunarLander-v3",), MILLION // 2, 3),
    ),
)

PAPER = {
    study.name: study
    for study in (
        _one("performance", "seven algorithms on seven tasks", arms(*FAMILY), PAPER_TASKS, MILLION, 10),
        _one("atari", "ToPPO and PPO on fifteen Atari games", arms("toppo", "ppo"), PAPER_GAMES, 25 * MILLION, 3),
        _one("selection", "N = 5, 6 with and without selecting", _selection(), SELECTION_TASKS, MILLION, 10),
        _one("memory-size", "|M| over training", MEMORY_ARMS, ("Swimmer-v5",), MILLION, 10),
        _one("adaptive-eps", "fixed and adaptive clip range", _adaptive(), EPS_TASKS, MILLION, 10),
        _one("alpha-n", "alpha and N, final return", _alpha_n(), ALPHA_TASKS, MILLION, 10),
        _one("controls", "is it the old data or the early stop?", CONTROLS, THREE_TASKS, MILLION, 10),
        PROOF,
        PROOF_HUMANOIDS,
        PROOF_GAMES,
        PROOF_DISCRETE,
    )
}


class QuickScale(NamedTuple):
    """How much of a study: steps and seeds, and settings for every arm."""

    steps: int
    seeds: int
    settings: dict[str, Any] = {}  # noqa: RUF012 - never changed


# Each within a quarter of an hour on two cores.
QUICK = {
    "performance": QuickScale(20_480, 1),
    # In eight environments half of the games would not come to an end; more epochs would take too long.
    "atari": QuickScale(4_096, 1, {"n_envs": 1, "n_epochs": 1}),
    "selection": QuickScale(102_400, 2),
    "memory-size": QuickScale(204_800, 2),
    "adaptive-eps": QuickScale(102_400, 2),
    "alpha-n": QuickScale(30_720, 1),
    "controls": QuickScale(102_400, 2),
}


def paper_study(name: str, scale: str = "paper") -> Study:
    """A study of the paper at a scale."""
    if name not in PAPER:
        raise ToppoError(f"{name!r} is not a study: choose one of {', '.join(PAPER)}, or give a JSON file")
    study = PAPER[name]
    if scale == "paper":
        return study
    return study._replace(name=f"{name}-quick", grids=tuple(_rehearsed(g, QUICK[name]) for g in study.grids))


def _rehearsed(grid: Grid, how: QuickScale) -> Grid:
    chosen = tuple(arm._replace(settings=arm.settings | how.settings) for arm in grid.arms)
    return grid._replace(arms=chosen, total_timesteps=how.steps, seeds=how.seeds)
