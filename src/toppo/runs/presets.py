"""The papers' tables as data: which settings an algorithm starts from, by kind of environment."""

from typing import Any

from toppo.algos.settings import Common
from toppo.envs.source import kind_of
from toppo.runs.spec import Spec, algorithm, settings_from

PAPER_TASKS = (
    "HalfCheetah-v5",
    "Swimmer-v5",
    "Reacher-v5",
    "Hopper-v5",
    "HumanoidStandup-v5",
    "Walker2d-v5",
    "Humanoid-v5",
)

# The eight games of the paper's main figure, then the seven of its appendix.
PAPER_GAMES = tuple(
    f"{game}NoFrameskip-v4"
    for game in (
        *("BattleZone", "Breakout", "Carnival", "CrazyClimber", "Enduro", "FishingDerby", "Krull", "NameThisGame"),
        *("Centipede", "Gopher", "Gravitar", "KungFuMaster", "MsPacman", "Pooyan", "Qbert"),
    )
)

# Appendix A.3 of the paper, table "Hyperparameters for ToPPO on Mujoco tasks", and the code it builds on: gamma,
# lambda, epochs, minibatches, Adam and the networks are the defaults of ``Common``; batches start with a reset.
KINDS: dict[str, dict[str, Any]] = {
    "mujoco": {"reset_each_batch": True},
    # The paper gives the clip range for Atari and refers to common settings for the rest: those of PPO's own paper.
    "atari": {
        "gamma": 0.99,
        "gae_lambda": 0.95,
        "n_epochs": 4,
        "n_minibatches": 4,
        "learning_rate": 2.5e-4,
        "anneal_lr": True,
        "adam_eps": 1e-5,
        "ent_coef": 0.01,
        "n_envs": 8,
        "warmup_steps": 0,
        "normalise_obs": False,
        "normalise_reward": False,
        "sign_reward": True,
        "shared_trunk": True,
        "clip_range_vf": 0.1,
    },
    "other": {},
}
# What an algorithm needs besides on a kind of environment, shared and own settings alike.
OVERRIDES: dict[tuple[str, str], dict[str, Any]] = {
    ("atari", "ppo"): {"n_steps": 1024, "clip_range": 0.1},
    ("atari", "toppo"): {"early_stop": False},
    ("atari", "trpo"): {"shared_trunk": False},
    ("atari", "otrpo"): {"shared_trunk": False},
}


def defaults(algo: str, env: str) -> tuple[Common, Any]:
    """Shared and own settings of an algorithm on an environment."""
    chosen, kind = algorithm(algo), kind_of(env)
    common = settings_from(Common, {**KINDS[kind], **chosen.common})
    return _changed(common, chosen.config(), OVERRIDES.get((kind, algo), {}))


def spec_for(env: str, algo: str, steps: int, seed: int, **settings: Any) -> Spec:
    """A spec from the defaults, with single settings changed by name, shared and own alike."""
    return Spec(env, algo, steps, seed, *_changed(*defaults(algo, env), settings))


def _changed(common: Common, config: Any, settings: dict[str, Any]) -> tuple[Common, Any]:
    shared = {k: v for k, v in settings.items() if hasattr(common, k)}
    own = {k: v for k, v in settings.items() if k not in shared}
    return settings_from(Common, vars(common) | shared), settings_from(type(config), vars(config) | own)
