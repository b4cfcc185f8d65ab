"""Inferencers: the statistics they compute from the values of datapoints."""

from __future__ import annotations

import numpy as np
import pytest
from fakes.trainers import CountingTrainer

from tensorpack_lite.callbacks.inference import (
    BinaryClassificationStats,
    ClassificationError,
    Inferencer,
    ScalarStats,
)
from tensorpack_lite.callbacks.monitor.monitors import Monitors
from tensorpack_lite.compat import tfv1 as tf


def report(inferencer, datapoints):
    """Run one round by hand; give what it reports."""
    trainer = CountingTrainer()
    trainer.monitors = Monitors([])
    trainer.monitors.setup_graph(trainer)
    inferencer.setup_graph(trainer)
    inferencer.before_epoch()
    for values in datapoints:
        inferencer.on_fetches(values)
    inferencer.trigger_epoch()
    return {name: history[-1][1] for name, history in trainer.monitors._history.items()}


class TestScalarStats:
    def test_means(self):
        """ScalarStats reports the mean over datapoints, under the prefix and the operation's name."""
        found = report(ScalarStats(["cost", "a/b:0"]), [[1.0, 10], [np.float32(2.0), 20]])
        assert {"validation_cost": 1.5, "validation_a/b": 15.0} == found

    def test_no_prefix(self):
        """With an empty prefix, the name is reported as it is."""
        assert {"cost": 1.0} == report(ScalarStats("cost", prefix=""), [[1.0]])

    def test_fetches(self):
        """Names of operations become names of tensors."""
        assert ["cost:0", "b:1"] == ScalarStats(["cost", "b:1"]).get_fetches()

    def test_each_round_begins_anew(self):
        """The second round does not include the values of the first."""
        stats = ScalarStats("cost", "")
        report(stats, [[1.0]])
        stats.before_epoch()
        stats.on_fetches([5.0])
        stats.trigger_epoch()

        assert 5.0 == stats.trainer.monitors.get_latest("cost")

    def test_scalars_only(self):
        """A vector raises ValueError at the first datapoint."""
        with pytest.raises(ValueError, match=r"ScalarStats: expected a scalar, got 'cost' of shape \(2,\)"):
            report(ScalarStats("cost"), [[np.zeros(2)]])


class TestClassificationError:
    def test_the_ratio_counts_examples(self):
        """Batches of different sizes are weighted by their number of examples."""
        error = ClassificationError()
        found = report(error, [[np.array([1, 0, 0, 0])], [np.array([1.0])]])

        assert {"validation_error": 2 / 5} == found
        assert (2, 5) == (error.err_stat.count, error.err_stat.total)

    def test_names(self):
        """The tensor and the statistic can be named."""
        error = ClassificationError("wrong-top1", "val-error")

        assert ["wrong-top1:0"] == error.get_fetches()
        assert {"val-error": 1.0} == report(error, [[np.ones(3)]])

    def test_vectors_only(self):
        """A scalar raises ValueError, because it does not show the size of the batch."""
        with pytest.raises(
            ValueError, match=r"ClassificationError: expected a vector .*got 'incorrect_vector' of shape \(\)"
        ):
            report(ClassificationError(), [[np.float32(0.5)]])

    @pytest.mark.parametrize("dtype", ["float16", "float32", tf.bfloat16.as_numpy_dtype, "uint8", "bool"], ids=str)
    def test_large_counts(self, dtype):
        """Counts are exact in every dtype: 300 examples, of which 100 are wrong, in each of 200 batches."""
        wrong = (np.arange(300) < 100).astype("float32").astype(dtype)
        error = ClassificationError()
        report(error, [[wrong]] * 200)
        error.on_fetches([np.array([2.0**24], "float32")])
        error.on_fetches([np.ones(1, "float32").astype(dtype)])
        assert (2**24 + 20001, 60002) == (error.err_stat.count, error.err_stat.total)


class TestBinaryClassificationStats:
    def test_precision_and_recall(self):
        """Precision and recall are computed over all datapoints together."""
        stats = BinaryClassificationStats("pred", "label")
        found = report(stats, [[np.array([1, 1, 0]), np.array([1, 0, 1])], [np.array([1]), np.array([1])]])

        assert ["pred:0", "label:0"] == stats.get_fetches()
        assert {"val_precision": 2 / 3, "val_recall": 2 / 3} == found

    def test_a_prefix(self):
        """The prefix distinguishes the names of the statistics."""
        found = report(BinaryClassificationStats("p", "l", prefix="x"), [[np.array([1]), np.array([1])]])
        assert {"x_precision": 1.0, "x_recall": 1.0} == found


class TestInferencer:
    def test_what_is_no_number_is_left_out(self, log_lines):
        """A value that is not a number logs a warning, and the other values are reported."""

        class Mine(Inferencer):
            def _get_fetches(self):
                return ["x"]

            def _on_fetches(self, results) -> None:
                pass

            def _after_inference(self):
                return {"text": "abc", "nothing": None, "array": np.array(3.0), "number": "2.5"}

        assert {"array": 3.0, "number": 2.5} == report(Mine(), [[1]])
        assert 2 == len([line for line in log_lines if "is not reported (expected a number" in line])

    def test_nothing_to_report(self):
        """_after_inference may return None."""

        class Mine(Inferencer):
            def _get_fetches(self):
                return ["x"]

            def _on_fetches(self, results) -> None:
                pass

        assert {} == report(Mine(), [[1]])
