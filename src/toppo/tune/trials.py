"""The trials of a search in an Optuna study, which is an SQLite file.

A trial is stored in one transaction when it is drawn and in one when it ends, so that a kill leaves it whole.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

from toppo.errors import IO_ERROR, ToppoError, first_line, install_command
from toppo.rng import Stream, seed_for
from toppo.tune.space import Choices, Range, Space

STUDY = "toppo"
FAULT = "fault"
TRIALS_BEFORE_PRUNING = 5
MIN_FOR_IMPORTANCE = 12  # finished trials, of which three are the best quarter
PARTS = 10  # points of a run's learning curve at which its trial may be pruned
FIRST_PART_TO_PRUNE = 3  # before it, a policy has hardly learnt

TrialState = Literal["running", "finished", "pruned", "failed"]


class Trial(NamedTuple):
    """One trial: settings, and what came of them."""

    number: int
    key: int  # in the storage
    drawn: dict[str, Any]
    state: TrialState
    value: float | None  # the objective, of a finished trial
    curve: dict[int, float]  # mean training return, by part of the trial's steps
    fault: str


class Trials:
    """The stored trials, and the sampler that draws further ones."""

    def __init__(self, path: Path, space: Space, seed: int, prune: bool) -> None:
        """Open the storage, or make it."""
        optuna = import_optuna()
        from sqlalchemy import URL

        self._optuna = optuna
        self._space = space
        self._seed = seed
        self._pruner = optuna.pruners.MedianPruner(TRIALS_BEFORE_PRUNING, FIRST_PART_TO_PRUNE) if prune else None
        # An address in which letters such as ? have no meaning.
        address = URL.create("sqlite", database=str(path.absolute())).render_as_string()
        self._storage = optuna.storages.RDBStorage(address)
        self._study = optuna.create_study(
            storage=self._storage, study_name=STUDY, direction="maximize", load_if_exists=True
        )
        self._study_key = self._storage.get_study_id_from_name(STUDY)

    def all(self) -> list[Trial]:
        """Return every trial, by number."""
        return [self._trial(found) for found in self._study.get_trials(deepcopy=False)]

    def draw(self) -> Trial:
        """Draw the settings of a further trial; they depend on the seed and on the trials so far alone."""
        optuna = self._optuna
        known = self._study.get_trials(deepcopy=False)
        sampler = optuna.samplers.TPESampler(seed=seed_for(self._seed, Stream.TUNING, len(known)))
        memory = optuna.create_study(direction="maximize", sampler=sampler)
        memory.add_trials(known)
        distributions = {name: self._distribution(entry) for name, entry in self._space.searched.items()}
        drawn = memory.ask(distributions).params
        running = optuna.trial.create_trial(
            state=optuna.trial.TrialState.RUNNING, params=drawn, distributions=distributions
        )
        key = self._storage.create_new_trial(self._study_key, template_trial=running)
        return self._trial(self._storage.get_trial(key))

    def report(self, trial: Trial, part: int, mean_return: float) -> None:
        """Add a point to the learning curve of a running trial."""
        self._storage.set_trial_intermediate_value(trial.key, part, mean_return)

    def is_below_median(self, trial: Trial) -> bool:
        """Is the best point of the trial's curve so far below the median of the others at its last point?"""
        return self._pruner is not None and self._pruner.prune(self._study, self._storage.get_trial(trial.key))

    def finish(self, trial: Trial, value: float) -> None:
        """Store the objective of a trial."""
        self._storage.set_trial_state_values(trial.key, self._optuna.trial.TrialState.COMPLETE, [value])

    def prune(self, trial: Trial) -> None:
        """End a trial before its budget."""
        curve = self._storage.get_trial(trial.key).intermediate_values
        self._storage.set_trial_state_values(trial.key, self._optuna.trial.TrialState.PRUNED, [curve[max(curve)]])

    def fail(self, trial: Trial, fault: str) -> None:
        """End a trial that has no objective."""
        self._storage.set_trial_user_attr(trial.key, FAULT, fault)
        self._storage.set_trial_state_values(trial.key, self._optuna.trial.TrialState.FAIL)

    def importances(self) -> dict[str, float]:
        """Return how much each setting decides whether a trial is among the best quarter; they sum to 1."""
        finished = [trial for trial in self.all() if trial.value is not None]
        if len(finished) < MIN_FOR_IMPORTANCE:
            return {}
        ped_anova = self._optuna.importance.PedAnovaImportanceEvaluator(target_quantile=0.25)
        return dict(self._optuna.importance.get_param_importances(self._study, evaluator=ped_anova))

    def close(self) -> None:
        """Close the connections."""
        self._storage.remove_session()
        self._storage.engine.dispose()

    def _trial(self, found: Any) -> Trial:
        states = self._optuna.trial.TrialState
        names: dict[Any, TrialState] = {
            states.COMPLETE: "finished",
            states.PRUNED: "pruned",
            states.FAIL: "failed",
        }
        state = names.get(found.state, "running")
        return Trial(
            number=found.number,
            key=self._storage.get_trial_id_from_study_id_trial_number(self._study_key, found.number),
            drawn=found.params,
            state=state,
            value=found.value if state == "finished" else None,
            curve=dict(found.intermediate_values),
            fault=str(found.user_attrs.get(FAULT, "")),
        )

    def _distribution(self, entry: Range | Choices) -> Any:
        distributions = self._optuna.distributions
        if isinstance(entry, Choices):
            return distributions.CategoricalDistribution(list(entry.values))
        kind = distributions.IntDistribution if isinstance(entry.low, int) else distributions.FloatDistribution
        return kind(entry.low, entry.high, log=entry.log)


def import_optuna() -> Any:
    """Import Optuna, and let it tell only what went wrong."""
    try:
        import optuna
    except ImportError as error:
        raise ToppoError(f"toppo tune needs the package optuna: {install_command('tune')}") from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


@contextmanager
def naming_storage(path: Path) -> Iterator[None]:
    """Turn what Optuna and its database raise into a sentence."""
    optuna = import_optuna()
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (optuna.exceptions.OptunaError, SQLAlchemyError) as error:
        raise ToppoError(
            f"{path} cannot be used as an Optuna study ({first_line(error)}): every trial that it holds is intact; "
            "fix that, or choose another --out",
            IO_ERROR,
        ) from error
