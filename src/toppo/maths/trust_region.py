"""The pieces of a natural-gradient step under a KL bound."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array


def fisher_vector_product(mean_kl: Callable[[Array], Array], theta: Array, damping: float) -> Callable[[Array], Array]:
    """v -> (H + damping I) v, with H the Hessian of ``mean_kl`` at ``theta`` (its minimum, so H is Fisher's matrix)."""
    grad = jax.grad(mean_kl)

    def product(v: Array) -> Array:
        curved: Array = jax.jvp(grad, (theta,), (v,))[1]
        return curved + damping * v

    return product


def conjugate_gradient(product: Callable[[Array], Array], b: Array, iterations: int, tolerance: float = 1e-10) -> Array:
    """x with product(x) = b, from x = 0; ends early when the squared residual is below ``tolerance``."""

    def go_on(state: tuple[Array, Array, Array, Array, Array]) -> Array:
        i, _, _, _, square = state
        return (i < iterations) & (square >= tolerance)

    def step(state: tuple[Array, Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array, Array]:
        i, x, residual, direction, square = state
        image = product(direction)
        length = square / jnp.vdot(direction, image)
        x = x + length * direction
        residual = residual - length * image
        new_square = jnp.vdot(residual, residual)
        return i + 1, x, residual, residual + new_square / square * direction, new_square

    start = (jnp.asarray(0), jnp.zeros_like(b), b, b, jnp.vdot(b, b))
    return jax.lax.while_loop(go_on, step, start)[1]


def bounded_step(
    product: Callable[[Array], Array],
    solve: Callable[[Array], Array],
    gradient: Array,
    bound: Array | float,
    cost: Array | None = None,
    cost_gradient: Array | None = None,
) -> tuple[Array, Array]:
    """argmax_d g d  subject to  K + k d + d F d / 2 <= bound,  with K = ``cost`` and k = ``cost_gradient`` at d = 0.

    d = sqrt(2 room / x F x) x - y,   x = F^-1 g,   y = F^-1 k,   room = bound - K + k y / 2.
    With K = k = 0, the default, this is TRPO's step.  Without room, or without a gradient, d = 0.  -> d, room
    """
    x = solve(gradient)
    back = jnp.zeros_like(x)
    room = jnp.asarray(bound, x.dtype)
    if cost is not None and cost_gradient is not None:
        back = solve(cost_gradient)
        room = room - cost + 0.5 * jnp.vdot(cost_gradient, back)
    curvature = jnp.vdot(x, product(x))
    possible = (curvature > 0) & (room > 0)
    length = jnp.sqrt(2.0 * jnp.where(possible, room / jnp.where(possible, curvature, 1.0), 0.0))
    return jnp.where(possible, length * x - back, 0.0), room


def radius_after_drift(bound: Array | float, drift: Array) -> Array:
    """delta' = delta + b/2 - sqrt(b (delta + b/4)): the x^2 that solves (sqrt(b) + x) x = delta, for b = ``drift``."""
    return bound + drift / 2 - jnp.sqrt(drift * (bound + drift / 4))


class LineSearch(NamedTuple):
    """Where a backtracking search ended: parameters, whether any step was accepted, steps tried."""

    theta: Array
    accepted: Array
    tried: Array


def backtrack(accept: Callable[[Array], Array], theta: Array, step: Array, shrink: float, most: int) -> LineSearch:
    """The first of theta + step * shrink^j, j = 0 .. most - 1, that ``accept`` takes; theta itself if none is."""

    def go_on(state: LineSearch) -> Array:
        return ~state.accepted & (state.tried < most)

    def attempt(state: LineSearch) -> LineSearch:
        candidate = theta + step * shrink**state.tried
        ok = accept(candidate)
        return LineSearch(jnp.where(ok, candidate, theta), ok, state.tried + 1)

    return jax.lax.while_loop(go_on, attempt, LineSearch(theta, jnp.asarray(False), jnp.asarray(0)))
