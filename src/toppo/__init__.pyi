"""What editors and type checkers know of the package; a test keeps the settings equal to the algorithms'."""

from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict, Unpack

from toppo.agent import Agent as Agent
from toppo.agent import load as load
from toppo.envs import EnvSource

__version__: str

_Automatic = float | Literal["auto"]
_Schedule = float | Literal["linear"] | Sequence[Sequence[float]]

class _Shared(TypedDict, total=False):
    seed: int | None
    preset: str
    env_kwargs: Mapping[str, object] | None
    n_steps: int
    gamma: float
    gae_lambda: float
    n_epochs: int
    n_minibatches: int
    learning_rate: _Schedule
    anneal_lr: bool
    adam_eps: float
    max_grad_norm: float
    ent_coef: _Schedule
    hidden: tuple[int, ...]
    hidden_critic: tuple[int, ...]
    activation: str
    last_layer_gain: float
    log_std_init: float
    n_envs: int
    reset_each_batch: bool
    warmup_steps: int
    normalise_obs: bool
    normalise_reward: bool
    sign_reward: bool
    shared_trunk: bool
    vf_coef: float
    clip_range_vf: float

class _PPO(_Shared, total=False):
    clip_range: _Schedule
    early_stop: bool
    adapt_lr: bool

class _ToPPO(_PPO, total=False):
    n_policies: int
    alpha: _Automatic
    select: bool
    n_old: int
    age_weights: bool
    adapt_eps: bool
    recompute_adv: bool
    centre_adv: bool
    critic_on_old: bool
    std_on_old: bool
    improve: str
    delta: float
    vtrace: bool

class _TRPO(_Shared, total=False):
    delta: float
    cg_iterations: int
    damping: float
    slack: float
    shrink: float
    backtracks: int

class _GePPO(_PPO, total=False):
    mean_age: float
    uniform: bool
    eps_vary: bool
    recompute_adv: bool
    vtrace: bool

class _OffPolicyTRPO(_Shared, total=False):
    delta: float
    n_policies: int
    n_old: int
    adapt_radius: bool

class _OffPolicyPPO(_Shared, total=False):
    clip_range: _Schedule
    n_policies: int
    n_old: int
    vtrace: bool

class _DISC(_Shared, total=False):
    clip_range: _Schedule
    n_policies: int
    eps_b: float
    alpha_is: float
    j_target: float
    lr_min: float

class ToPPO(Agent):
    def __init__(self, env: EnvSource, **settings: Unpack[_ToPPO]) -> None: ...

class PPO(Agent):
    def __init__(self, env: EnvSource, **settings: Unpack[_PPO]) -> None: ...

class TRPO(Agent):
    def __init__(self, env: EnvSource, **settings: Unpack[_TRPO]) -> None: ...

class GePPO(Agent):
    def __init__(self, env: EnvSource, **settings: Unpack[_GePPO]) -> None: ...

class OffPolicyTRPO(Agent):
    def __init__(self, env: EnvSource, **settings: Unpack[_OffPolicyTRPO]) -> None: ...

class OffPolicyPPO(Agent):
    def __init__(self, env: EnvSource, **settings: Unpack[_OffPolicyPPO]) -> None: ...

class DISC(Agent):
    def __init__(self, env: EnvSource, **settings: Unpack[_DISC]) -> None: ...
