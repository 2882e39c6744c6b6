import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import log_softmax

from toppo.maths.distributions import (
    CATEGORICAL,
    GAUSSIAN,
    Categorical,
    Gaussian,
    choices_family,
    gaussian_log_prob_per_dimension,
)

SHAPES = [(3,), (1, 1), (4, 3, 6)]
BOTH = pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])


def gaussians(seed, shape):
    rng = np.random.default_rng(seed)
    return [Gaussian(rng.normal(size=shape), rng.normal(scale=0.7, size=shape)) for _ in range(2)]


def call(function, compiled, *arguments):
    with jax.enable_x64(True):
        wrapped = jax.jit(function) if compiled else function
        return np.asarray(wrapped(*jax.tree.map(jnp.asarray, arguments)))


@BOTH
@pytest.mark.parametrize("shape", SHAPES)
def test_gaussian_log_prob_and_entropy_are_scipys(compiled, shape):
    p, _ = gaussians(len(shape), shape)
    action = np.random.default_rng(9).normal(size=shape) * 2
    reference = stats.norm(p.mean, np.exp(p.log_std))
    per_dimension = call(gaussian_log_prob_per_dimension, compiled, p, action)
    np.testing.assert_allclose(per_dimension, reference.logpdf(action), rtol=1e-10)
    np.testing.assert_allclose(
        call(GAUSSIAN.log_prob, compiled, p, action), reference.logpdf(action).sum(-1), rtol=1e-10
    )
    np.testing.assert_allclose(call(GAUSSIAN.entropy, compiled, p), reference.entropy().sum(-1), rtol=1e-10)
    np.testing.assert_allclose(call(GAUSSIAN.std, compiled, p), np.exp(p.log_std).mean(-1), rtol=1e-12)


@BOTH
@pytest.mark.parametrize("shape", SHAPES)
def test_gaussian_kl_is_the_formula_of_the_paper(compiled, shape):
    p, q = gaussians(len(shape) + 10, shape)
    s_p, s_q = np.exp(p.log_std), np.exp(q.log_std)
    expected = 0.5 * (((p.mean - q.mean) ** 2 + s_p**2) / s_q**2 + 2 * np.log(s_q) - 2 * np.log(s_p) - 1).sum(-1)
    np.testing.assert_allclose(call(GAUSSIAN.kl, compiled, p, q), expected, rtol=1e-10)
    assert np.all(call(GAUSSIAN.kl, compiled, p, p) == 0.0)


@BOTH
@pytest.mark.parametrize("shape", SHAPES)
def test_categorical_is_scipys(compiled, shape):
    rng = np.random.default_rng(len(shape) + 20)
    p, q = (Categorical(rng.normal(size=shape) * 3) for _ in range(2))
    probabilities, others = (np.exp(log_softmax(d.logits, axis=-1)).reshape(-1, shape[-1]) for d in (p, q))
    action = rng.integers(shape[-1], size=shape[:-1])
    logp = [stats.rv_discrete(values=(np.arange(len(row)), row)).logpmf(a)
            for row, a in zip(probabilities, action.reshape(-1), strict=True)]  # fmt: skip
    np.testing.assert_allclose(call(CATEGORICAL.log_prob, compiled, p, action).ravel(), logp, rtol=1e-8)
    np.testing.assert_allclose(
        call(CATEGORICAL.entropy, compiled, p).ravel(), stats.entropy(probabilities, axis=-1), rtol=1e-8, atol=1e-12
    )
    expected = stats.entropy(probabilities, others, axis=-1)
    np.testing.assert_allclose(call(CATEGORICAL.kl, compiled, p, q).ravel(), expected, rtol=1e-8, atol=1e-12)
    assert call(CATEGORICAL.std, compiled, p).shape == shape[:-1]


