"""The critic's thread: as many epochs as the policy, whenever that number becomes known."""

from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from threading import Event

import jax.numpy as jnp
import numpy as np
import pytest

from toppo.algos.contract import AdamResult
from toppo.learn.critic import Background, CriticTask


def adding(wait: Event | None = None) -> CriticTask:
    """A critic that is the sum of the minibatches it has seen."""

    def fit(params, opt, minibatches, epochs):
        if wait is not None:
            wait.wait(10)
        seen = params + minibatches[:epochs].sum()
        return AdamResult(
            params=seen, opt=opt + epochs, epochs=jnp.asarray(epochs), objective=None, grad_norm=None, extra=()
        )

    return CriticTask(fit=fit, params=0, opt=0, minibatches=np.array([[[1]], [[10]], [[100]]]))


def known(epochs: int) -> "Future[int]":
    future: Future[int] = Future()
    future.set_result(epochs)
    return future


@pytest.mark.parametrize(("epochs", "seen"), [(1, 1), (2, 11), (3, 111)])
def test_one_epoch_at_a_time_is_the_same_as_all_at_once(epochs, seen):
    task = adding()
    assert task.run(known(epochs)).params == seen
    one_by_one = task.fit_until_epochs_known(known(epochs))
    assert (one_by_one.params, one_by_one.opt) == (seen, epochs)


def test_a_critic_that_ran_ahead_goes_back_to_the_policys_epochs():
    future: Future[int] = Future()
    ahead = Event()
    task = adding()

    def fit(params, opt, minibatches, epochs):
        if opt == 2:  # the third epoch: the policy has stopped after the first
            future.set_result(1)
            ahead.set()
        return task.fit(params, opt, minibatches, epochs)

    assert task._replace(fit=fit).run(future).params == 1
    assert ahead.is_set()


@pytest.mark.parametrize("beside_policy", [False, True])
@pytest.mark.parametrize("epochs", [None, 2])
def test_statistics_and_critic_come_back(epochs, beside_policy):
    with ThreadPoolExecutor(1) as thread:
        background: Background[str] = Background(thread, adding(), epochs)
        background.start(lambda: "statistics", beside_policy)
        background.policy_took(2)
        assert background.statistics() == "statistics"
        critic = background.critic()
    assert critic is not None
    assert critic.params == 11


def test_without_a_critic_of_its_own_there_is_none():
    with ThreadPoolExecutor(1) as thread:
        background: Background[str] = Background(thread, None, 2)
        background.start(lambda: "statistics", beside_policy=True)
        background.policy_took(2)
        assert background.critic() is None


def test_a_policy_that_fails_leaves_nobody_waiting():
    wait = Event()
    with ThreadPoolExecutor(1) as thread:
        background: Background[str] = Background(thread, adding(wait), None)
        background.start(lambda: "statistics", beside_policy=True)
        background.give_up()
        wait.set()
        with pytest.raises(CancelledError):
            background.critic()
