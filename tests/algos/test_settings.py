"""A dead setting makes a results table false: nudging any of them must change what the algorithm does."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support.problems import random_problem
from tests.support.training import ALGOS, learned, setup_for, train_all, with_common
from toppo.algos import REGISTRY
from toppo.algos.contract import CriticProblem, Segment, Trajectory
from toppo.algos.optimise import adam_init
from toppo.algos.settings import Common

# Where a setting matters only beside others, or where its nudge must be of another size.
BESIDE: dict[tuple[str, str], dict[str, Any]] = {
    ("toppo", "delta"): {"improve": "trust_region"},
    ("toppo", "select"): {"alpha": 0.0},
    ("toppo", "vtrace"): {"recompute_adv": True},
    ("trpo", "shrink"): {"slack": 0.2},
    ("trpo", "backtracks"): {"slack": 1e-3},
    ("otrpo", "n_policies"): {"n_old": 4},
    ("oppo", "n_policies"): {"n_old": 4},
}
VALUE: dict[tuple[str, str], Any] = {
    ("toppo", "improve"): "trust_region",
    ("toppo", "n_policies"): 2,
    ("trpo", "cg_iterations"): 1,
    ("trpo", "slack"): 0.1,
    ("trpo", "backtracks"): 20,
    ("geppo", "mean_age"): 1.0,
    ("disc", "n_policies"): 2,
    ("disc", "lr_min"): 0.5,
    ("disc", "j_target"): 100.0,
}
OWN = [(name, f.name) for name in ALGOS for f in dataclasses.fields(REGISTRY[name].config)]
WITH_A_TRUNK = ("vf_coef", "clip_range_vf")
OF_THE_LOOP = (
    *("hidden", "log_std_init", "n_envs", "reset_each_batch", "warmup_steps", "normalise_obs", "normalise_reward"),
    *("sign_reward", "shared_trunk", *WITH_A_TRUNK, "hidden_critic", "activation", "last_layer_gain"),
)
OF_ALGORITHMS = [f.name for f in dataclasses.fields(Common) if f.name not in OF_THE_LOOP]
LARGE = 0.05  # a learning rate whose steps reach the clip


def nudged(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    return value + 8 if isinstance(value, int) else value * 0.5


def bits(tree: Any) -> bytes:
    leaves = [np.asarray(x) for x in jax.tree.leaves(tree)]
    assert all(np.isfinite(x).all() for x in leaves)
    return b"".join(x.tobytes() for x in leaves)


def choices(algo: str, config: Any, common: Common) -> list[Any]:
    """What the steps on the host decide for a memory of five batches."""
    chosen = REGISTRY[algo]
    memory = tuple(Segment(*[np.float32(i)] * 12) for i in range(5))
    drawn = chosen.draw(config, memory, [0.3, 0.07, 0.01, 0.02, 0.0], 0.5, np.random.default_rng(0))
    kept = chosen.keep(config, memory, [0.1, 0.02, 0.02, 0.01, 0.001])
    return [
        [float(s.obs) for s in drawn.segments],
        drawn.weights,
        drawn.clip_eps,
        [float(s.obs) for s in kept],
        chosen.minibatches(config, common, drawn.weights, np.random.default_rng(0)).tolist(),
        [chosen.learning_rate(config, common, progress) for progress in (0.0, 0.9)],
        (chosen.traits(config), config.n_steps),
        bits(chosen.init_opt(config, common, np.zeros(3, np.float32))),
    ]


def labels(algo: str, config: Any, common: Common) -> bytes:
    rng = np.random.default_rng(0)
    reward, value, next_value, ratio = (rng.random((6, 2), np.float32) for _ in range(4))
    path = Trajectory(
        reward=reward,
        value=value,
        next_value=next_value,
        terminated=reward < 0.1,
        ended=reward < 0.3,
        ratio=ratio,
        gamma=common.gamma,
        lam=common.gae_lambda,
        after=value[0],
    )
    return bits(REGISTRY[algo].label(config, path))


def updates(algo: str, config: Any, common: Common) -> bytes:
    chosen, problem = REGISTRY[algo], random_problem(32, 32, **vars(common) | {"n_epochs": 2, "n_minibatches": 2})
    problem = problem._replace(opt=chosen.init_opt(config, common, problem.policy))

    def improve(policy: Any, opt: Any, sample: Any, rows: Any) -> Any:
        given = problem._replace(policy=policy, opt=opt, sample=sample, minibatches=rows)
        return chosen.improve(config, given._replace(lr=jnp.float32(LARGE), clip_eps=jnp.float32(0.1)))

    return bits(jax.jit(improve)(problem.policy, problem.opt, problem.sample, problem.minibatches))


def fits(algo: str, config: Any, common: Common) -> bytes:
    p = random_problem(32, 32, **vars(common) | {"n_epochs": 2, "n_minibatches": 2})
    critic = p.net.init(0).value

    def fit(critic: Any, opt: Any, sample: Any, rows: Any) -> Any:
        given = CriticProblem(
            common=p.common,
            net=p.net,
            critic=critic,
            opt=opt,
            sample=sample,
            minibatches=rows,
            lr=jnp.float32(LARGE),
            epochs=jnp.int32(2),
            clip_range=getattr(config, "clip_range", 0.0),
        )
        return REGISTRY[algo].fit_critic(config, given)

    return bits(jax.jit(fit)(critic, adam_init(common, critic), p.sample, p.minibatches))


_known: dict[Any, bytes] = {}


def remembered(step: Any, *given: Any) -> bytes:
    key = (step.__name__, *given)
    if key not in _known:
        _known[key] = step(*given)
    return _known[key]


def differs(algo: str, one: tuple[Any, Common], other: tuple[Any, Common]) -> bool:
    """Does any step of the algorithm, from the cheapest to the dearest, act otherwise?"""
    if choices(algo, *one) != choices(algo, *other):
        return True
    return any(remembered(step, algo, *one) != remembered(step, algo, *other) for step in (labels, updates, fits))


@pytest.mark.parametrize(("algo", "name"), OWN)
def test_every_own_setting_is_read(algo, name):
    setup = setup_for(algo, **BESIDE.get((algo, name), {}))
    value = getattr(setup.config, name)
    other = VALUE[algo, name] if (algo, name) in VALUE else nudged(value)
    changed = dataclasses.replace(setup.config, **{name: other})
    assert differs(algo, (setup.config, setup.common), (changed, setup.common))


@pytest.mark.parametrize("name", OF_ALGORITHMS)
@pytest.mark.parametrize("algo", ALGOS)
def test_every_shared_setting_is_read_by_every_algorithm_or_refused(algo, name):
    setup = setup_for(algo)
    value = getattr(setup.common, name)
    other = 0.01 if value == 0.0 and value is not False else nudged(value)
    changed = dataclasses.replace(setup.common, **{name: other})
    if algo in ("trpo", "otrpo") and name == "max_grad_norm":
        with pytest.raises(ValueError, match=r"max_grad_norm is 0\.01, but must be 0"):
            with_common(setup, **{name: other})
        return
    assert differs(algo, (setup.config, setup.common), (setup.config, changed))


@pytest.mark.parametrize("name", OF_THE_LOOP)
def test_every_setting_of_the_loop_is_read(name):
    other = {"hidden": (3,), "warmup_steps": 200, "log_std_init": -0.5, "n_envs": 2, "clip_range_vf": 0.001}
    other |= {"hidden_critic": (3,), "activation": "relu"}
    setup = setup_for("ppo", iterations=2, **({"shared_trunk": True} if name in WITH_A_TRUNK else {}))
    value = getattr(setup.common, name)
    changed = with_common(setup, **{name: other[name] if name in other else nudged(value)})
    assert learned(train_all(setup)) != learned(train_all(changed))


@pytest.mark.parametrize("algo", ALGOS)
def test_settings_out_of_range_are_refused(algo):
    kind = REGISTRY[algo].config
    for field in dataclasses.fields(kind):
        if type(field.default) in (int, float):
            with pytest.raises(ValueError, match=f"{field.name} is -1"):
                kind(**{field.name: type(field.default)(-1)})