def test_kl_points_from_the_first_to_the_second():
    # KL((1/2, 1/2) || (1/4, 3/4)) = 1/2 ln 2 + 1/2 ln 2/3; the other way round it is 1/4 ln 1/2 + 3/4 ln 3/2.
    p, q = Categorical(jnp.log(jnp.array([0.5, 0.5]))), Categorical(jnp.log(jnp.array([0.25, 0.75])))
    assert float(CATEGORICAL.kl(p, q)) == pytest.approx(0.5 * np.log(2) + 0.5 * np.log(2 / 3), rel=1e-5)
    assert float(CATEGORICAL.kl(q, p)) == pytest.approx(0.25 * np.log(1 / 2) + 0.75 * np.log(3 / 2), rel=1e-5)
    # N(0, 1) || N(1, 2): (1 + 1) / 8 + ln 2 - 1/2;  N(1, 2) || N(0, 1): (1 + 4) / 2 - ln 2 - 1/2.
    narrow, wide = Gaussian(jnp.zeros(1), jnp.zeros(1)), Gaussian(jnp.ones(1), jnp.log(jnp.full(1, 2.0)))
    assert float(GAUSSIAN.kl(narrow, wide)) == pytest.approx(0.25 + np.log(2) - 0.5, rel=1e-5)
    assert float(GAUSSIAN.kl(wide, narrow)) == pytest.approx(2.5 - np.log(2) - 0.5, rel=1e-5)


@pytest.mark.parametrize("family", ["gaussian", "categorical"])
def test_closed_form_kl_is_the_mean_of_the_log_ratio(family):
    rng, size = np.random.default_rng(0), 400_000
    if family == "gaussian":
        p, q = (
            Gaussian(np.array([0.3, -1.0]), np.array([0.1, -0.4])),
            Gaussian(np.array([0.0, -0.7]), np.array([0.2, 0.0])),
        )
        functions, action = GAUSSIAN, rng.normal(p.mean, np.exp(p.log_std), (size, 2))
    else:
        p, q = Categorical(np.array([0.3, -1.0, 0.5])), Categorical(np.array([0.1, 0.2, -0.4]))
        functions, action = CATEGORICAL, rng.choice(3, size, p=np.exp(log_softmax(p.logits)))
    with jax.enable_x64(True):
        p, q = jax.tree.map(lambda x: jnp.broadcast_to(jnp.asarray(x), (size, *x.shape)), (p, q))
        difference = np.asarray(functions.log_prob(p, action) - functions.log_prob(q, action))
        exact = float(functions.kl(p, q)[0])
    assert abs(difference.mean() - exact) < 5 * difference.std() / size**0.5


def test_independent_choices_are_categoricals_side_by_side():
    rng, choices = np.random.default_rng(5), (2, 3, 4)
    family = choices_family(choices)
    p, q = (Categorical(rng.normal(size=(6, 9))) for _ in range(2))
    action = rng.integers(choices, size=(6, 3))
    parts = [[Categorical(x) for x in np.split(d.logits, [2, 5], axis=-1)] for d in (p, q)]
    logp = np.stack([CATEGORICAL.log_prob(d, jnp.asarray(action[:, i])) for i, d in enumerate(parts[0])], -1)
    np.testing.assert_allclose(family.log_prob_per_dimension(p, action), logp, rtol=1e-5)
    np.testing.assert_allclose(family.log_prob(p, action), logp.sum(-1), rtol=1e-5)
    entropy = sum(np.asarray(CATEGORICAL.entropy(d)) for d in parts[0])
    np.testing.assert_allclose(family.entropy(p), entropy, rtol=1e-5)
    kl = sum(np.asarray(CATEGORICAL.kl(a, b)) for a, b in zip(*parts, strict=True))
    np.testing.assert_allclose(family.kl(p, q), kl, rtol=1e-4, atol=1e-6)
    noise = np.zeros((6, 9))
    assert family.sample(p, noise).tolist() == np.stack([d.logits.argmax(-1) for d in parts[0]], -1).tolist()


def test_what_is_forbidden_adds_nothing_to_entropy_and_kl():
    p, q = Categorical(jnp.array([0.3, -1e9, 0.1])), Categorical(jnp.array([0.1, -1e9, 0.4]))
    small = [Categorical(jnp.array([d.logits[0], d.logits[2]])) for d in (p, q)]
    assert float(CATEGORICAL.entropy(p)) == pytest.approx(float(CATEGORICAL.entropy(small[0])))
    assert float(CATEGORICAL.kl(p, q)) == pytest.approx(float(CATEGORICAL.kl(*small)), rel=1e-4)
