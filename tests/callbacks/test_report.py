"""ReportWriter and WorstSamples: the files that they write, and that they never end training."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest
from fakes.models import threes
from fakes.reports import page_of
from fakes.trainers import CountingTrainer, ScalingTrainer, launch, run

from tensorpack_lite.callbacks import report as module
from tensorpack_lite.callbacks.inference_runner import InferenceRunner
from tensorpack_lite.callbacks.report import ReportWriter
from tensorpack_lite.callbacks.worst_samples import WorstSamples
from tensorpack_lite.dataflow.batch import BatchData
from tensorpack_lite.dataflow.raw import DataFromList
from tensorpack_lite.input_source.feed import FeedInput
from tensorpack_lite.input_source.queueing import QueueInput
from tensorpack_lite.input_source.tfdata import TFDatasetInput
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.loop.callback_factory import CallbackFactory
from tensorpack_lite.report.page import write_report
from tensorpack_lite.report.samples import FIRST_BATCH, WORST, sample_path
from tensorpack_lite.utils.npz import read_npz


@pytest.fixture(autouse=True)
def no_time_limit(monkeypatch):
    """On a loaded machine, the report may take longer."""
    monkeypatch.setattr(module, "_MAX_SECONDS", 120)


def train(data=None, callbacks=(), max_epoch=2):
    """Train `Mean` with the default callbacks."""
    launch(data=data or FeedInput(threes()), callbacks=list(callbacks), steps_per_epoch=3, max_epoch=max_epoch)


def source_of(directory):
    """Return the text of the report in a directory."""
    with open(os.path.join(directory, "report.html"), encoding="utf-8") as file:
        return file.read()


class TestReportWriter:
    def test_finished(self, log_dir, log_lines):
        """A training with the default callbacks leaves a complete report, and its log ends with the path of the report."""
        train()
        source = source_of(log_dir)
        assert "finished after epoch 2 (6 steps)" in source
        assert "is missing" not in source
        assert f"The report of this training is {os.path.join(log_dir, 'report.html')}." == log_lines[-1]

    def test_failed(self, log_dir):
        """The report of a training that fails has its error."""

        def fail(self):
            raise ValueError("<b>no such thing</b>")

        with pytest.raises(ValueError, match="no such thing"):
            train(callbacks=[CallbackFactory(trigger=fail)])
        assert "failed in epoch 1" in source_of(log_dir)
        assert "ValueError: &lt;b&gt;no such thing&lt;/b&gt;" in source_of(log_dir)

    def test_without_a_directory(self):
        """Without a logger directory, nothing is written."""
        assert 4 == run(CountingTrainer(), [ReportWriter()]).global_step

    def test_error(self, log_dir, log_lines):
        """An error is logged, and training ends normally."""
        os.mkdir(os.path.join(log_dir, "report.html"))
        assert 4 == run(CountingTrainer(), [ReportWriter()]).global_step
        (line,) = [line for line in log_lines if line.startswith("ReportWriter: ")]
        assert "ReportWriter: cannot write report.html: IsADirectoryError" in line

    def test_time_limit(self, log_dir, log_lines, monkeypatch):
        """Training does not wait for a report that takes too long; the log has the command that writes it."""
        may_continue = threading.Event()

        def write_late(*args, **kwargs):
            may_continue.wait(60)
            write_report(*args, **kwargs)

        monkeypatch.setattr(module, "_MAX_SECONDS", 0.01)
        monkeypatch.setattr(module, "write_report", write_late)
        run(CountingTrainer(), [ReportWriter()])
        assert not os.path.exists(os.path.join(log_dir, "report.html"))
        may_continue.set()
        for thread in threading.enumerate():
            if thread.name == "ReportWriter":
                thread.join(60)
        assert any(f"run: tensorpack-lite report {log_dir}" in line for line in log_lines)

    @pytest.mark.law
    @pytest.mark.parametrize("make", [FeedInput, QueueInput, lambda ds: TFDatasetInput(ds)])
    def test_first_batch(self, log_dir, make):
        """Samples of the first batch are written after the first step, with the names of the inputs, as the graph got them."""
        seen = []
        data = BatchData(DataFromList([[k] for k in range(40)], shuffle=False), 20)

        class Look(Callback):
            def _before_epoch(self):
                seen.append(os.path.exists(sample_path(log_dir, FIRST_BATCH)))

        launch(data=make(data), callbacks=[Look()], max_epoch=2)
        assert [False, True] == seen
        batch = read_npz(sample_path(log_dir, FIRST_BATCH))
        assert {"x", "global_step"} == set(batch)
        assert np.float32 == batch["x"].dtype
        assert list(range(16)) == batch["x"].tolist()
        assert "The first batch, as the graph got it, at step 1" in page_of(log_dir).text

    def test_first_batch_cannot_be_written(self, log_dir, log_lines):
        """A disk error is logged, and training continues."""
        with open(os.path.join(log_dir, "samples"), "w"):
            pass
        train()
        assert 1 == sum("cannot write the first batch" in line for line in log_lines)


class TestWorstSamples:
    def evaluate(self, datapoints, inferencer):
        """Evaluate a model whose `y` is the input, with batches."""
        source = DataFromList([[np.float32(batch)] for batch in datapoints], shuffle=False)
        run(ScalingTrainer(), [InferenceRunner(source, inferencer)], steps=1, epochs=1)

    def test_largest(self, log_dir):
        """The samples with the largest values of all batches are kept, the largest first; NaN counts as the largest."""
        self.evaluate([[1, 9, 3], [8, np.nan, 2], [7, 0, 5]], WorstSamples("x", ["x", "y"], num_samples=4))
        worst = read_npz(sample_path(log_dir, WORST))
        np.testing.assert_array_equal([np.nan, 9, 8, 7], worst["x"])
        np.testing.assert_array_equal(worst["x"] * worst["y"][1] / worst["x"][1], worst["y"])
        assert 1 == worst["global_step"]

    def test_fewer(self, log_dir):
        """With fewer samples, all are kept."""
        self.evaluate([[1, 2]], WorstSamples("y", ["x"]))
        assert [2, 1] == read_npz(sample_path(log_dir, WORST))["x"].tolist()

    def test_not_per_sample(self, log_dir):
        """A loss that is a scalar is an error with advice."""
        with pytest.raises(
            ValueError, match=r"expected the losses of the samples, of shape \[N\], got 'cost' of shape \(\)"
        ):
            self.evaluate([[1, 2]], WorstSamples("cost", ["x"]))

    def test_other_number(self, log_dir):
        """A tensor that has no value for each sample is an error."""
        with pytest.raises(ValueError, match=r"expected 2 samples, got 'cost' of shape \(\)"):
            self.evaluate([[1, 2]], WorstSamples("y", ["cost"]))

    def test_without_a_directory(self):
        """Without a logger directory, nothing is written."""
        self.evaluate([[1, 2]], WorstSamples("y", ["x"]))
