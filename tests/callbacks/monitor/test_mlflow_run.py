"""MLflowMonitor with the real MLflow in a local directory: `tox -e monitors`."""

from __future__ import annotations

import contextlib
import sys
from unittest import mock

import pytest
from fakes.mlflow import FakeMlflow
from fakes.trainers import CountingTrainer, run

from tensorpack_lite.callbacks.monitor.mlflow_run import MLflowMonitor
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.diagnostics.manifest.hyperparams import RecordHyperParams
from tensorpack_lite.loop.callback_factory import CallbackFactory
from tensorpack_lite.loop.state import StopTraining


class TestWhatItSends:
    @staticmethod
    def train(monkeypatch, mlflow, trigger, **arguments):
        """One epoch of two steps; returns what was sent."""
        monkeypatch.setitem(sys.modules, "mlflow", mlflow)
        monitor = MLflowMonitor("digits", tracking_uri="here", **arguments)
        run(CountingTrainer(), [CallbackFactory(trigger=trigger)], [monitor], epochs=1)
        return mlflow.calls

    def test_a_run(self, monkeypatch):
        """
        It creates an experiment and a run, sends parameters and scalars with valid names and their steps, and
        ends the run.
        """

        def put(self) -> None:
            self.trainer.monitors.put_scalar("Peak(MB)/gpu:0", 0.5)

        calls = self.train(monkeypatch, FakeMlflow(), put, run_name="first", params={"lr": 0.1}, tags={"a": "b"})
        assert [
            ("client", "here"),
            ("experiment", "digits"),
            ("run", "id of digits", {"a": "b"}, "first"),
            ("params", "r1", [("lr", "0.1")]),
            ("metrics", "r1", [("Peak_MB_/gpu_0", 0.5, 2), ("epoch_num", 1.0, 2)]),
            ("end", "r1", "FINISHED"),
        ] == calls

    def test_hyperparams_and_texts(self, monkeypatch):
        """Recorded hyper-parameters are sent in requests of 100 with valid names and short values; those of the user win."""

        def put(self) -> None:
            self.trainer.monitors.put_text("a:b", ["one", "two"])

        recorded = RecordHyperParams({"lr": 0.5, "A#2.b": "x" * 300, **{f"n{k}": k for k in range(99)}})
        monkeypatch.setitem(sys.modules, "mlflow", FakeMlflow())
        monitor = MLflowMonitor("digits", params={"lr": 0.1})
        run(CountingTrainer(), [recorded, CallbackFactory(trigger=put)], [monitor], epochs=1)
        first, second, text = [call for call in monitor._client.calls if call[0] in ("params", "text")]
        assert [100, 1] == [len(first[2]), len(second[2])]
        sent = dict(first[2] + second[2])
        assert ("0.1", "x" * 250, "98") == (sent["lr"], sent["A_2.b"], sent["n98"])
        assert ("text", "r1", "one\n\ntwo", "a_b/2.txt") == text

    def test_an_experiment_that_exists(self, monkeypatch):
        """An existing experiment is used."""
        calls = self.train(monkeypatch, FakeMlflow("digits"), lambda self: None)
        assert ("run", "id of digits", {}, None) == calls[1]

    @pytest.mark.parametrize(
        ("error", "status"),
        [
            (StopTraining("enough"), "FINISHED"),
            (tf.errors.OutOfRangeError(None, None, "no more data"), "FINISHED"),
            (RuntimeError("mine"), "FAILED"),
            (KeyboardInterrupt(), "KILLED"),
        ],
        ids=lambda value: type(value).__name__,
    )
    def test_the_outcome(self, monkeypatch, error, status):
        """A stopped training is FINISHED, a failed one FAILED, and an interrupted one KILLED."""
        mlflow = FakeMlflow()
        with contextlib.suppress(RuntimeError, KeyboardInterrupt):
            self.train(monkeypatch, mlflow, mock.Mock(side_effect=error))
        assert ("end", "r1", status) == mlflow.calls[-1]

    def test_a_training_that_never_began(self, monkeypatch):
        """A training that fails before the run exists ends no run."""
        monkeypatch.setitem(sys.modules, "mlflow", FakeMlflow())
        monitor = MLflowMonitor()
        monitor.after_train()
        assert monitor.run_id is None


@pytest.mark.slow
class TestARun:
    @pytest.fixture
    def client(self, tmp_path, monkeypatch):
        """Asks what is in the directory."""
        mlflow = pytest.importorskip("mlflow", reason="MLflow is not installed; tox -e monitors has it")
        # MLflow 3 asks for it where it writes to a directory
        monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
        return mlflow.MlflowClient(tracking_uri=(tmp_path / "runs").as_uri())

    @staticmethod
    def train(client, callbacks, **arguments):
        """Two epochs of two steps; returns the monitor."""
        monitor = MLflowMonitor("digits", tracking_uri=client.tracking_uri, **arguments)
        with tf.Graph().as_default():
            run(CountingTrainer(), callbacks, [monitor])
        return monitor

    def test_what_is_there(self, client):
        """
        The run holds scalars with their steps, hyper-parameters, tags and its name; invalid characters in names
        are replaced.
        """

        def put(self) -> None:
            self.trainer.monitors.put_scalar("PeakMemory(MB)/gpu:0", self.global_step * 0.5)

            self.trainer.monitors.put_text("samples", "to be or not")

        callbacks = [RecordHyperParams(lr=0.5, depth=3), CallbackFactory(trigger=put)]
        monitor = self.train(client, callbacks, run_name="first", params={"lr": 0.1}, tags={"a": "b"})
        found = client.get_run(monitor.run_id)
        history = client.get_metric_history(monitor.run_id, "PeakMemory_MB_/gpu_0")

        assert [(2, 1.0), (4, 2.0)] == [(metric.step, metric.value) for metric in history]
        assert [1, 2] == [m.value for m in client.get_metric_history(monitor.run_id, "epoch_num")]
        assert ["samples"] == [one.path for one in client.list_artifacts(monitor.run_id)]
        assert ("FINISHED", {"lr": "0.1", "depth": "3"}) == (found.info.status, found.data.params)
        assert ("first", "b") == (found.data.tags["mlflow.runName"], found.data.tags["a"])

    def test_the_experiment_is_made_once(self, client):
        """Two runs share one experiment."""
        ids = [client.get_run(self.train(client, []).run_id).info.experiment_id for _ in range(2)]

        assert client.get_experiment_by_name("digits").experiment_id == ids[0] == ids[1]
