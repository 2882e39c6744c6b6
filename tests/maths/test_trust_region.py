import jax
import jax.numpy as jnp
import numpy as np
import pytest

from toppo.maths.distributions import CATEGORICAL, Categorical
from toppo.maths.trust_region import backtrack, conjugate_gradient, fisher_vector_product

BOTH = pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])


def positive_definite(seed, size):
    a = np.random.default_rng(seed).normal(size=(size, size))
    return a @ a.T + size * np.eye(size)


@BOTH
@pytest.mark.parametrize("size", [1, 2, 5, 20])
def test_conjugate_gradient_is_a_dense_solve(compiled, size):
    matrix, b = positive_definite(size, size), np.random.default_rng(1).normal(size=size)

    def solve(m, b):
        return conjugate_gradient(lambda v: m @ v, b, 3 * size, 1e-24)

    with jax.enable_x64(True):
        x = (jax.jit(solve) if compiled else solve)(jnp.asarray(matrix), jnp.asarray(b))
        np.testing.assert_allclose(np.asarray(x), np.linalg.solve(matrix, b), rtol=1e-8)


def test_conjugate_gradient_stops_at_its_limits():
    matrix, b = positive_definite(0, 6), np.arange(1.0, 7.0)
    with jax.enable_x64(True):
        product = lambda v: jnp.asarray(matrix) @ v  # noqa: E731
        one = np.asarray(conjugate_gradient(product, jnp.asarray(b), 1))
        np.testing.assert_allclose(one, b * (b @ b) / (b @ matrix @ b), rtol=1e-12)  # steepest descent's first step
        assert np.all(np.asarray(conjugate_gradient(product, jnp.asarray(b), 50, tolerance=1e9)) == 0)
        assert np.all(np.asarray(conjugate_gradient(product, jnp.zeros(6), 50)) == 0)


@BOTH
def test_fisher_vector_product_is_the_hessian_of_the_kl(compiled):
    # KL(p || softmax(theta)) at theta has the Hessian diag(p) - p p^T.
    theta, v = np.array([0.3, -0.2, 0.9]), np.array([1.0, -2.0, 0.5])
    p = np.exp(theta) / np.exp(theta).sum()

    def apply(theta, v):
        frozen = Categorical(jax.lax.stop_gradient(theta))
        return fisher_vector_product(lambda t: CATEGORICAL.kl(frozen, Categorical(t)), theta, 0.1)(v)

    with jax.enable_x64(True):
        result = (jax.jit(apply) if compiled else apply)(jnp.asarray(theta), jnp.asarray(v))
        np.testing.assert_allclose(np.asarray(result), (np.diag(p) - np.outer(p, p)) @ v + 0.1 * v, rtol=1e-10)


@BOTH
@pytest.mark.parametrize(
    ("bound", "expected", "accepted", "tried"), [(9.0, 8.0, True, 1), (3.0, 2.0, True, 3), (0.9, 0.0, False, 4)]
)
def test_backtracking_takes_the_first_acceptable_step(compiled, bound, expected, accepted, tried):
    def search(theta, step):
        return backtrack(lambda x: (x <= bound).all(), theta, step, 0.5, 4)

    result = (jax.jit(search) if compiled else search)(jnp.zeros(2), jnp.full(2, 8.0))
    assert result.theta.tolist() == [expected] * 2
    assert (bool(result.accepted), int(result.tried)) == (accepted, tried)
