"""Monitor for MLflow."""

from __future__ import annotations

import re
import time
from typing import Any, Mapping, Sequence

from ...loop.state import Outcome
from ...utils import logger
from ...utils.hyperparams import Value
from ...utils.optional import load_optional
from .rows import CONTINUED, RowMonitor

_STATUS: dict[Outcome | None, str] = {Outcome.FAILED: "FAILED", Outcome.INTERRUPTED: "KILLED"}
_MAX_PARAMS, _MAX_CHARS = 100, 250  # of a request, and of a value in older versions of MLflow
_NOT_ALLOWED = re.compile(r"[^\w\-./ ]")


class MLflowMonitor(RowMonitor):
    """
    Monitor that sends scalars and texts to MLflow, with the step at which they were reported, and the hyper-parameters.

    The run starts before training and ends after it, with status FINISHED if training finished or was
    stopped, FAILED if it failed, and KILLED if it was interrupted; see `Outcome`. A training that resumes
    from a checkpoint continues the run. The run then has scalars twice that were reported after the
    checkpoint, which the log says. MLflow's global "active run" is neither used nor changed.

    Args:
        experiment_name: name of the experiment; it is created if it does not exist.
        run_name: name of the run; None lets MLflow choose one.
        tracking_uri: the destination: a server's address; `sqlite:///file`, which needs the package `mlflow`
            instead of the extra's `mlflow-skinny`; or `file:///directory`, which MLflow 3 allows only if the
            environment variable MLFLOW_ALLOW_FILE_STORE is true. None means MLflow's configured URI.
        params: dictionary of hyper-parameters of the run, which replace recorded ones of the same names.
        tags: dictionary of tags.

    Raises:
        ImportError: MLflow is not installed.

    Attributes:
        run_id: id of the run, available from before_train on; in a resumed training, from before_epoch on.

    Runs at: before_train, trigger_step, trigger, after_train. Only in the chief process of a distributed training.

    Example:
        >>> MLflowMonitor("digits", params={"lr": 0.1})

    Note: MLflow allows letters, digits and "_-./ " in names; any other character in the name of a scalar becomes "_".
    """

    _chief_only = True

    def __init__(
        self,
        experiment_name: str = "Default",
        run_name: str | None = None,
        tracking_uri: str | None = None,
        params: Mapping[str, object] | None = None,
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
        if not self.trainer.loop.is_resumed:
            self._start_run()
        super()._before_train()

    def _before_epoch(self) -> None:
        if self.run_id is None:  # the checkpoint has no run
            self._start_run()

    def _start_run(self) -> None:
        experiment = self._client.get_experiment_by_name(self._experiment_name)
        if experiment is None:
            experiment_id = self._client.create_experiment(self._experiment_name)
        else:
            experiment_id = experiment.experiment_id
        run = self._client.create_run(experiment_id, tags=self._tags, run_name=self._run_name)
        self.run_id = run.info.run_id
        param = self._mlflow.entities.Param
        valid = {_NOT_ALLOWED.sub("_", name): str(value) for name, value in self._params.items()}
        params = [param(name, value) for name, value in valid.items()]
        for first in range(0, len(params), _MAX_PARAMS):
            self._client.log_batch(self.run_id, params=params[first : first + _MAX_PARAMS])

    def process_hyperparams(self, values: Mapping[str, Value]) -> None:
        """Keep hyper-parameters until the run starts. MLflow changes none of a run that is continued."""
        short = {name: value[:_MAX_CHARS] if isinstance(value, str) else value for name, value in values.items()}
        self._params = {**short, **self._params}

    def process_text(self, name: str, val: Sequence[str]) -> None:
        """Send texts as a file of the run, named after the step."""
        if self.run_id is not None:
            path = f"{_NOT_ALLOWED.sub('_', name)}/{self.global_step}.txt"
            self._client.log_text(self.run_id, "\n\n".join(val), path)

    def state_dict(self) -> dict[str, Any] | None:
        """Return the id of the run, and the scalars collected so far."""
        return {**(super().state_dict() or {}), "run_id": self.run_id}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue the run."""
        super().load_state_dict(state)
        self.run_id = state.get("run_id")
        if self.run_id is not None:
            self._client.update_run(self.run_id, status="RUNNING")
            logger.info(f"{self}: {CONTINUED.format(self.run_id)}")

    def _write_row(self, row: dict[str, float]) -> None:
        if self.run_id is None:  # the checkpoint has scalars, but no run
            self._start_run()
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
