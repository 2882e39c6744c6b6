import jax.numpy as jnp
import numpy as np
import pytest

from tests.support.nets import categorical_net, gaussian_net
from toppo.algos.settings import ACTIVATIONS
from toppo.collect.actor import mlp_actor, noise_for
from toppo.learn.nets import actor_weights
from toppo.maths.moments import normalise

SIZES = [(64, 64), (16,), ()]
CURVED = [((64, 64), name) for name in ACTIVATIONS if name != "tanh"]


def observations(rng, size):
    """Raw observations of all magnitudes, so that some are clipped."""
    return rng.normal(size=(200, size)) * np.exp(rng.normal(size=size) * 2)


@pytest.mark.parametrize(("hidden", "activation"), [*((size, "tanh") for size in SIZES), *CURVED])
def test_the_gaussian_actor_is_the_networks_twin(hidden, activation):
    rng = np.random.default_rng(len(hidden))
    net = gaussian_net(11, 3, hidden, -0.5, activation)
    params = net.init(3).policy
    params = params._replace(mean=tuple(layer._replace(b=layer.b + 0.3) for layer in params.mean))
    mean = rng.normal(size=11).astype(np.float32)
    inv_std = rng.lognormal(size=11).astype(np.float32)
    obs = observations(rng, 11)
    noise = rng.normal(size=(200, 3)).astype(np.float32)
    actor = mlp_actor(mean, inv_std, actor_weights(params), activation=activation)
    acted = np.stack([actor(o, z)[0] for o, z in zip(obs, noise, strict=True)])
    dist = net.policy(params, normalise(jnp.asarray(obs, jnp.float32), mean, inv_std))
    np.testing.assert_allclose(acted, dist.mean + jnp.exp(dist.log_std) * noise, atol=1e-5, rtol=1e-5)
    assert acted.dtype == np.float32


def test_a_tiny_standard_deviation_has_the_same_floor_in_both():
    net = gaussian_net(2, 2, (4,), -50.0)
    params = net.init(0).policy
    assert actor_weights(params)[0].tolist() == pytest.approx([1e-3, 1e-3])
    assert np.exp(net.policy(params, jnp.zeros((1, 2))).log_std).ravel().tolist() == pytest.approx([1e-3, 1e-3])


@pytest.mark.parametrize("hidden", SIZES)
def test_the_categorical_actor_is_the_networks_twin(hidden):
    rng = np.random.default_rng(len(hidden) + 10)
    net = categorical_net(5, 4, hidden)
    params = tuple(layer._replace(w=layer.w * 20) for layer in net.init(1).policy)
    mean = rng.normal(size=5).astype(np.float32)
    inv_std = rng.lognormal(size=5).astype(np.float32)
    obs = observations(rng, 5)
    noise = rng.gumbel(size=(200, 4)).astype(np.float32)
    actor = mlp_actor(mean, inv_std, actor_weights(params), choices=(4,))
    acted = np.array([int(actor(o, z)[0]) for o, z in zip(obs, noise, strict=True)])
    scores = np.asarray(net.policy(params, normalise(jnp.asarray(obs, jnp.float32), mean, inv_std)).logits) + noise
    best = np.take_along_axis(scores, acted[:, None], 1)[:, 0]
    np.testing.assert_allclose(best, scores.max(1), atol=1e-4, rtol=1e-5)  # a tie within rounding may fall either way
    assert len(set(acted)) == 4


def test_gumbel_noise_samples_the_softmax():
    logits = np.log(np.array([0.6, 0.3, 0.1], np.float32))
    noise = noise_for(np.random.default_rng(0), 60_000, 3, True)
    frequencies = np.bincount((logits + noise).argmax(1), minlength=3) / 60_000
    np.testing.assert_allclose(frequencies, [0.6, 0.3, 0.1], atol=0.01)


def test_gaussian_noise_is_standard():
    noise = noise_for(np.random.default_rng(0), 60_000, 2, False)
    assert noise.shape == (60_000, 2)
    np.testing.assert_allclose([noise.mean(), noise.std()], [0.0, 1.0], atol=0.01)


def test_zero_noise_gives_the_most_likely_action():
    net = gaussian_net(2, 1, (4,), 0.0)
    params = net.init(0).policy
    actor = mlp_actor(np.zeros(2, np.float32), np.ones(2, np.float32), actor_weights(params))
    mean = net.policy(params, jnp.array([[0.2, 0.1]])).mean
    np.testing.assert_allclose(actor(np.array([0.2, 0.1]), np.zeros(1, np.float32))[0], mean[0], atol=1e-6)


@pytest.mark.parametrize("rows", [2, 3, 8])
@pytest.mark.parametrize("net", [gaussian_net(17, 6, (64, 64), 0.0), categorical_net(5, 4, (16,))])
def test_an_action_does_not_depend_on_how_many_rows_act_at_once(net, rows):
    weights = actor_weights(net.init(0).policy)
    rng = np.random.default_rng(rows)
    size = weights[1].shape[0]
    actions = len(weights[-1])
    mean = rng.normal(size=size).astype(np.float32)
    inv_std = rng.lognormal(size=size).astype(np.float32)
    obs = rng.normal(size=(rows, size))
    noise = rng.normal(size=(rows, actions)).astype(np.float32)
    choices = () if len(weights[0]) else (actions,)
    together = mlp_actor(mean, inv_std, weights, rows, choices)(obs, noise)
    one = mlp_actor(mean, inv_std, weights, 1, choices)
    alone = np.concatenate([one(o, z) for o, z in zip(obs, noise, strict=True)])
    assert together.tobytes() == alone.tobytes()
