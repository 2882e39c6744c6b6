"""The papers' tables as data: which settings an algorithm starts from, by kind of environment."""

from typing import Any

from toppo.envs.make import kind_of
from toppo.spec import Spec, algorithm, settings_from
from toppo.types import Common

PAPER_TASKS = (
    "HalfCheetah-v5",
    "Swimmer-v5",
    "Reacher-v5",
    "Hopper-v5",
    "HumanoidStandup-v5",
    "Walker2d-v5",
    "Humanoid-v5",
)

# Appendix A.3 of the paper, table "Hyperparameters for ToPPO on Mujoco tasks", and the code it builds on: gamma,
# lambda, epochs, minibatches, Adam and the networks are the defaults of ``Common``; batches start with a reset.
KINDS: dict[str, dict[str, Any]] = {
    "mujoco": {"reset_each_batch": True},
    "other": {},
}


def defaults(algo: str, env: str) -> tuple[Common, Any]:
    """Shared and own settings of an algorithm on an environment."""
    chosen = algorithm(algo)
    return settings_from(Common, {**KINDS[kind_of(env)], **chosen.common}), chosen.config()


def spec_for(env: str, algo: str, steps: int, seed: int, **settings: Any) -> Spec:
    """A spec from the defaults, with single settings changed by name, shared and own alike."""
    common, config = defaults(algo, env)
    shared = {k: v for k, v in settings.items() if hasattr(common, k)}
    own = {k: v for k, v in settings.items() if k not in shared}
    return Spec(
        env,
        algo,
        steps,
        seed,
        settings_from(Common, vars(common) | shared),
        settings_from(type(config), vars(config) | own),
    )
