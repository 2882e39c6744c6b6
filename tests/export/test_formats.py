"""An exported policy acts as ``predict(deterministic=True)`` does, in every kind of space."""

import subprocess
import sys

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime
import pytest
from gymnasium import spaces as gs

import toppo
from tests.support.worlds import ACTIONS, BOX, OBSERVATIONS, SMALL_IMAGE, Anything
from toppo.envs.actions import box_scaling
from toppo.envs.observations import part_of, rows_of
from toppo.export.numpy_file import write_numpy
from toppo.export.numpy_policy import Policy
from toppo.export.onnx_file import INPUT_DTYPES, write_onnx
from toppo.learn.nets import GaussianPolicy
from toppo.maths.moments import Moments, mean_and_inv_std

COUNT = 10_000
UNEVEN = gs.Box(np.array([-1, -np.inf, 2, -3]), np.array([3, np.inf, np.inf, -1]), dtype=np.float32)
ACTIVATION = {
    "matrix sees": "relu",
    "dict sees": "elu",
    "acts discrete": "silu",
    "tuple sees": "gelu",
    "masked image": "silu",
}
CASES = {
    **{f"{name} sees": (space, ACTIONS["box"], False) for name, space in OBSERVATIONS.items()},
    **{f"acts {name}": (BOX, space, False) for name, space in ACTIONS.items()},
    "acts uneven": (BOX, UNEVEN, False),
    "acts float16": (BOX, gs.Box(-0.3, 0.7, (2,), np.float16), False),
    "image discrete": (SMALL_IMAGE, ACTIONS["discrete"], False),
    "frames": (gs.Box(0, 255, (2, 8, 9, 3), np.uint8), ACTIONS["box"], False),
    "frames planar": (gs.Box(0, 255, (2, 3, 8, 9), np.uint8), ACTIONS["box"], False),
    "masked": (BOX, ACTIONS["discrete"], True),
    "masked dials": (BOX, ACTIONS["multi_discrete"], True),
    "masked image": (SMALL_IMAGE, ACTIONS["multi_discrete"], True),
}
LARGE = ("grey sees", "towers sees")  # 10,000 of them take many seconds in NumPy


def agent_with_large_outputs(
    observation: gs.Space, action: gs.Space, masked: bool, activation: str = "tanh"
) -> toppo.Agent:
    """A new policy hardly looks at its observation; this one does, and its normaliser is not the identity."""
    shared = isinstance(action, gs.Discrete) and not masked
    env = Anything(observation, action, masked)
    agent = toppo.PPO(env, hidden=(16, 8), n_steps=64, shared_trunk=shared, activation=activation)
    rng = np.random.default_rng(1)
    params = agent.state.learner.params

    def moved(x: np.ndarray) -> np.ndarray:
        # By as much as keeps the outputs of a layer of order 1, as training does: rounding grows with their size.
        return x + rng.normal(0, 1 / np.sqrt(max(1, x[..., 0].size)), x.shape).astype(np.float32)

    policy = jax.tree.map(moved, params.policy)
    size = agent.spaces.obs_size
    moments = Moments(100.0, rng.normal(0, 0.3, size), rng.uniform(0.01, 2, size))
    learner = agent.state.learner._replace(params=params._replace(policy=policy))
    agent.state = agent.state._replace(learner=learner, obs_moments=moments)
    return centred(agent)


def centred(agent: toppo.Agent) -> toppo.Agent:
    """Shift the outputs to a median of 0, so that each choice is taken sometimes and few actions are clipped."""
    outputs = outputs_in_float64(agent, samples(agent.source.given.observation_space, 200), masks=None)
    learner = agent.state.learner
    policy = learner.params.policy
    body = policy.mean if isinstance(policy, GaussianPolicy) else policy
    *others, bias = jax.tree.leaves(body)
    shift = np.zeros(bias.shape, np.float32)
    shift[: outputs.shape[1]] = np.median(outputs, axis=0)
    body = jax.tree.unflatten(jax.tree.structure(body), [*others, bias - shift])
    policy = policy._replace(mean=body) if isinstance(policy, GaussianPolicy) else body
    agent.state = agent.state._replace(learner=learner._replace(params=learner.params._replace(policy=policy)))
    return agent


def outputs_in_float64(agent: toppo.Agent, observations: object, masks: np.ndarray | None) -> np.ndarray:
    """The network of training in double precision, a second source: scores of the actions, or their mean.  [B, A]"""
    allowed = masks
    if masks is None and agent.spaces.masked:
        count = len(jax.tree.leaves(observations)[0])
        allowed = np.ones((count, agent.spaces.action_size), bool)
    rows, _ = rows_of(agent.spaces, observations, allowed)
    net = agent.setup.net
    with jax.enable_x64(True):
        exact = jax.tree.map(lambda x: jnp.asarray(np.asarray(x), jnp.float64), agent.state.learner.params.policy)
        moments = (jnp.asarray(x, jnp.float64) for x in mean_and_inv_std(agent.state.obs_moments))
        inputs = net.preprocess(jnp.asarray(rows), *moments)
        found = net.in_chunks(net.policy, exact, inputs)[0]
        assert found.dtype == jnp.float64
        return np.asarray(found)


