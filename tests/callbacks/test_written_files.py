"""Everything that training runs write is known to `utils/training_files.py`, so `set_logger_dir(..., "d")` leaves nothing."""

from __future__ import annotations

import os

import numpy as np
import pytest
from fakes.trainers import launch

from tensorpack_lite.callbacks.graph import DumpTensors
from tensorpack_lite.callbacks.monitor.csv_file import CSVWriter
from tensorpack_lite.callbacks.prof import GraphProfiler
from tensorpack_lite.callbacks.saver import MinSaver, ModelSaver
from tensorpack_lite.callbacks.top_k import TopKSaver
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.raw import DataFromList
from tensorpack_lite.diagnostics.nan.nan import TerminateOnNaN
from tensorpack_lite.input_source.feed import FeedInput
from tensorpack_lite.tfutils.summary import add_moving_summary
from tensorpack_lite.train.config import AutoResumeTrainConfig, TrainConfig
from tensorpack_lite.train.defaults import DEFAULT_MONITORS
from tensorpack_lite.train.model_desc import ModelDesc
from tensorpack_lite.utils import logger


class Model(ModelDesc):
    """The cost is a mean of x * w."""

    def inputs(self):
        return [tf.TensorSpec([None, 8, 8, 3], tf.float32, "image")]

    def build_graph(self, image):
        weight = tf.get_variable("w", initializer=1.0)
        cost = tf.reduce_mean(image * weight, name="cost")
        add_moving_summary(cost)
        return cost

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(0.1)


def train(values, callbacks, config=TrainConfig, epochs=2):
    """Train on images with one value each."""
    data = FeedInput(DataFromList([[np.full([2, 8, 8, 3], value, "float32")] for value in values]))
    launch(
        kind=config,
        model=Model(),
        data=data,
        callbacks=[ModelSaver(), *callbacks],
        monitors=[*DEFAULT_MONITORS(), CSVWriter()],
        steps_per_epoch=2,
        max_epoch=epochs,
    )


def delete(directory):
    """Delete the training and return the names that stay."""
    logger.set_logger_dir(directory, action="d")
    return os.listdir(directory)


@pytest.mark.slow
def test_files_of_callbacks(log_dir):
    """The files of savers, monitors, dumps and of two resumed training runs."""

    def callbacks():
        best = [MinSaver("cost", filename="best"), MinSaver("cost", reverse=True), TopKSaver("cost", k=2)]
        return [*best, DumpTensors(["w"]), GraphProfiler(dump_metadata=True, dump_tracing=True)]

    train([1.0, 2.0, 3.0, 4.0], callbacks())
    os.remove(os.path.join(log_dir, "model-4.end"))  # as if the training had been killed after it saved
    train([1.0, 2.0, 3.0, 4.0], callbacks(), AutoResumeTrainConfig, epochs=3)
    train([1.0, 2.0, 3.0, 4.0], [])
    written = os.listdir(log_dir)
    for name in (
        "best.index",
        "max-cost.json",
        "DumpTensor-4.npz",
        "model-2.end",
        "stats.json.before-resume",
        "report.html",
    ):
        assert name in written
    assert ["log.log"] == delete(log_dir)


@pytest.mark.slow
def test_files_of_an_autopsy(log_dir):
    """The directory of a step with NaN, with a batch, a checkpoint and pictures."""
    with pytest.raises(FloatingPointError, match="loss is not finite"):
        train([1.0, float("nan")], [TerminateOnNaN()])
    assert ["nan-2"] == [name for name in os.listdir(log_dir) if name.startswith("nan")]
    assert ["log.log"] == delete(log_dir)
