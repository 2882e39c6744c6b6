import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support import reference
from tests.support.problems import random_problem
from tests.support.training import on_host, setup_for, train_all
from toppo.algos.contract import Segment
from toppo.algos.disc import ALGORITHM, DISCConfig, adapt_penalty, draw, minibatches
from toppo.algos.settings import Common

CONFIG = DISCConfig(n_steps=8)


def batches(count):
    return tuple(Segment(*[i] * 12) for i in range(count))


def test_old_batches_take_part_while_pi_k_is_near():
    gaps = [0.05, 0.11, 0.0999, 0.3, 0.02, 0.01, 0.01, 0.0]
    drawn = draw(CONFIG, batches(8), gaps, 0.0, np.random.default_rng(0))
    assert [s.obs for s in drawn.segments] == [7, 6, 5, 4, 2, 0, 7]  # five are near, a sixth fills up
    assert drawn.weights == (1.0,) * 6 + (0.0,)


def test_the_shapes_are_those_of_the_list():
    for old in range(64):
        drawn = draw(CONFIG, batches(old + 1), [0.0] * (old + 1), 0.0, np.random.default_rng(0))
        assert len(drawn.segments) - 1 in (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
        assert sum(drawn.weights) == old + 1
        assert len(drawn.segments) - 1 < 1.5 * max(old, 1)


def test_minibatches_draw_from_the_newest_and_from_the_old():
    common = Common(n_epochs=3, n_minibatches=2)
    rows = minibatches(CONFIG, common, (1.0, 1.0, 1.0, 1.0, 0.0), np.random.default_rng(0))
    assert rows.shape == (3, 2, 4 * 5)
    newest, old, padding = rows[..., :4], rows[..., 4:16], rows[..., 16:]
    assert newest.min() >= 0
    assert newest.max() < 8
    assert set(old.ravel()) <= set(range(8, 32))
    assert len({i // 8 for i in old.ravel()}) == 3
    assert set(padding.ravel()) == {32}
    assert minibatches(CONFIG, common, (1.0,), np.random.default_rng(0)).shape == (3, 2, 4)


def test_padding_changes_nothing():
    problem = random_problem(8, 8, n_epochs=2, adam_eps=1e-5)._replace(clip_eps=np.float32(0.4), lr=np.float32(0.01))
    problem = problem._replace(opt=ALGORITHM.init_opt(CONFIG, problem.common, problem.policy))
    tail = jax.tree.map(lambda x: x[:8], problem.sample)._replace(
        weight=np.zeros(8, np.float32), newest=np.zeros(8, np.float32)
    )
    padded = jax.tree.map(lambda a, b: np.concatenate([a, b]), problem.sample, tail)
    index = np.concatenate([problem.minibatches, np.full((2, 1, 8), 16, np.int32)], axis=-1)
    improve = jax.jit(
        lambda sample, index: ALGORITHM.improve(CONFIG, problem._replace(sample=sample, minibatches=index))
    )
    plain, filled = (
        on_host(improve(*x)) for x in ((problem.sample, jnp.asarray(problem.minibatches)), (padded, jnp.asarray(index)))
    )
    for a, b in zip(jax.tree.leaves(plain), jax.tree.leaves(filled), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-6)


def test_the_penalty_is_that_of_the_newest_samples():
    problem = random_problem(8, 8)._replace(lr=np.float32(0.0), clip_eps=np.float32(0.4))
    away = jax.tree.map(lambda x: np.asarray(x + 0.1, np.float32), problem.policy)
    problem = problem._replace(policy=away, opt=ALGORITHM.init_opt(CONFIG, problem.common, away))
    improved = jax.jit(lambda rows: ALGORITHM.improve(CONFIG, problem._replace(minibatches=rows)))(problem.minibatches)
    s, net = problem.sample, problem.net
    log_ratio = np.asarray(net.family.log_prob(net.policy(away, s.obs), s.action)) - s.logp
    np.testing.assert_allclose(improved.report["train/is_penalty"], np.square(log_ratio[:8]).mean() / 2, rtol=1e-4)
    assert improved.opt[1] == 2.0  # far above its target


def test_the_weight_of_the_penalty_adapts():
    for alpha, penalty, after in [
        (1.0, 0.0016, 2.0), (1.0, 0.0015, 1.0), (1.0, 0.0006, 0.5), (64.0, 1.0, 64.0), (0.0, 1.0, 0.0),
    ]:  # fmt: skip
        assert float(adapt_penalty(jnp.float32(alpha), jnp.float32(penalty), 0.001)) == after


def test_the_learning_rate_has_a_floor():
    common = Common(anneal_lr=True)
    assert [ALGORITHM.learning_rate(CONFIG, common, p) for p in (0.0, 0.5, 0.9)] == [3e-4, 1.5e-4, 1e-4]


@pytest.mark.parametrize("reset", [False, True])
def test_memory_is_one_stream_in_the_newest_scale(reset):
    """Labels of all old batches are those of one long path, unless every batch begins with a reset."""
    setup = setup_for("disc", iterations=4, reset_each_batch=reset)
    turns = train_all(setup)
    before, memory = turns[2].state, turns[3].state.memory  # labelled by the learner of ``before``
    assert len(memory) == 4
    for batch in memory:
        assert all(np.array_equal(a, b) for a, b in zip(batch.normaliser, memory[-1].normaliser, strict=True))
    net, params = setup.net, before.learner.params

    def stream(name):
        return np.concatenate([getattr(b, name) for b in memory])

    def norm(x):
        return np.clip((x - memory[-1].normaliser.mean) * memory[-1].normaliser.inv_std, -10, 10)[:, 0]

    value, following = (np.asarray(net.value(params.value, norm(stream(x))))[:, None] for x in ("obs", "next_obs"))
    logp = np.asarray(net.family.log_prob(net.policy(params.policy, norm(stream("obs"))), stream("action")[:, 0]))
    ratio = np.exp(logp - stream("logp")[:, 0])[:, None]
    ratio[-64:] = 1.0
    ended = stream("ended").copy()
    if reset:
        ended[63::64] = True
    reward = np.clip(stream("reward") * memory[-1].normaliser.reward_scale, -10, 10)
    expected, targets = reference.vtrace(
        reward=reward.astype(float), value=value.astype(float), next_value=following.astype(float),
        terminated=stream("terminated"), ended=ended, ratio=ratio.astype(float), gamma=0.9, lam=0.97,
    )  # fmt: skip
    np.testing.assert_allclose(stream("adv"), expected, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(stream("ret"), targets, rtol=1e-3, atol=1e-4)
