"""MLflow's tracking."""

from __future__ import annotations

import re
import time
from typing import Any

from ...loop.state import Outcome
from ...utils.optional import load_optional
from .rows import RowMonitor

__all__ = ["MLflowMonitor"]

_STATUS = {Outcome.FAILED: "FAILED", Outcome.INTERRUPTED: "KILLED"}
_NOT_ALLOWED = re.compile(r"[^\w\-./ ]")


class MLflowMonitor(RowMonitor):
    """
    Send scalars to MLflow, at the steps of the training.

    The run starts before training and ends after it: as FINISHED if training finished or was stopped, FAILED if it
    failed, and KILLED if it was interrupted. See `Outcome`. MLflow's global "active run" is neither used nor changed.

    Args:
        experiment_name: the experiment; it is created if it does not exist.
        run_name: the run's name; None lets MLflow make one up.
        tracking_uri: where it goes: a server's address; `sqlite:///file`, which needs all of `mlflow`, not the extra's
            `mlflow-skinny`; `file:///directory`, which MLflow 3 allows where the environment variable
            MLFLOW_ALLOW_FILE_STORE is true. None means what MLflow is set to.
        params: a dictionary of hyper-parameters to show with the run.
        tags: a dictionary of tags.

    Raises:
        ImportError: MLflow is not installed.

    Attributes:
        run_id: the run's id, from before_train on.

    Runs at: before_train, trigger_step, trigger, after_train. Only in the chief process of a distributed training.

    Example:
        >>> MLflowMonitor("digits", params={"lr": 0.1})

    Note: MLflow allows letters, digits and "_-./ " in names; what else is in the name of a scalar becomes "_".
    """

    _chief_only = True

    def __init__(
        self,
        experiment_name: str = "Default",
        run_name: str | None = None,
        tracking_uri: str | None = None,
        params: dict[str, Any] | None = None,
        tags: dict[str, str] | None = None,
    ) -> None:
        super().__init__()
        self._mlflow = load_optional("mlflow", "MLflowMonitor")
        self._experiment_name = experiment_name
        self._run_name = run_name
        self._tracking_uri = tracking_uri
        self._params = dict(params or {})
        self._tags = dict(tags or {})
        self._client: Any = None
        self.run_id: str | None = None

    def _before_train(self) -> None:
        self._client = self._mlflow.MlflowClient(tracking_uri=self._tracking_uri)
        experiment = self._client.get_experiment_by_name(self._experiment_name)
        experiment_id = (
            self._client.create_experiment(self._experiment_name)
            if experiment is None
            else experiment.experiment_id
        )
        run = self._client.create_run(experiment_id, tags=self._tags, run_name=self._run_name)
        self.run_id = run.info.run_id
        for key, value in self._params.items():
            self._client.log_param(self.run_id, key, value)
        super()._before_train()

    def _write_row(self, row: dict[str, float]) -> None:
        now = int(time.time() * 1000)
        metrics = [
            self._mlflow.entities.Metric(_NOT_ALLOWED.sub("_", name), float(value), now, self.global_step)
            for name, value in {**row, "epoch_num": self.epoch_num}.items()
        ]
        self._client.log_batch(self.run_id, metrics=metrics)

    def _after_train(self) -> None:
        if self.run_id is not None:
            status = _STATUS.get(self.trainer.loop.outcome, "FINISHED")
            self._client.set_terminated(self.run_id, status=status)
