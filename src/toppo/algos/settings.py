"""Settings: frozen, each with one line of text, checked where they are made."""

from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_type_hints

from toppo.algos.schedules import Schedule, points_of

ACTIVATIONS = ("tanh", "relu", "elu", "silu", "gelu")
AUTO = "auto"
Automatic = float | Literal["auto"]
"""A number, or "auto" for one that the algorithm sets itself."""


def setting(default: Any, text: str) -> Any:
    """A field of a settings class: its default and its line of help."""
    return field(default=default, metadata={"help": text})


def require(ok: bool, sentence: str) -> None:
    """Refuse a setting with a sentence that names the value and the rule."""
    if not ok:
        raise ValueError(sentence)


def require_least(settings: Any, least: float, *names: str) -> None:
    """Refuse any of the named settings that is below ``least``."""
    for name in names:
        rule = f"at least {least}" if least else "0 or more"
        for _, value in points_of(getattr(settings, name)):
            require(value >= least, f"{name} is {value}, but must be {rule}")


def require_above(settings: Any, bound: float, *names: str) -> None:
    """Refuse any of the named settings that is not above ``bound``; a schedule may reach it at the end of the run."""
    for name in names:
        for fraction, value in points_of(getattr(settings, name)):
            ok = value > bound or (fraction == 1 and value == bound)
            require(ok, f"{name} is {value}, but must be above {bound}" + " until the end of the run" * (fraction > 0))


@dataclass(frozen=True)
class Common:
    """Settings that all algorithms share."""

    gamma: float = setting(0.995, "Discount per step; 1 is for tasks whose episodes end.")
    gae_lambda: float = setting(0.97, "Lambda of the advantage estimator.")
    n_epochs: int = setting(10, "Passes over the data per update.")
    n_minibatches: int = setting(32, "Gradient steps per pass.")
    learning_rate: Schedule = setting(3e-4, "Learning rate of Adam, policy and critic.")
    anneal_lr: bool = setting(False, "Lower the learning rate linearly to 0 over the run.")
    adam_eps: float = setting(1e-7, "Adam's epsilon.")
    max_grad_norm: float = setting(0.5, "Bound on the global norm of the policy's gradient; 0 for none.")
    ent_coef: Schedule = setting(0.0, "Weight of the entropy bonus.")
    hidden: tuple[int, ...] = setting((64, 64), "Widths of the hidden layers.")
    hidden_critic: tuple[int, ...] = setting((), "Widths of the critic's hidden layers; none: as the policy's.")
    activation: str = setting("tanh", f"Function between the layers: {', '.join(ACTIVATIONS)}.")
    last_layer_gain: float = setting(0.01, "Gain of the policy's last layer at the start; its weights are orthogonal.")
    log_std_init: float = setting(0.0, "Initial log standard deviation of a Gaussian policy.")
    n_envs: int = setting(1, "Environments stepped side by side; a batch is split among them.")
    reset_each_batch: bool = setting(False, "Start every batch with a reset instead of continuing the episodes.")
    warmup_steps: int = setting(2048, "Steps taken before training to initialise the normaliser; not counted.")
    normalise_obs: bool = setting(True, "Normalise observations by running mean and standard deviation.")
    normalise_reward: bool = setting(True, "Divide rewards by the running standard deviation of the return.")
    sign_reward: bool = setting(False, "Learn from the sign of the reward alone; returns are logged as they are.")
    shared_trunk: bool = setting(False, "One network for policy and critic up to their last layers.")
    vf_coef: float = setting(0.5, "Weight of the critic's loss, for DISC and where the trunk is shared.")
    clip_range_vf: float = setting(0.0, "Bound on the critic's change per update, if the trunk is shared; 0: none.")

    def __post_init__(self) -> None:
        require(0 <= self.gamma <= 1, f"gamma is {self.gamma}, but must be in [0, 1]")
        require(0 <= self.gae_lambda <= 1, f"gae_lambda is {self.gae_lambda}, but must be in [0, 1]")
        require_least(self, 1, "n_epochs", "n_minibatches", "n_envs")
        require_above(self, 0, "learning_rate", "adam_eps", "last_layer_gain")
        require_least(self, 0, "max_grad_norm", "ent_coef", "warmup_steps", "vf_coef", "clip_range_vf")
        for name in ("hidden", "hidden_critic"):
            widths = getattr(self, name)
            require(all(w >= 1 for w in widths), f"{name} is {widths}, but every width must be at least 1")
        require(
            not (self.shared_trunk and self.hidden_critic),
            f"hidden_critic is {self.hidden_critic}, but with shared_trunk the critic has no layers of its own: leave "
            "it empty, or use --no-shared-trunk",
        )
        require(
            not (self.anneal_lr and isinstance(self.learning_rate, tuple)),
            "anneal_lr is True, but learning_rate is a schedule already: use --no-anneal-lr",
        )
        known = ", ".join(ACTIVATIONS)
        require(self.activation in ACTIVATIONS, f"activation is {self.activation!r}, but must be one of {known}")


def help_texts(settings: type) -> dict[str, str]:
    """The line of text of every field of a settings class."""
    return {f.name: f.metadata["help"] for f in fields(settings)}


def schedules_of(settings: type) -> set[str]:
    """The names of the fields of a settings class that may be schedules."""
    return {name for name, hint in get_type_hints(settings).items() if hint == Schedule}


def automatic_of(settings: type) -> set[str]:
    """The names of the fields of a settings class that may be "auto"."""
    return {name for name, hint in get_type_hints(settings).items() if hint == Automatic}
