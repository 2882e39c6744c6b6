"""A policy's problem with random data."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tests.support.nets import gaussian_net
from tests.support.training import on_host
from toppo.algos.contract import PolicyProblem, Sample
from toppo.algos.settings import Common
from toppo.maths.distributions import Gaussian


def random_problem(
    size: int, old: int = 0, dims: int = 2, seed: int = 0, dtype: Any = np.float32, **settings: Any
) -> PolicyProblem:
    """``size`` samples of pi_k, then ``old`` samples of an older policy, each with the actions that it took."""
    rng = np.random.default_rng(seed)
    common = Common(**{"n_epochs": 1, "n_minibatches": 1, "max_grad_norm": 0.0, **settings})
    net = gaussian_net(3, dims, (5,), 0.0)
    cast = lambda tree: jax.tree.map(lambda x: np.asarray(x, dtype), tree)  # noqa: E731
    policy = cast(jax.tree.map(lambda x: x + 0.3 * rng.normal(size=x.shape), net.init(seed).policy))
    former = cast(jax.tree.map(lambda x: x + 0.1 * rng.normal(size=x.shape), policy))
    obs = rng.normal(size=(size + old, 3)).astype(dtype)
    newest = np.concatenate([np.ones(size, dtype), np.zeros(old, dtype)])
    dist_k, dist_old = (on_host(net.policy(p, obs)) for p in (policy, former))
    dist_mu = Gaussian(*(np.where(newest[:, None] == 1, a, b) for a, b in zip(dist_k, dist_old, strict=True)))
    action = (dist_mu.mean + np.exp(dist_mu.log_std) * rng.normal(size=dist_mu.mean.shape)).astype(dtype)
    logp, logp_k = (np.asarray(net.family.log_prob(d, action)) for d in (dist_mu, dist_k))
    centre = np.where(newest == 1, dtype(1), np.exp(logp_k - logp))
    adv, ret = (rng.normal(size=size + old).astype(dtype) for _ in range(2))
    sample = Sample(
        obs=obs,
        action=action,
        logp=logp,
        centre=centre,
        weight=np.ones_like(adv),
        adv=adv,
        ret=ret,
        newest=newest,
        dist_k=dist_k,
        dist_mu=dist_mu,
    )
    minibatches = np.stack([rng.permutation(size + old) for _ in range(common.n_epochs)]).astype(np.int32)
    problem = PolicyProblem(
        common=common,
        net=net,
        policy=policy,
        opt=(),
        sample=sample,
        minibatches=minibatches.reshape(common.n_epochs, common.n_minibatches, -1),
        lr=dtype(3e-4),
        lr_scale=dtype(1),
        clip_eps=dtype(0.2),
        ent_coef=common.ent_coef,
        clip_range=0.2,
    )
    arrays = problem._asdict()
    static = {name: arrays.pop(name) for name in ("common", "net", "ent_coef", "clip_range")}
    return PolicyProblem(**static, **jax.tree.map(jnp.asarray, arrays))
