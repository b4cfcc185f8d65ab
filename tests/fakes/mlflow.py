"""A fake of MLflow with the functions that the library uses. `tox -e monitors` uses the real MLflow."""

from __future__ import annotations

from types import SimpleNamespace


class FakeMlflow:
    """
    Records its calls in `calls`.

    Args:
        experiments: names of existing experiments.
    """

    def __init__(self, *experiments) -> None:
        self.experiments, self.calls = list(experiments), []
        self.entities = SimpleNamespace(
            Metric=lambda key, value, timestamp, step: (key, value, step), Param=lambda key, value: (key, value)
        )

    def MlflowClient(self, tracking_uri):
        self.calls.append(("client", tracking_uri))
        return self

    def get_experiment_by_name(self, name):
        return SimpleNamespace(experiment_id=f"id of {name}") if name in self.experiments else None

    def create_experiment(self, name):
        self.calls.append(("experiment", name))
        return f"id of {name}"

    def create_run(self, experiment_id, tags, run_name):
        self.calls.append(("run", experiment_id, tags, run_name))
        return SimpleNamespace(info=SimpleNamespace(run_id="r1"))

    def update_run(self, run_id, status):
        self.calls.append(("update", run_id, status))

    def log_batch(self, run_id, metrics=(), params=()):
        self.calls.append(("params", run_id, params) if params else ("metrics", run_id, metrics))

    def log_text(self, run_id, text, artifact_file):
        self.calls.append(("text", run_id, text, artifact_file))

    def set_terminated(self, run_id, status):
        self.calls.append(("end", run_id, status))
