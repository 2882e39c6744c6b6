"""The critic's thread, and who runs where.

The critic takes as many epochs as the policy.  They share no parameters, so the critic learns beside the policy or
beside the next collection.  If there is a worker process for every core, toppo pins threads: otherwise Linux at times
puts two busy threads on one core, and notices it only 4 ms later, at its next tick.

| what                                     | thread           | pinned to, if all cores are busy | when              |
|------------------------------------------|------------------|----------------------------------|-------------------|
| label, policy update                     | main             | first core                       | after collection  |
| XLA's part of the policy update          | XLA's pool       | first core                       | during the update |
| critic, if its number of epochs is known | critic's         | last core                        | beside the policy |
| statistics, next minibatches and noise   | critic's         | last core                        | after that critic |
| critic, if the policy may stop early     | critic's         | last core                        | see below         |
| environments of worker i                 | worker process i | core i mod cores                 | collection        |

The critic of a policy that may stop early waits for the policy's end, and then learns beside the next collection.  If
the workers keep all cores busy, it learns beside the policy instead, one epoch at a time.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from toppo.algos.contract import AdamResult, Tree

T = TypeVar("T")
Fit = Callable[[Tree, Tree, np.ndarray, int], AdamResult]
"""parameters, optimiser, minibatches, epochs -> the critic after that many epochs"""


class CriticTask(NamedTuple):
    """A critic to fit."""

    fit: Fit
    params: Tree
    opt: Tree
    minibatches: np.ndarray

    def run(self, epochs: "Future[int]") -> AdamResult:
        """Fit for the policy's number of epochs; while that is not known, go on one epoch at a time."""
        if epochs.done():
            return self.fit(self.params, self.opt, self.minibatches, epochs.result())
        return self.fit_until_epochs_known(epochs)

    def fit_until_epochs_known(self, epochs: "Future[int]") -> AdamResult:
        """Return the critic after as many epochs as the policy took, from one epoch at a time."""
        results: list[AdamResult] = []
        while len(results) < (epochs.result() if epochs.done() else len(self.minibatches)):
            last = results[-1] if results else self
            results.append(self.fit(last.params, last.opt, self.minibatches[len(results) :][:1], 1))
        return results[epochs.result() - 1]


class Background(Generic[T]):
    """What runs beside the policy's update."""

    def __init__(self, thread: ThreadPoolExecutor, task: CriticTask | None, epochs: int | None) -> None:
        """Start nothing yet; ``epochs`` is None if only the policy's end tells how many there are."""
        self._thread = thread
        self._task = task
        self._epochs: Future[int] = Future()
        if epochs is not None:
            self._epochs.set_result(epochs)
        self._critic: Future[AdamResult] | None = None
        self._statistics: Future[T]

    def start(self, statistics: Callable[[], T], beside_policy: bool) -> None:
        """Start the statistics, after the critic if its epochs are known; an early-stopping one only on request."""
        if self._epochs.done():
            self._start_critic()
        self._statistics = self._thread.submit(statistics)
        if beside_policy:
            self._start_critic()

    def policy_took(self, epochs: int) -> None:
        """Give the critic the policy's number of epochs, and start it if it waits for that."""
        if not self._epochs.done():
            self._epochs.set_result(epochs)
        self._start_critic()

    def give_up(self) -> None:
        """Leave nobody waiting for a policy that failed."""
        self._epochs.cancel()

    def statistics(self) -> T:
        """Wait for the statistics."""
        return self._statistics.result()

    def critic(self) -> AdamResult | None:
        """Wait for the critic; None if it learns with the policy."""
        return self._critic.result() if self._critic else None

    def _start_critic(self) -> None:
        if self._task is not None and self._critic is None:
            self._critic = self._thread.submit(self._task.run, self._epochs)
