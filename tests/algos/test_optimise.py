import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support.problems import random_problem
from toppo.algos.contract import CriticProblem
from toppo.algos.optimise import adam_epochs, adam_init, adam_update, adapted_lr, squared_error
from toppo.algos.ppo import PPOConfig, surrogate
from toppo.algos.settings import Common
from toppo.algos.steps import scheduled_lr, shuffled

COMMON = Common(n_epochs=3, n_minibatches=2, adam_eps=1e-4)


def permutations(common, count):
    return shuffled(PPOConfig(n_steps=count), common, (1.0,), np.random.default_rng(0))


def ascend(should_continue=None, bound=0.0):
    """Adam on -(theta - mean(x))^2 over six numbers."""
    data = jnp.asarray([1.0, 2.0, 3.0, 5.0, 8.0, 13.0])
    order = jnp.asarray(permutations(COMMON, 6))

    def objective(theta, x):
        return -jnp.square(theta["a"] - x.mean()), x.mean()

    params = {"a": jnp.zeros(())}
    problem = CriticProblem(
        common=COMMON,
        net=None,
        critic=params,
        opt=adam_init(COMMON, params),
        sample=None,
        minibatches=order,
        lr=None,
        epochs=None,
        clip_range=0.0,
    )
    lr = jnp.float32(0.1)
    run = jax.jit(lambda: adam_epochs(objective, params, problem, data, lr, should_continue, bound))
    return run(), np.asarray(data), np.asarray(order)


@pytest.mark.parametrize("bound", [0.0, 0.5])
def test_adam_by_hand(bound):
    done, data, order = ascend(bound=bound)
    theta, m, v, t, values, norms = 0.0, 0.0, 0.0, 0, [], []
    for part in order.reshape(-1, 3):
        target = data[part].mean()
        values.append(-((theta - target) ** 2))
        g = -2 * (theta - target)
        norms.append(abs(g))
        if bound:
            g *= min(1.0, bound / abs(g))
        t, m, v = t + 1, 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        theta += 0.1 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-4)
    assert float(done.params["a"]) == pytest.approx(theta, rel=1e-4)
    assert float(done.objective) == pytest.approx(np.mean(values[-2:]), rel=1e-4)  # of the last epoch
    assert float(done.grad_norm) == pytest.approx(np.mean(norms[-2:]), rel=1e-4)
    assert float(done.extra) == pytest.approx(data.mean(), rel=1e-5)  # of all epochs
    assert int(done.epochs) == 3


def test_the_epochs_end_when_told():
    done, _, _ = ascend(should_continue=lambda theta, epochs: epochs < 2)
    assert int(done.epochs) == 2
    done, _, _ = ascend(should_continue=lambda theta, epochs: theta["a"] < 0.0)
    assert int(done.epochs) == 1  # the first is always run


def test_permutations_visit_every_sample_once_and_drop_the_rest():
    rows = permutations(Common(n_epochs=4, n_minibatches=3), 11)
    assert rows.shape == (4, 3, 3)
    for row in rows:
        assert len(set(row.ravel())) == 9
    assert len({tuple(row.ravel()) for row in rows}) == 4


@pytest.mark.parametrize(("tv", "factor"), [(0.06, 1 / 1.03), (0.04, 1.0), (0.02, 1.03)])
def test_the_learning_rate_follows_the_total_variation(tv, factor):
    assert float(adapted_lr(jnp.float32(2.0), jnp.float32(tv), jnp.float32(0.1))) == pytest.approx(2 * factor)


def test_the_critics_change_is_clipped_only_where_that_costs_more():
    # V = 2, R = 0, V_k = 1, eps = 1/2: max(4, 1.5^2) / 2; with R = 3: max(1, 1.5^2) / 2; without a bound (2 - 3)^2 / 2.
    error = lambda ret, eps: float(squared_error(jnp.array(2.0), jnp.array(ret), jnp.array(1.0), eps))  # noqa: E731
    assert [error(0.0, 0.5), error(3.0, 0.5), error(3.0, 0.0)] == [2.0, 1.125, 0.5]


def test_the_learning_rate_falls_only_if_it_is_annealed():
    rates = [scheduled_lr(None, Common(learning_rate=0.4, anneal_lr=anneal), 0.75) for anneal in (False, True)]
    assert rates == pytest.approx([0.4, 0.1])


def test_the_adapted_learning_rate_is_the_one_that_is_used():
    problem = random_problem(32, n_epochs=2)
    problem = problem._replace(opt=adam_init(problem.common, problem.policy))

    def moved(lr, lr_scale):
        given = problem._replace(lr=jnp.float32(lr), lr_scale=jnp.float32(lr_scale))
        return jax.tree.leaves(adam_update(given, surrogate).policy)

    doubled = moved(0.01, 2.0)
    for a, b in zip(doubled, moved(0.02, 1.0), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)
    assert any(np.abs(a - b).max() > 1e-3 for a, b in zip(doubled, moved(0.01, 1.0), strict=True))
