"""NaN and infinity, wherever they come from: named where they appear, and never learned from."""

import jax
import numpy as np
import pytest

from tests.support.collecting import PATIENT, collect_faulty
from tests.support.training import setup_for, train_all
from toppo.collect.faults import FaultPolicy
from toppo.errors import LearnerFault, NotFinite
from toppo.learn.setup import initial_state

FIELDS = ("reward", "observation", "final", "reset")


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
@pytest.mark.parametrize("field", FIELDS)
def test_a_value_from_an_environment_ends_the_run_in_that_step(monkeypatch, field, value):
    monkeypatch.setenv("FAULT", f"{field}:{value}")
    with pytest.raises(NotFinite) as fault:
        collect_faulty(0, FaultPolicy())
    sentence, call = str(fault.value), r"reset(seed=" if field == "reset" else "step 3 of the episode with seed "
    assert sentence.startswith("failing (environment ")
    assert call in sentence
    assert f"gave {'a reward' if field == 'reward' else 'an observation'} that is not finite" in sentence
    assert value in sentence
    assert field == "reset" or "after action [" in sentence


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
@pytest.mark.parametrize("field", FIELDS)
def test_or_the_episode_is_ended_before_it_and_the_data_are_finite(monkeypatch, field, value):
    monkeypatch.setenv("FAULT", f"{field}:{value}")
    data, notices, ended, _ = collect_faulty(0, PATIENT)
    assert notices
    assert all("the episode was ended before it" in n.sentence and not n.exact for n in notices)
    for batch in data:
        for name in ("obs", "next_obs", "action", "reward"):
            assert np.isfinite(np.frombuffer(batch[name], np.float64 if name == "reward" else np.float32)).all()
    lengths = [len(rewards) for *_, rewards in ended]
    assert (2 in lengths) == (field != "reset")  # the third step failed, or the episode never was
    assert 0 not in lengths


def test_a_bad_reset_is_skipped_however_it_fails(monkeypatch):
    found = []
    for how in ("nan", "raise"):
        monkeypatch.setenv("FAULT", f"reset:{how}")
        data, _, ended, episodes = collect_faulty(0, PATIENT)
        found.append((data, ended, [e.started for e in episodes]))
    assert found[0] == found[1]


def spoiled(state, number):
    """The state with NaN in one leaf of its learner."""
    leaves, tree = jax.tree.flatten(state.learner)
    leaves[number] = np.full_like(leaves[number], np.nan)
    return state._replace(learner=jax.tree.unflatten(tree, leaves))


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("algo", ["ppo", "toppo", "trpo"])
def test_nan_in_any_part_of_the_learner_ends_the_run_in_that_iteration(algo):
    """Weights give NaN actions and log-probabilities, the critic NaN losses, the optimiser's moments NaN steps."""
    setup = setup_for(algo, iterations=1)  # the last iteration, which no later one would find out
    state = initial_state(setup)
    floats = [i for i, x in enumerate(jax.tree.leaves(state.learner)) if np.asarray(x).dtype.kind == "f"]
    assert len(floats) > 10
    for number in floats:
        with pytest.raises(LearnerFault, match=r"iteration 0: .* lower --learning-rate or check the rewards") as fault:
            train_all(setup, state=spoiled(state, number))
        assert "\n" not in str(fault.value)
