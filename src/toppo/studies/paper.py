"""The paper's experiments as studies, at the paper's budget and as quick runs of minutes."""

from typing import NamedTuple

from toppo.errors import ToppoError, suggestion
from toppo.runs.presets import PAPER_GAMES, PAPER_TASKS
from toppo.studies.study import Arm, Grid, Study

FAMILY = ("toppo", "ppo", "geppo", "trpo", "otrpo", "oppo", "disc")
FIVE_TASKS = ("HalfCheetah-v5", "Hopper-v5", "Swimmer-v5", "Walker2d-v5", "Reacher-v5")
THREE_TASKS = ("HalfCheetah-v5", "Hopper-v5", "Swimmer-v5")
HUMANOIDS = ("HumanoidStandup-v5", "Humanoid-v5")
LONG_GAMES = ("BreakoutNoFrameskip-v4", "CrazyClimberNoFrameskip-v4")
SHORT_GAMES = tuple(game for game in PAPER_GAMES if game not in LONG_GAMES)
MINIGRID = "minigrid:MiniGrid-Empty-5x5-v0"
DOOR_KEY = "minigrid:MiniGrid-DoorKey-5x5-v0"
MINATAR = tuple(f"gymnax:{game}-MinAtar" for game in ("Asterix", "Breakout", "Freeway", "Seaquest", "SpaceInvaders"))
# The tasks of the paper and others, for the verdict on the default preset.
ALL_TASKS = (
    *PAPER_TASKS,
    *("Ant-v5", "InvertedDoublePendulum-v5", "Pusher-v5", "BipedalWalker-v3", "LunarLanderContinuous-v3"),
)
MILLION = 1_000_000


def arms(*algos: str) -> tuple[Arm, ...]:
    """Return algorithms at their defaults."""
    return tuple(map(Arm.of, algos))


def paper_grid(chosen: tuple[Arm, ...], envs: tuple[str, ...], steps: int, seeds: int) -> Grid:
    """Return a grid with the settings of the papers."""
    return Grid(arms=chosen, envs=envs, total_timesteps=steps, seeds=seeds, preset="paper")


def one_grid(name: str, text: str, chosen: tuple[Arm, ...], envs: tuple[str, ...], steps: int, seeds: int) -> Study:
    """Return a study of a single grid."""
    return Study(name, text, (paper_grid(chosen, envs, steps, seeds),))


SELECTION_TASKS = ("HalfCheetah-v5", "HumanoidStandup-v5")
SELECTION_ARMS = tuple(
    Arm.of("toppo", f"toppo-N={n}" + ("" if select else "-NOT"), n_policies=n, select=select)
    for n in (5, 6)
    for select in (True, False)
)
MEMORY_ARMS = (Arm.of("toppo"), Arm.of("toppo", "toppo-NOT", select=False))
EPS_TASKS = ("HalfCheetah-v5", "HumanoidStandup-v5", "Swimmer-v5", "Reacher-v5")
EPS_ARMS = (Arm.of("toppo"), Arm.of("toppo", "toppo-adaptive-eps", adapt_eps=True))
ALPHA_TASKS = ("Swimmer-v5", "HumanoidStandup-v5", "Walker2d-v5")
ALPHAS = (0.0, 0.01, 0.03, 0.05, 0.1, 0.3)  # the paper prints no values
ALPHA_ARMS = tuple(
    Arm.of("toppo", f"toppo-N={n}-alpha={alpha}", n_policies=n, alpha=alpha) for n in (5, 8) for alpha in ALPHAS
)
CONTROLS = (
    *arms("toppo", "ppo"),
    Arm.of("toppo", "toppo-alpha=0", alpha=0.0),
    Arm.of("toppo", "toppo-no-early-stop", early_stop=False),
    Arm.of("ppo", "ppo-early-stop", early_stop=True),
)
# What old data are labelled with, by V-trace, by GAE with the newest critic, or once and for all, on two draws.
LABELS = (
    Arm.of("geppo"),
    Arm.of("geppo", "geppo-newest-critic", vtrace=False),
    Arm.of("geppo", "geppo-frozen", recompute_adv=False, vtrace=False),
    Arm.of("toppo", "toppo-vtrace", recompute_adv=True, vtrace=True),
    Arm.of("toppo", "toppo-newest-critic", recompute_adv=True),
    Arm.of("toppo"),
)
# Settings that differ beside the method.  The papers have the first, third and fifth arm.
STD_AND_STOP = tuple(
    Arm.of(algo, name + std, early_stop=stop, **log_std_init)
    for std, log_std_init in (("", {}), ("-std=0.6", {"log_std_init": -0.5}))
    for algo, stop, name in (
        ("toppo", True, "toppo"),
        ("toppo", False, "toppo-no-early-stop"),
        ("ppo", False, "ppo"),
        ("ppo", True, "ppo-early-stop"),
        ("geppo", False, "geppo"),
        ("geppo", True, "geppo-early-stop"),
    )
)
DISCRETE = arms(*(algo for algo in FAMILY if algo != "disc"))
THREE = arms("toppo", "ppo", "geppo")
TWO = arms("toppo", "ppo")