def samples(space: gs.Space, count: int) -> object:
    """A batch of observations, drawn at once."""
    rng = np.random.default_rng(2)
    if isinstance(space, gs.Dict):
        return {key: samples(entry, count) for key, entry in space.spaces.items() if not isinstance(entry, gs.Text)}
    if isinstance(space, gs.Tuple):
        return tuple(samples(entry, count) for entry in space.spaces)
    if isinstance(space, gs.Box) and space.dtype != np.uint8:
        # Numbers that a float32 holds: this is how training saw them.
        return (rng.normal(0, 2, (count, *space.shape)).astype(np.float32)).astype(space.dtype)
    if isinstance(space, gs.Box):
        return rng.integers(0, 256, (count, *space.shape)).astype(np.uint8)
    batched = gym.vector.utils.batch_space(space, count)
    batched.seed(3)
    return batched.sample()


def masks_for(agent: toppo.Agent, count: int) -> np.ndarray | None:
    if not agent.spaces.masked:
        return None
    allowed = np.random.default_rng(4).random((count, agent.spaces.action_size)) < 0.4
    for first in np.cumsum((0, *agent.spaces.choices[:-1])):
        allowed[:, first] = True
    return allowed


def assert_right_actions(found: np.ndarray, outputs: np.ndarray, agent: toppo.Agent) -> None:
    """The actions that follow from the outputs of a network in double precision."""
    if not agent.spaces.discrete:
        low, high, factor, shift, least, most = (x.astype(float) for x in box_scaling(agent.spaces))
        exact = np.clip(np.clip(outputs, low, high) * factor + shift, least, most).reshape(found.shape)
        assert exact.std() > 0.1
        # A float16 has three digits: next to the middle of two of them, both are right.
        step = 1e-3 if found.dtype == np.float16 else 0
        np.testing.assert_allclose(found, exact, rtol=0, atol=1e-5 + step)
        return
    chosen = found.reshape(len(found), -1) - np.array(agent.spaces.starts)
    groups = np.split(outputs, np.cumsum(agent.spaces.choices[:-1]), axis=1)
    for choice, scores in zip(chosen.T, groups, strict=True):
        assert len(np.unique(choice)) == scores.shape[1]
        # Only a tie within 1e-5 may be decided otherwise.
        assert (scores[np.arange(len(scores)), choice] > scores.max(axis=1) - 1e-5).all()


def assert_same_actions(found: np.ndarray, expected: np.ndarray, agent: toppo.Agent) -> None:
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    if agent.spaces.discrete:
        assert (found != expected).mean() < 1e-3  # ties
    else:
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-3 if expected.dtype == np.float16 else 1e-5)


@pytest.mark.parametrize("case", CASES)
def test_exported_policies_act_as_predict_does(case, tmp_path):
    space, action, masked = CASES[case]
    agent = agent_with_large_outputs(space, action, masked, ACTIVATION.get(case, "tanh"))
    observations = samples(space, COUNT)
    masks = masks_for(agent, COUNT)
    expected, _ = agent.predict(observations, deterministic=True, action_masks=masks)
    write_onnx(agent, tmp_path / "policy.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "policy.onnx")
    fed = {
        "/".join(("observation", *map(str, part.path))): np.asarray(
            part_of(observations, part), INPUT_DTYPES[part.kind]
        )
        for part in agent.spaces.parts
    }
    found = session.run(None, fed if masks is None else {**fed, "action_mask": masks})[0]
    outputs = outputs_in_float64(agent, observations, masks)
    for actions in (expected, found):
        assert_right_actions(actions, outputs, agent)
    assert_same_actions(found, expected, agent)
    write_numpy(agent, tmp_path / "policy.npz")
    policy = Policy(tmp_path / "policy.npz")
    count = 500 if case in LARGE else COUNT
    few = jax.tree.map(lambda x: x[:count], observations)
    found = policy(few, None if masks is None else masks[:count])
    assert_right_actions(found, outputs[:count], agent)
    assert_same_actions(found, expected[:count], agent)


def test_the_exported_module_needs_numpy_alone(tmp_path):
    agent = agent_with_large_outputs(BOX, ACTIONS["discrete"], False)
    write_numpy(agent, tmp_path / "policy.npz")
    code = (
        "import sys; sys.path.insert(0, '.'); import numpy_policy, numpy\n"
        "print(numpy_policy.Policy('policy.npz')(numpy.ones((2, 2))).tolist())\n"
        "print({'jax', 'gymnasium', 'toppo'} & set(sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    expected, _ = agent.predict(np.ones((2, 2)), deterministic=True)
    assert ran.stdout.splitlines() == [str(expected.tolist()), "set()"]


def test_a_wrong_shape_is_refused_by_name(tmp_path):
    write_numpy(agent_with_large_outputs(BOX, ACTIONS["box"], False), tmp_path / "policy.npz")
    with pytest.raises(ValueError, match=r"observation has shape \(2,\), but must be"):
        Policy(tmp_path / "policy.npz")(np.zeros(2))
