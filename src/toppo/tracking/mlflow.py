"""MLflow."""

import os
import time
from collections.abc import Mapping

from mlflow import MlflowClient
from mlflow.entities import Metric, Param

from toppo.tracking import Opening

TAG = "toppo.id"
CLOCK = "time/total_timesteps"  # every step has it
MAX_PARAM = 250  # characters that every version of MLflow takes


class MLflow:
    """A run of MLflow; its store says which steps it has."""

    def __init__(self, opening: Opening) -> None:
        """Start or continue a run in the store that ``MLFLOW_TRACKING_URI`` names, or in MLflow's own default."""
        self._client = MlflowClient()
        project = opening.project or os.environ.get("MLFLOW_EXPERIMENT_NAME") or "toppo"
        known = self._client.get_experiment_by_name(project)
        experiment = known.experiment_id if known else self._client.create_experiment(project)
        runs = self._client.search_runs([experiment], f"tags.`{TAG}` = '{opening.id}'", max_results=1)
        self._run = runs[0] if runs else self._new_run(experiment, opening)
        self._id = self._run.info.run_id
        self._client.update_run(self._id, status="RUNNING")
        self.last_step = int(self._run.data.metrics.get(CLOCK, -1))
        self.where = f"run {opening.name} of experiment {project}"

    def _new_run(self, experiment: str, opening: Opening):  # type: ignore[no-untyped-def]  # MLflow's Run
        run = self._client.create_run(experiment, run_name=opening.name, tags={TAG: opening.id})
        params = [Param(name, str(value)[:MAX_PARAM]) for name, value in opening.settings.items()]
        self._client.log_batch(run.info.run_id, params=params)
        return run

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Add the values of a step, all or none."""
        now = int(time.time() * 1000)
        self._client.log_batch(self._id, metrics=[Metric(name, value, now, step) for name, value in values.items()])

    def close(self) -> None:
        """Mark the run as finished."""
        self._client.set_terminated(self._id)
