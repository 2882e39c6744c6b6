"""Arithmetic and bytes of a training step on an environment written in JAX."""

import jax
import jax.numpy as jnp

from toppo.envs import resolve
from toppo.envs.source import jax_env
from toppo.learn.compiled import Stepper, batch_noise, zero_worlds
from toppo.learn.setup import initial_learner
from toppo.runs.presets import spec_for
from toppo.runs.run import setup_for


def counted(env: str, same: dict[str, object], n: int = 1024) -> dict[str, float]:
    """Arithmetic and bytes of a step, as XLA counts them in the programs of one step and of one gradient."""
    source = resolve(f"gymnax:{env}")
    spec = spec_for(source, "ppo", 10**9, 0, "paper", **same, n_envs=n, n_steps=n, anneal_lr=False)
    setup = setup_for(spec, source)
    net = setup.net
    params = initial_learner(setup).params
    stepper = Stepper(setup, jax_env(source))
    worlds = zero_worlds(setup, jax_env(source))
    noise = batch_noise(setup, worlds.index, jnp.int32(0))[0]

    def collect(policy, worlds, noise):
        return jax.vmap(stepper.step)(worlds, net.family.sample(net.policy(policy, worlds.row), noise))

    def loss(params, rows):
        logits = net.policy(params.policy, rows).logits
        return jnp.square(logits).mean() + jnp.square(net.value(params.value, rows)).mean()

    found = {}
    programs = {"collecting": (1, collect, (params.policy, worlds, noise))}
    programs["learning"] = (same["n_epochs"], jax.grad(loss), (params, worlds.row))
    for name, (times, program, inputs) in programs.items():
        cost = jax.jit(program).lower(*inputs).compile().cost_analysis()
        found[f"{name}: operations"] = times * cost["flops"] / n
        found[f"{name}: bytes"] = times * cost["bytes accessed"] / n
    return found
