"""Settings that change over a run."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support.problems import random_problem
from tests.support.training import learned, parameters, setup_for, shared_programs, train_all
from toppo.algos import REGISTRY, schedules
from toppo.algos.contract import CriticProblem
from toppo.algos.geppo import GePPOConfig
from toppo.algos.optimise import adam_init, fit_clipped_least_squares
from toppo.algos.schedules import linear_from, schedule_from, value_at
from toppo.learn.setup import scheduled
from toppo.runs.state_io import state_from_arrays, state_to_arrays

LINE = ((0.0, 0.01), (1.0, 0.0))
EVERYTHING = {"learning_rate": LINE, "ent_coef": LINE, "clip_range": ((0.0, 0.3), (0.5, 0.2), (1.0, 0.0))}


def test_values_lie_on_straight_lines_and_are_constant_outside():
    points = ((0.2, 1.0), (0.4, 3.0), (0.8, 2.0))
    fractions = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.8, 0.9, 1.0]
    by_numpy = np.interp(fractions, *zip(*points, strict=True))
    np.testing.assert_allclose([value_at(points, fraction) for fraction in fractions], by_numpy, rtol=1e-12)
    assert value_at(0.5, 0.7) == 0.5


@pytest.mark.parametrize(
    "value", [[[0, 1]], [[0, 1], [0, 2]], [[0.5, 1], [0.2, 2]], [[0, 1], [1.1, 2]], [[-0.1, 1], [1, 2]]]
)
def test_points_that_do_not_rise_within_the_run_are_refused(value):
    with pytest.raises(ValueError, match="whose fractions rise within"):
        schedule_from("learning_rate", value)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        "0.1",
        [],
        [1, 2],
        [[0, 1], [1]],
        [[0, 1], [1, "2"]],
        [[0, 1], [1, float("nan")]],
        [[0, True], [1, 1]],
    ],
)
def test_what_is_no_schedule_is_refused(value):
    with pytest.raises(ValueError, match="but must be a float, 'linear', or pairs"):
        schedule_from("clip_range", value)


def test_linear_falls_from_the_start_of_the_default():
    assert linear_from("clip_range", 0.2) == linear_from("clip_range", ((0.0, 0.2), (1.0, 0.1))) == ((0, 0.2), (1, 0))


def test_a_learning_rate_that_falls_to_0_is_an_annealed_one_to_the_byte():
    line = train_all(setup_for("ppo", learning_rate=LINE))
    annealed = train_all(setup_for("ppo", learning_rate=0.01, anneal_lr=True))
    assert learned(line) == learned(annealed)
    assert [turn.metrics["train/learning_rate"] for turn in line] == pytest.approx([0.01, 0.02 / 3, 0.01 / 3])


@pytest.mark.parametrize("algo", ["toppo", "geppo"])
def test_an_argument_gives_what_the_constant_gives(algo):
    chosen = REGISTRY[algo]
    config = GePPOConfig(eps_vary=True) if algo == "geppo" else chosen.config()
    problem = random_problem(16, 8, n_epochs=1, n_minibatches=2, ent_coef=0.5)
    problem = problem._replace(opt=chosen.init_opt(config, problem.common, problem.policy), clip_range=0.3)
    arguments = problem._replace(ent_coef=jnp.float32(0.5), clip_range=jnp.float32(0.3))
    constant, argument = (jax.jit(lambda p=p: chosen.improve(config, p).policy)() for p in (problem, arguments))
    assert_close(constant, argument)


def test_the_critic_of_disc_reads_its_clip_range_as_an_argument():
    p = random_problem(16, 8, n_epochs=1, n_minibatches=2)
    critic = p.net.init(0).value
    given = {"common": p.common, "net": p.net, "critic": critic, "opt": adam_init(p.common, critic)}
    given |= {"sample": p.sample, "minibatches": p.minibatches, "lr": jnp.float32(0.1), "epochs": jnp.int32(1)}
    ranges = (0.3, jnp.float32(0.3), jnp.float32(0.001))
    constant, argument, narrow = (
        fit_clipped_least_squares(CriticProblem(**given, clip_range=x)).params for x in ranges
    )
    assert_close(constant, argument)
    assert parameters_of(narrow) != parameters_of(argument)


def assert_close(one: object, other: object) -> None:
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)  # an argument and a constant may be rounded differently


def parameters_of(tree: object) -> bytes:
    return b"".join(np.asarray(x).tobytes() for x in jax.tree.leaves(tree))


@pytest.mark.parametrize("name", EVERYTHING)
def test_every_update_reads_the_schedule(name):
    """With other values from the second of three updates on, the first is the same."""
    start = value_at(EVERYTHING[name], 0.0)
    falling = train_all(setup_for("toppo", **{name: ((0.0, start), (0.3, 0.1 * start))}))
    flat = train_all(setup_for("toppo", **{name: ((0.0, start), (0.3, start))}))
    assert parameters(falling[:1]) == parameters(flat[:1])
    assert parameters(falling[:2]) != parameters(flat[:2])


def test_resuming_is_invisible_with_schedules():
    setup = setup_for("geppo", iterations=5, **EVERYTHING, eps_vary=True)
    whole = train_all(setup)
    arrays, facts = state_to_arrays(whole[2].state)
    rest = train_all(setup, state=state_from_arrays(setup, arrays, facts))
    assert learned(rest) == learned(whole[3:])
    varied = [turn.metrics["train/clip_range_varied"] for turn in whole]
    assert varied == sorted(varied, reverse=True)
    assert varied[0] == pytest.approx(0.3, abs=1e-3)


def test_the_loop_passes_only_what_changes():
    setup = setup_for("disc", clip_range=((0.0, 0.4), (1.0, 0.0)))
    assert scheduled(setup, setup.total_timesteps // 2) == {"clip_range": np.float32(0.2)}
    turns = train_all(setup)
    assert [turn.metrics["train/clip_range"] for turn in turns] == pytest.approx([0.4, 0.8 / 3, 0.4 / 3])


def test_a_schedule_compiles_once_and_is_logged():
    setup = setup_for("ppo", **EVERYTHING)
    setup = setup._replace(config=dataclasses.replace(setup.config, clip_range=((0.0, 0.31), (1.0, 0.0))))
    turns = train_all(setup)
    assert shared_programs(setup).improve.fast._cache_size() == 1
    assert [turn.metrics["train/ent_coef"] for turn in turns] == pytest.approx([0.01, 0.02 / 3, 0.01 / 3])
    assert [turn.metrics["train/clip_range"] for turn in turns] == pytest.approx([0.31, 0.62 / 3, 0.31 / 3])


def test_the_word_for_a_line_is_no_part_of_a_spec():
    with pytest.raises(ValueError):
        schedule_from("learning_rate", schedules.LINEAR)
