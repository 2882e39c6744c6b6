"""Two sets of settings as data, by kind of environment: the papers' own, and the best that we know."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from toppo.algos.schedules import LINEAR, linear_from
from toppo.algos.settings import Common, schedules_of
from toppo.envs import EnvSource, Source, resolve
from toppo.errors import ToppoError, suggestion
from toppo.runs.spec import Spec, algorithm, refuse_unknown, settings_from

PAPER_TASKS = tuple(
    f"{task}-v5" for task in ("HalfCheetah", "Swimmer", "Reacher", "Hopper", "HumanoidStandup", "Walker2d", "Humanoid")
)

# The eight games of the paper's main figure, then the seven of its appendix.
PAPER_GAMES = tuple(
    f"{game}NoFrameskip-v4"
    for game in (
        *("BattleZone", "Breakout", "Carnival", "CrazyClimber", "Enduro", "FishingDerby", "Krull", "NameThisGame"),
        *("Centipede", "Gopher", "Gravitar", "KungFuMaster", "MsPacman", "Pooyan", "Qbert"),
    )
)


class Preset(NamedTuple):
    """A set of settings that differ from those of the dataclasses; none is for a single task."""

    shared: Mapping[str, Mapping[str, object]]  # by kind of environment
    own: Mapping[tuple[str, str], Mapping[str, object]]  # by kind of environment and algorithm, shared and own alike


# The paper gives the clip range for Atari and refers to common settings for the rest: those of PPO's own paper.
ATARI = {
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
}
ATARI_OWN: dict[tuple[str, str], Mapping[str, object]] = {
    ("atari", "ppo"): {"n_steps": 1024, "clip_range": 0.1},
    ("atari", "toppo"): {"early_stop": False},
    ("atari", "trpo"): {"shared_trunk": False},
    ("atari", "otrpo"): {"shared_trunk": False},
}
# Not the papers' own: common settings for many environments on a device.  MinAtar's are those of Atari without images.
JAX: dict[str, Mapping[str, object]] = {
    "jax": {"n_envs": 64},
    "minatar": {
        "gamma": 0.99,
        "gae_lambda": 0.95,
        "n_epochs": 4,
        "n_minibatches": 8,
        "anneal_lr": True,
        "adam_eps": 1e-5,
        "ent_coef": 0.01,
        "n_envs": 64,
        "warmup_steps": 0,
        "normalise_obs": False,
        "normalise_reward": False,
    },
}
MINATAR_OWN: dict[tuple[str, str], Mapping[str, object]] = {
    ("minatar", algo): {"n_steps": 8192} for algo in ("toppo", "ppo", "geppo", "trpo", "otrpo", "oppo")
}
# Appendix A.3 of the paper, table "Hyperparameters for ToPPO on Mujoco tasks", and the code it builds on: gamma,
# lambda, epochs, minibatches, Adam and the networks are the defaults of ``Common``; batches start with a reset.
PAPER = Preset(
    shared={"mujoco": {"reset_each_batch": True}, "atari": ATARI, "other": {}, **JAX}, own=ATARI_OWN | MINATAR_OWN
)
# What docs/results/strength found on the development seeds; gamma and lambda stay the paper's.  Sixteen environments
# give batches of many phases of an episode; entropy bonus and annealed rate let a policy keep its exploration.
VECTORS: Mapping[str, object] = {
    "log_std_init": -0.5,
    "ent_coef": 0.01,
    "learning_rate": ((0.0, 3e-4), (1.0, 0.0)),
    "n_envs": 16,
}
# The entropy of a Gaussian has no bound: with actions of many dimensions a bonus outweighs the advantages, and where
# actions are clipped the standard deviation grows to hundreds.
MUJOCO = {**VECTORS, "ent_coef": 0.0}
# The newest four batches, as far as they are near.
MEMORY: Mapping[str, object] = {
    "clip_range": 0.2,
    "early_stop": False,
    "n_policies": 4,
    "n_old": 3,
    "age_weights": True,
    "recompute_adv": True,
    "centre_adv": True,
    "alpha": "auto",
}
# PPO updates on 2048 new samples, each ten times.  Here a sample takes part in four updates of three epochs, and the
# updates come twice as often.  On four batches a gradient has less noise, so that it bears twice the learning rate.
OFTEN: Mapping[str, object] = {
    "n_steps": 1024,
    "n_epochs": 3,
    "n_minibatches": 64,
    "learning_rate": ((0.0, 6e-4), (1.0, 0.0)),
    # Plain GAE of an older policy by the newest critic is the advantage of neither: Hopper stopped at standing still.
    "vtrace": True,
    # What an update fitted in a batch, noise included, asks the next updates for a smaller standard deviation.
    "std_on_old": False,
    "adapt_lr": True,  # the more dimensions the actions have, the further the policy moves at the same rate
}
OF_VECTORS: dict[str, Mapping[str, object]] = {"mujoco": MUJOCO, "other": VECTORS}
OF_VECTORS |= {kind: {**VECTORS, **settings, "anneal_lr": False} for kind, settings in JAX.items()}  # annealed already
# Grids of 100 bits in 4 to 10 channels: at 3e-4, or with tanh, Breakout stops at its first seven bricks.
OF_VECTORS["minatar"] = {**OF_VECTORS["minatar"], "learning_rate": ((0.0, 5e-3), (1.0, 0.0)), "activation": "relu"}
DEFAULT = Preset(
    shared={"atari": ATARI, **OF_VECTORS},
    own={
        **ATARI_OWN,
        **MINATAR_OWN,
        **{(kind, "toppo"): {**MEMORY, **OFTEN} for kind in ("mujoco", "other", "jax")},
        # The epochs and minibatches of all others; one pass over more old batches did not learn Breakout.
        ("minatar", "toppo"): {**MEMORY, "n_steps": 8192, "n_old": 1},
    },
)
PRESETS = {"default": DEFAULT, "paper": PAPER}
# Names that Stable-Baselines3 and CleanRL have, and toppo has not.
OTHERS_NAMES = {
    "batch_size": "n_minibatches is the number of minibatches per pass",
    "clip_coef": "it is clip_range",
    "device": "toppo runs on CPUs",
    "lr": "it is learning_rate",
    "net_arch": "the widths are hidden and hidden_critic",
    "policy": "the network follows from the spaces of the environment",
    "policy_kwargs": "hidden, hidden_critic, activation and log_std_init are settings",
    "steps": "it is total_timesteps, in Python an argument of learn",
    "target_kl": "early_stop bounds the total variation instead",
    "tensorboard_log": "learn(..., log_dir=PATH) writes event files",
    "use_sde": "a policy of continuous actions is Gaussian in each step",
    "verbose": "learn(..., progress_bar=True) shows progress",
}


def defaults(algo: str, env: EnvSource | Source, preset: str = "default") -> tuple[Common, Any]:
    """Shared and own settings of an algorithm on an environment."""
    if preset not in PRESETS:
        raise ToppoError(f"{preset!r} is not a preset: {suggestion(preset, PRESETS)}")
    chosen = algorithm(algo)
    kind = resolve(env).kind
    common = settings_from(Common, {**PRESETS[preset].shared[kind], **chosen.common})
    return changed(chosen.title, common, chosen.config(), PRESETS[preset].own.get((kind, algo), {}))


def spec_for(
    env: EnvSource | Source,
    algo: str,
    total_timesteps: int,
    seed: int,
    /,
    preset: str = "default",
    **settings: object,
) -> Spec:
    """A spec from a preset, with single settings changed by name, shared and own alike."""
    source = resolve(env)
    if source.is_object:  # there is only one of it
        settings = {"n_envs": source.num_envs or 1, **settings}
    common, config = changed(algorithm(algo).title, *defaults(algo, source, preset), settings)
    return Spec(
        env=source.name,
        algo=algo,
        total_timesteps=total_timesteps,
        seed=seed,
        common=common,
        config=config,
        env_kwargs=source.kwargs,
    )


def changed(owner: str, common: Common, config: Any, settings: Mapping[str, object]) -> tuple[Common, Any]:
    """Shared and own settings with some of them changed by name; ``owner`` stands in the refusal of unknown ones."""
    base = {**vars(common), **vars(config)}
    if others := [name for name in settings if name in OTHERS_NAMES]:
        raise ValueError(f"{owner} has no setting `{others[0]}`: {OTHERS_NAMES[others[0]]}")
    refuse_unknown(owner, settings, base)
    schedules = schedules_of(Common) | schedules_of(type(config))
    settings = {
        name: linear_from(name, base[name]) if name in schedules and value == LINEAR else value
        for name, value in settings.items()
    }
    shared = {name: value for name, value in settings.items() if hasattr(common, name)}
    own = {name: value for name, value in settings.items() if name not in shared}
    return settings_from(Common, vars(common) | shared), settings_from(type(config), vars(config) | own)
