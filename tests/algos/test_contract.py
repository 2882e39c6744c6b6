"""What every member of the family must do, whatever its equation."""

import jax
import numpy as np
import pytest

from tests.support.probes import Ending, Walk, flip, walk
from tests.support.training import (
    ALGOS,
    CASES,
    every_case,
    learned,
    on_host,
    parameters,
    setup_for,
    shared_programs,
    train_all,
    trained,
)
from toppo.algos import REGISTRY
from toppo.algos.settings import Common
from toppo.learn import loop
from toppo.learn.programs import GradientProgram, Programs
from toppo.learn.session import open_session
from toppo.learn.setup import initial_state
from toppo.runs.state_io import state_from_arrays, state_to_arrays


def test_the_names_of_the_family():
    assert tuple(REGISTRY) == ("toppo", "ppo", "trpo", "geppo", "otrpo", "oppo", "disc")
    assert all(REGISTRY[name].name == name and REGISTRY[name].summary for name in ALGOS)


@every_case
def test_the_same_seed_gives_the_same_bytes(algo, source):
    first, second, other = (trained(algo, source, seed=s) for s in (1, 1, 2))
    assert learned(first) == learned(second)
    assert learned(first) != learned(other)


@every_case
def test_values_stay_finite_and_shapes_stay_the_same(algo, source):
    setup = setup_for(algo, source)
    turns = train_all(setup, source)
    start, end = initial_state(setup).learner, turns[-1].state.learner
    assert jax.tree.map(lambda x: (x.shape, x.dtype), start) == jax.tree.map(lambda x: (x.shape, x.dtype), end)
    for leaf in jax.tree.leaves((end, turns[-1].state.memory)):
        assert np.isfinite(leaf).all()
    for turn in turns:
        assert all(np.isfinite(value).all() for value in turn.metrics.values())
    policies = [jax.tree.leaves(t.state.learner.params.policy) for t in turns]
    assert any(a.tobytes() != b.tobytes() for a, b in zip(policies[0], policies[-1], strict=True))


@every_case
def test_resuming_is_invisible(algo, source):
    setup = setup_for(algo, source, iterations=5)
    whole = train_all(setup, source)
    arrays, facts = state_to_arrays(whole[2].state)
    state = state_from_arrays(setup, arrays, facts)
    rest = train_all(setup, source, state)
    assert learned(rest) == learned(whole[3:])
    for a, b in zip(jax.tree.leaves(on_host(rest[-1].state)), jax.tree.leaves(whole[-1].state), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


@pytest.mark.parametrize("algo", ALGOS)
@pytest.mark.parametrize("how", ["never", "death", "time"])
def test_episodes_that_never_end_or_end_at_once_are_trained_on(algo, how):
    turns = trained(algo, lambda: Ending(how))
    for leaf in jax.tree.leaves((turns[-1].state.learner, turns[-1].state.memory)):
        assert np.isfinite(leaf).all()
    for turn in turns:
        assert all(np.isfinite(value).all() for value in turn.metrics.values())
        lengths = [e.length for e in turn.episodes]
        assert lengths == ([] if how == "never" else [1] * 64)
        assert ("rollout/ep_rew_mean" in turn.metrics) == (how != "never")  # absent, not NaN


def compiled(program):
    """How often a program has been compiled."""
    kinds = (program.fast, program.deterministic) if isinstance(program, GradientProgram) else (program,)
    return sum(kind._cache_size() for kind in kinds)


SHAPES = {"toppo": 2, "ppo": 1, "trpo": 1, "geppo": 4, "otrpo": 2, "oppo": 2, "disc": 13}


@pytest.mark.parametrize("algo", ALGOS)
def test_each_shape_compiles_once(algo, monkeypatch):
    """DISC is led through its whole list of 0, 1, 2, 3, 4, 6 .. 64 old batches."""
    made = []

    def watched(setup):
        made.append(Programs(setup))
        return made[-1]

    monkeypatch.setattr(loop, "Programs", watched)
    more = {"disc": {"eps_b": 1e9, "n_steps": 4, "n_epochs": 1, "warmup_steps": 4}, "toppo": {"alpha": 99.0}}.get(
        algo, {}
    )
    setup = setup_for(algo, iterations=64 if algo == "disc" else 7, **more)
    with open_session(setup, walk) as session:
        turns = list(session.train(initial_state(setup)))
    sizes = {name: compiled(program) for name, program in vars(made[0]).items()}
    relabels, old = int(setup.algorithm.traits(setup.config).relabels), int(SHAPES[algo] > 1)
    expected = {"label": 1, "relabel": relabels * old, "prepare": 1 + old, "mean_kl": old, "known_mean_kl": 0}
    several = {"concatenate": SHAPES[algo] - 1, "improve": SHAPES[algo], "fit_critic": SHAPES[algo]}
    assert sizes == expected | several
    if algo == "disc":
        assert {t.metrics["memory/included"] for t in turns} == set(map(float, range(64)))


@pytest.mark.parametrize("shared_trunk", [False, True])
def test_the_update_tells_the_kl_of_what_it_drew(shared_trunk):
    """Of one batch alone it always does, otherwise with a shared trunk."""
    setup = setup_for("toppo", iterations=4, shared_trunk=shared_trunk, alpha=99.0)
    programs = shared_programs(setup)
    for turn in train_all(setup):
        policy, memory = turn.state.learner.params.policy, turn.state.memory
        again = [float(programs.mean_kl(policy, batch)) for batch in memory]
        np.testing.assert_allclose(turn.metrics["memory/kl"], again, rtol=1e-4)
        assert min(again) > 0
    assert programs.known_mean_kl._cache_size() == shared_trunk  # of two batches


def test_disc_refuses_discrete_actions():
    with pytest.raises(ValueError, match="disc needs continuous actions"):
        initial_state(setup_for("disc", flip))


def test_every_case_is_there():
    assert {a for a, _ in CASES} == set(REGISTRY)


def test_disc_refuses_choices_before_it_speaks_of_networks_and_a_learning_rate_below_its_floor():
    disc, config = REGISTRY["disc"], REGISTRY["disc"].config()
    with pytest.raises(ValueError, match="disc needs continuous actions"):
        disc.check(config, Common(shared_trunk=True), True)
    with pytest.raises(ValueError, match=r"learning_rate is 5e-05, but must be at least lr_min = 0\.0001"):
        disc.check(config, Common(learning_rate=5e-5), False)


def test_signs_alone_move_the_scale_of_rewards_that_are_learned_from_as_signs():
    class Loud(Walk):
        """The same walk, paid a thousand times as well."""

        def act(self, action):
            place, reward, *ends = super().act(action)
            return place, 1000.0 * reward, *ends

    settings = {"sign_reward": True, "normalise_reward": True}
    quiet, loud = (parameters(train_all(setup_for("ppo", source, **settings), source)) for source in (Walk, Loud))
    assert quiet == loud