# The verdicts rest on the first three: a study that is stopped early has these.
PERFORMANCE = Study(
    "performance",
    "seven algorithms on seven tasks",
    (
        paper_grid(THREE, PAPER_TASKS, MILLION, 10),
        paper_grid(arms("trpo", "otrpo", "oppo", "disc"), PAPER_TASKS, MILLION, 10),
    ),
)
# Without annealing a run of 500k steps is the first half of one of 1M: only the arm that continues is trained again.
PROOF = Study(
    "proof",
    "ToPPO, PPO and GePPO on five tasks, 5 seeds; the other four, 3 seeds; batches that reset or continue",
    (
        paper_grid(THREE, FIVE_TASKS, MILLION, 5),
        paper_grid((Arm.of("toppo", reset_each_batch=False),), THREE_TASKS, MILLION // 2, 5),
        paper_grid(arms("trpo", "otrpo", "oppo", "disc"), FIVE_TASKS, MILLION, 3),
    ),
)
PROOF_GAMES = Study(
    "proof-atari",
    "ToPPO and PPO on two games, 2 seeds; a short run of each on the other thirteen",
    (
        paper_grid(TWO, LONG_GAMES, MILLION // 4, 2),
        paper_grid(TWO, SHORT_GAMES, 20_480, 1),
    ),
)
PROOF_DISCRETE = Study(
    "proof-discrete",
    "all algorithms for discrete actions on CartPole, Acrobot, LunarLander and an empty room of MiniGrid, 3 seeds",
    (
        paper_grid(DISCRETE, ("CartPole-v1", "Acrobot-v1"), MILLION // 5, 3),
        paper_grid(DISCRETE, (MINIGRID,), MILLION // 20, 3),
        paper_grid(DISCRETE, ("LunarLander-v3",), MILLION // 2, 3),
    ),
)

MINATAR_STUDY = Study(
    "minatar",
    "ToPPO, PPO and GePPO on five MinAtar games in JAX, at the default preset",
    (Grid(THREE, MINATAR, 5 * MILLION, 10),),
)
DEFAULTS = Study(
    "defaults",
    "ToPPO, PPO, GePPO and DISC at the default preset on twelve continuous tasks",
    tuple(Grid(chosen, ALL_TASKS, MILLION, 10) for chosen in (TWO, arms("geppo", "disc"))),
)
DEFAULTS_DISCRETE = Study(
    "defaults-discrete",
    "ToPPO and PPO at the default preset on five tasks with discrete actions: are they solved, and do they stay so?",
    (
        Grid(TWO, ("CartPole-v1", "Acrobot-v1", DOOR_KEY), MILLION // 5, 10),
        Grid(TWO, (MINIGRID,), MILLION // 20, 10),
        Grid(TWO, ("LunarLander-v3",), MILLION // 2, 10),
    ),
)

PAPER = {
    study.name: study
    for study in (
        PERFORMANCE,
        DEFAULTS,
        DEFAULTS_DISCRETE,
        one_grid("atari", "ToPPO and PPO on fifteen Atari games", TWO, PAPER_GAMES, 25 * MILLION, 3),
        one_grid("selection", "N = 5 and 6 with and without selection", SELECTION_ARMS, SELECTION_TASKS, MILLION, 10),
        one_grid("memory-size", "|M| over training", MEMORY_ARMS, ("Swimmer-v5",), MILLION, 10),
        one_grid("adaptive-eps", "fixed and adaptive clip range", EPS_ARMS, EPS_TASKS, MILLION, 10),
        one_grid("alpha-n", "final return against alpha and N", ALPHA_ARMS, ALPHA_TASKS, MILLION, 10),
        one_grid("controls", "is it the old data or the early stop?", CONTROLS, THREE_TASKS, MILLION, 10),
        one_grid("labels", "three labels of old data, on GePPO's draw and ToPPO's", LABELS, THREE_TASKS, MILLION, 10),
        one_grid("std-and-stop", "initial std and early stop", STD_AND_STOP, THREE_TASKS, MILLION, 10),
        PROOF,
        one_grid("proof-humanoid", "ToPPO, PPO and GePPO on the two humanoids", THREE, HUMANOIDS, MILLION // 2, 3),
        PROOF_GAMES,
        PROOF_DISCRETE,
        MINATAR_STUDY,
    )
}


class QuickScale(NamedTuple):
    """The size of a quick run: steps, seeds, and settings for every arm."""

    steps: int
    seeds: int
    settings: dict[str, object] = {}  # noqa: RUF012 - never changed


# Each takes at most a quarter of an hour on two cores.
QUICK = {
    "performance": QuickScale(20_480, 1),
    "defaults": QuickScale(20_480, 1),
    "defaults-discrete": QuickScale(20_480, 1),
    # With eight environments half of the games would not end; more epochs would take too long.
    "atari": QuickScale(4_096, 1, {"n_envs": 1, "n_epochs": 1}),
    "selection": QuickScale(102_400, 2),
    "memory-size": QuickScale(204_800, 2),
    "adaptive-eps": QuickScale(102_400, 2),
    "alpha-n": QuickScale(30_720, 1),
    "controls": QuickScale(102_400, 2),
    "labels": QuickScale(51_200, 1),
    "std-and-stop": QuickScale(30_720, 1),
    "minatar": QuickScale(81_920, 1),
}


def paper_study(name: str, scale: str = "paper") -> Study:
    """Return a study at the scale ``paper`` or ``quick``."""
    if name not in PAPER:
        raise ToppoError(f"{name!r} is not a study or a JSON file: {suggestion(name, PAPER)}")
    study = PAPER[name]
    if scale == "paper":
        return study
    return study._replace(name=f"{name}-quick", grids=tuple(_shrunk(grid, QUICK[name]) for grid in study.grids))


def _shrunk(grid: Grid, scale: QuickScale) -> Grid:
    chosen = tuple(arm._replace(settings=arm.settings | scale.settings) for arm in grid.arms)
    return grid._replace(arms=chosen, total_timesteps=scale.steps, seeds=scale.seeds)
