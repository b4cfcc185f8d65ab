"""Inference over a data set without samples: nothing is reported, for every inferencer and runner."""

from __future__ import annotations

import numpy as np
import pytest
from fakes.trainers import ScalingTrainer, run

from tensorpack_lite.callbacks.best_saver import MinSaver
from tensorpack_lite.callbacks.inference import (
    BinaryClassificationStats,
    ClassificationError,
    Inferencer,
    ScalarStats,
)
from tensorpack_lite.callbacks.inference_runner import DataParallelInferenceRunner, InferenceRunner
from tensorpack_lite.callbacks.saver import ModelSaver
from tensorpack_lite.callbacks.sharded_inference import ShardedInferenceRunner
from tensorpack_lite.callbacks.worst_samples import WorstSamples
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.raw import DataFromGenerator, DataFromList

NO_SAMPLES, TWO_SAMPLES = [np.zeros([0], "float32")], [np.float32([0, 1])]


class Median(Inferencer):
    """An inferencer that would fail without values."""

    def _before_inference(self):
        self.values = []

    def _get_fetches(self):
        return ["x"]

    def _on_fetches(self, results):
        self.values.append(results[0])

    def _after_inference(self):
        return {"median": np.median(np.concatenate(self.values))}


def inferencers():
    return [
        ScalarStats("total"), ClassificationError("x"), BinaryClassificationStats("x", "x"), Median(),
        WorstSamples("x", ["x"]),
    ]  # fmt: skip


NAMES = ["validation_total", "validation_error", "val_precision", "val_recall", "median"]


def trainer_with_a_sum():
    """Return a trainer whose model also has a sum, which is 0 without samples."""
    return ScalingTrainer(build=lambda: tf.reduce_sum(tf.get_default_graph().get_tensor_by_name(_x()), name="total"))


def _x():
    scope = tf.get_default_graph().get_name_scope()
    return f"{scope}/y:0" if scope else "y:0"


def flow(*datapoints):
    return DataFromList(list(datapoints), shuffle=False)


class TestNoSample:
    @pytest.mark.parametrize(
        "make_flow",
        [flow, lambda: flow(NO_SAMPLES, NO_SAMPLES, NO_SAMPLES)],
        ids=["no batch", "empty batches"],
    )
    @pytest.mark.parametrize(
        "runner",
        [InferenceRunner, ShardedInferenceRunner, lambda *args: DataParallelInferenceRunner(*args, gpus=2)],
        ids=["one", "sharded", "parallel"],
    )
    def test_nothing_is_reported(self, make_flow, runner, log_lines):
        """Without samples, no inferencer reports anything, and each one logs a warning."""
        trainer = run(trainer_with_a_sum(), [runner(make_flow(), inferencers())], epochs=1)

        assert [[]] * len(NAMES) == [trainer.monitors.get_history(name) for name in NAMES]
        for inf in inferencers():
            assert any(f"{inf}: the data is empty, so nothing is reported" in line for line in log_lines), inf

    def test_one_empty_batch(self):
        """A batch without samples has no weight among others."""
        runner = InferenceRunner(flow(TWO_SAMPLES, NO_SAMPLES), [*inferencers(), ScalarStats("cost", "mean")])
        trainer = run(trainer_with_a_sum(), [runner], epochs=1)

        found = {name: trainer.monitors.get_latest(name) for name in [*NAMES, "mean_cost"]}
        wanted = {"validation_total": 3.0, "validation_error": 0.5, "val_precision": 1.0, "val_recall": 1.0}
        assert {**wanted, "median": 0.5, "mean_cost": 1.5} == found

    def test_a_vector_that_is_always_empty(self):
        """ClassificationError and BinaryClassificationStats without elements report nothing, though there is data."""
        build = lambda: tf.zeros([0], name="none")  # noqa: E731
        infs = [ClassificationError("none"), BinaryClassificationStats("none", "none")]
        trainer = run(ScalingTrainer(build=build), [InferenceRunner(flow(TWO_SAMPLES), infs)], epochs=1)

        assert [[]] * 3 == [trainer.monitors.get_history(name) for name in NAMES[1:4]]


def test_a_used_up_generator_is_not_the_best(tmp_path):
    """MinSaver keeps the model of the epoch that had data."""
    savers = [
        ModelSaver(checkpoint_dir=str(tmp_path)),
        MinSaver("validation_error", checkpoint_dir=str(tmp_path)),
    ]
    runner = InferenceRunner(DataFromGenerator(iter([TWO_SAMPLES])), ClassificationError("x"))
    trainer = run(ScalingTrainer(), [runner, *savers], epochs=3)

    assert [(2, 0.5)] == trainer.monitors.get_history("validation_error")
    assert (2, 0.5) == savers[1].best


def test_no_data_in_the_first_epoch(tmp_path, log_lines):
    """A callback that reads the statistic warns, because the name is right, and training continues."""
    runner = InferenceRunner(flow(), ClassificationError("x"))
    savers = [
        ModelSaver(checkpoint_dir=str(tmp_path)),
        MinSaver("validation_error", checkpoint_dir=str(tmp_path)),
    ]
    run(ScalingTrainer(), [runner, *savers])

    assert savers[1].best is None
    assert any("InferenceRunner may report it later" in line for line in log_lines)
